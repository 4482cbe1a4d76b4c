//! A decomposer of one's own in Rust: the same cases as `examples/cases.py`, all pairs (width, height) with width * height
//! up to a limit. Build it with `cargo build --release --example cases -p starfarm-decomposers`, and name it in the job
//! file: `program = ["./cases", "1000"]`. What is said and heard is in `docs/own-decomposer.md`.

use std::io::{self, BufRead, Write};

use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Asked {
    /// So many units, at most.
    next: u32,
    /// The next pair, as this program said last.
    state: Option<(u64, u64)>,
}

fn main() -> io::Result<()> {
    let limit: u64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1_000);
    let mut out = io::BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let Asked { next, state } = serde_json::from_str(&line?)?;
        let (mut width, mut height) = state.unwrap_or((1, 1));
        let mut named = 0;
        while named < next && width <= limit {
            writeln!(out, "{}", json!({ "unit": [width, height], "cost": width * height }))?;
            named += 1;
            (width, height) =
                if width * (height + 1) <= limit { (width, height + 1) } else { (width + 1, 1) };
        }
        let closing =
            if width > limit { json!({ "end": true }) } else { json!({ "state": (width, height) }) };
        writeln!(out, "{closing}")?;
        out.flush()?;
    }
    Ok(())
}
