//! The section `[trust]`.

use expect_test::expect;
use starfarm_protocol::trust::{Share, TrustChecks};

use super::*;

/// A search; `[trust]` begins in line 8.
fn with_trust(lines: &str) -> String {
    let digest = "0".repeat(32);
    format!("{CHARS}executor = \"search\"\nalgorithm = \"md5\"\ntargets = [\"{digest}\"]\n[trust]\n{lines}\n")
}

#[test]
fn what_is_asked_for_is_asked_for() {
    for (lines, millionths, planted) in [
        ("", 0, 0),
        ("check = 0.01", 10_000, 0),
        ("check = 1\nplanted = 10_000", 1_000_000, 10_000),
        ("check = 0\nplanted = 0", 0, 0),
        ("planted = 20", 0, 20),
    ] {
        let asked = TrustChecks { check: Share::of_millionths(millionths).unwrap(), planted };
        assert_eq!(parse(&with_trust(lines), "demo.toml", Path::new("")).unwrap().trust, asked, "{lines}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let lines =
        ["check = 1.5", "check = -0.1", "check = 1e-9", "check = nan", "check = \"1 %\"", "planted = 10001"];
    let more = ["planted = -1", "planted = 0.5", "chekc = 0.1"];
    let mut texts: Vec<String> = lines.into_iter().chain(more).map(with_trust).collect();
    texts.push(format!("{RANGE}executor = \"command\"\nprogram = [\"true\"]\n[trust]\ncheck = 0.1\n"));
    texts.push(format!("trust = 0.1\n{RANGE}executor = \"command\"\nprogram = [\"true\"]\n"));
    refused(
        &texts,
        expect![[r#"
        demo.toml:9:9: `check`: a share is 0, or 0.000001 to 1, not 1.5: change it
        demo.toml:9:9: `check`: a share is 0, or 0.000001 to 1, not -0.1: change it
        demo.toml:9:9: `check`: a share is 0, or 0.000001 to 1, not 0.000000001: change it
        demo.toml:9:9: `check`: a share is 0, or 0.000001 to 1, not NaN: change it
        demo.toml:9:9: `check` must be a number, this is a string: change it
        demo.toml:9:11: `planted` is 10001: use an integer from 0 to 10000
        demo.toml:9:11: `planted` is -1: use an integer from 0 to 10000
        demo.toml:9:11: `planted` must be an integer, this is a float: change it
        demo.toml:9:1: unknown key `chekc` in [trust]: remove it, or use one of check, planted
        demo.toml:8:1: only a search has trust checks: remove [trust], or use executor = "search"
        demo.toml:1:9: `trust` must be a table, this is a float: change it
    "#]],
    );
}
