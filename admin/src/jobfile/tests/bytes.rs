//! Job files that come from elsewhere: mutants of good ones are read, or refused in words.

use std::path::Path;

use super::{COMMAND, SEARCH, parse};

#[test]
fn mutants_of_good_job_files() {
    let good = [
        format!("name = \"demo\"\n[space]\nkind = \"chars\"\nmask = \"?l?d?u\"\n{SEARCH}"),
        format!(
            "[space]\nkind = \"range\"\nfrom = -5\nto = 1000\nstep = 3\n{COMMAND}retries = 2\nmax_failures = 50\n"
        ),
        format!("[space]\nkind = \"frames\"\nfirst = 1\nlast = 250\n{COMMAND}timeout_seconds = 1.5\n"),
        format!(
            "[space]\nkind = \"grid\"\n[space.grid]\nsize = [1, 2.5, \"x\"]\nmode = [\"a\", \"b\"]\n{COMMAND}"
        ),
        format!(
            "[space]\nkind = \"range\"\nfrom = 0\nto = 9\n{COMMAND}env = {{ A = \"{{}}\" }}\noutput_limit = \"strict:99\"\n"
        ),
    ];
    let good = good.map(String::into_bytes);
    for text in &good {
        let text = std::str::from_utf8(text).unwrap();
        let error = parse(text, "job.toml", Path::new("")).err();
        assert!(error.is_none(), "{text}\n{error:?}");
    }
    starfarm_fuzz::show("jobfile", &good, 4_000, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if let Err(error) = parse(text, "job.toml", Path::new("/nonexistent")) {
            assert!(error.to_string().starts_with("job.toml"), "{error}");
        }
    });
}
