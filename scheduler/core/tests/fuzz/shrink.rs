//! Makes a story that fails as short as it can be: lines go, then words, then numbers become smaller. What is left
//! fails in the same way.

use crate::play::Failure;
use crate::replay;

/// Stories that are tried at most.
const TRIES_MAX: usize = 4_000;

struct Shrinking<'a> {
    seed: u64,
    kind: &'a str,
    tries: usize,
}

impl Shrinking<'_> {
    fn still_fails(&mut self, lines: &[String]) -> bool {
        self.tries += 1;
        self.tries <= TRIES_MAX && replay(lines, self.seed).is_err_and(|failure| failure.kind == self.kind)
    }

    fn drop_lines(&mut self, lines: &mut Vec<String>) {
        let mut size = lines.len().div_ceil(2);
        while size > 0 {
            let mut at = lines.len();
            while at > 0 {
                let from = at.saturating_sub(size);
                let mut fewer = lines.clone();
                fewer.drain(from..at);
                if self.still_fails(&fewer) {
                    *lines = fewer;
                }
                at = from.min(lines.len());
            }
            size /= 2;
        }
    }

    fn shorten_lines(&mut self, lines: &mut [String]) {
        for at in 0..lines.len() {
            let mut tried = std::mem::take(&mut lines[at]);
            while let Some(shorter) = shorter(&tried).into_iter().find(|shorter| {
                lines[at].clone_from(shorter);
                self.still_fails(lines)
            }) {
                tried = shorter;
            }
            lines[at] = tried;
        }
    }
}

/// The line in a turn of its own; or without a word, or two that stand together; or with a smaller number.
fn shorter(line: &str) -> Vec<String> {
    if let Some(rest) = line.strip_prefix("& ") {
        let all = shorter(rest).into_iter().map(|shorter| format!("& {shorter}"));
        return std::iter::once(rest.to_owned()).chain(all).collect();
    }
    let words: Vec<&str> = line.split(' ').collect();
    let mut all = Vec::new();
    for size in [2, 1] {
        for at in 2..(words.len() + 1).saturating_sub(size) {
            all.push([&words[..at], &words[at + size..]].concat().join(" "));
        }
    }
    for (at, word) in words.iter().enumerate().skip(1) {
        let parts: Vec<&str> = word.split(',').collect();
        for part in 0..if parts.len() > 1 { parts.len() } else { 0 } {
            let fewer = [&parts[..part], &parts[part + 1..]].concat().join(",");
            all.push([&words[..at], &[&fewer], &words[at + 1..]].concat().join(" "));
        }
    }
    let digits = |c: char| c.is_ascii_digit();
    let mut from = 0;
    while let Some(start) = line[from..].find(digits).map(|at| from + at) {
        let end = line[start..].find(|c| !digits(c)).map_or(line.len(), |at| start + at);
        let number: u64 = line[start..end].parse().unwrap_or(0);
        let mut smaller = vec![0, 1, number / 2, number.saturating_sub(1)];
        smaller.retain(|&smaller| smaller < number);
        smaller.dedup();
        all.extend(smaller.into_iter().map(|number| format!("{}{number}{}", &line[..start], &line[end..])));
        from = end;
    }
    all
}

/// The shortest story found that fails as `failure` does, with its ending, and how it fails.
pub fn shrink(seed: u64, failure: &Failure) -> Failure {
    let mut shrinking = Shrinking { seed, kind: &failure.kind, tries: 0 };
    let mut lines = failure.lines.clone();
    loop {
        let before = lines.clone();
        shrinking.drop_lines(&mut lines);
        shrinking.shorten_lines(&mut lines);
        if lines == before || shrinking.tries > TRIES_MAX {
            break;
        }
    }
    replay(&lines, seed).expect_err("it still fails")
}
