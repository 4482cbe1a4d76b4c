//! What a job file can say.

use std::sync::Arc;

use expect_test::{Expect, expect};
use starfarm_decomposers::{Decomposer, NoChunks, open};
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::job::{MaxFailures, Sizing};
use starfarm_protocol::spec::{Chunk, JobSpec, Space, Stop, Work};
use starfarm_protocol::terms::Terms;
use starfarm_protocol::unit_set::UnitSet;

use super::*;
use crate::jobfile::read;

fn space_of(text: &str) -> Box<dyn Decomposer> {
    open(&parsed(text).unwrap().spec.space, Arc::new(NoChunks)).unwrap()
}

/// The values of the units of `[space]` as it is written in `space`, joined by blanks.
#[track_caller]
fn units(space: &str, work: &str, expected: Expect) {
    let opened = space_of(&format!("[space]\n{space}{work}"));
    let value = |unit| String::from_utf8_lossy(&opened.value(unit).unwrap()).into_owned();
    expected.assert_eq(&(0..opened.units()).map(value).collect::<Vec<_>>().join(" "));
}

#[test]
fn the_example_of_the_contract() {
    let text = "name = \"demo\"\n[space]\nkind = \"chars\"\nmask = \"?l?l?l?d\"\n[task]\nexecutor = \"search\"\n\
                algorithm = \"md5\"\ntargets = [\"D41D8CD98F00B204E9800998ECF8427E\", \
                \"00000000000000000000000000000000\", \"d41d8cd98f00b204e9800998ecf8427e\"]\n\
                stop = \"all-targets\"\ntarget_seconds = 8\n";
    check_in(
        &Folder::new(),
        text,
        expect![[r#"
            JobFile {
                name: "demo",
                spec: JobSpec {
                    space: Chars {
                        positions: [
                            6162636465666768696a6b6c6d6e6f707172737475767778797a,
                            6162636465666768696a6b6c6d6e6f707172737475767778797a,
                            6162636465666768696a6b6c6d6e6f707172737475767778797a,
                            30313233343536373839,
                        ],
                        min: 4,
                    },
                    work: Search(
                        SearchWork {
                            algorithm: Md5,
                            targets: [
                                d41d8cd98f00b204e9800998ecf8427e,
                                00000000000000000000000000000000,
                            ],
                            stop: AllTargets,
                            needs: None,
                        },
                    ),
                },
                sizing: TargetUs(
                    8000000,
                ),
                max_failures: Usual,
                speculative: None,
                trust: TrustChecks {
                    check: Share(
                        0,
                    ),
                    planted: 0,
                },
                terms: Terms {
                    after: [],
                    after_any: [],
                    labels: {},
                    max_nodes: None,
                    storage_limit: None,
                    monitor: None,
                },
                blobs: [],
                inputs: [],
                not_here: None,
                over: UnitSet {
                    runs: {},
                },
                repeated_targets: 1,
            }"#]],
    );
    let opened = space_of(text);
    assert_eq!(opened.units(), 26 * 26 * 26 * 10);
    for (unit, value) in [(0, "aaa0"), (1, "aaa1"), (10, "aab0"), (260, "aba0"), (175_759, "zzz9")] {
        assert_eq!(opened.value(unit).unwrap(), value.as_bytes());
    }
    let spec = parsed(text).unwrap().spec;
    assert_eq!(JobSpec::from_bytes(&spec.to_bytes()), Ok(spec));
}

#[test]
fn masks_turn_the_last_position_fastest() {
    units(
        "kind = \"chars\"\nmask = \"?1?2\"\nalphabets = { 1 = \"zy\", 2 = \"?d?d\" }",
        SEARCH,
        expect!["z0 z1 z2 z3 z4 z5 z6 z7 z8 z9 y0 y1 y2 y3 y4 y5 y6 y7 y8 y9"],
    );
    units(
        "kind = \"chars\"\nmask = \"a???s\"",
        SEARCH,
        expect![[
            r#"a?  a?! a?" a?# a?$ a?% a?& a?' a?( a?) a?* a?+ a?, a?- a?. a?/ a?: a?; a?< a?= a?> a?? a?@ a?[ a?\ a?] a?^ a?_ a?` a?{ a?| a?} a?~"#
        ]],
    );
    units("kind = \"chars\"\nmask = \"?h\"", SEARCH, expect!["0 1 2 3 4 5 6 7 8 9 a b c d e f"]);
    assert_eq!(space_of(&format!("[space]\nkind = \"chars\"\nmask = \"?a?l?u?d?s?h\"{SEARCH}")).units(), {
        95 * 26 * 26 * 10 * 33 * 16
    });
}

#[test]
fn an_alphabet_goes_shorter_first() {
    units(
        "kind = \"chars\"\nalphabet = \"ba\"\nmin = 1\nmax = 3",
        SEARCH,
        expect!["b a bb ba ab aa bbb bba bab baa abb aba aab aaa"],
    );
    units("kind = \"chars\"\nalphabet = \"x?d\"\nmax = 1", SEARCH, expect!["x 0 1 2 3 4 5 6 7 8 9"]);
    units("kind = \"chars\"\nalphabet = \"ab\"\nmin = 2\nmax = 2", COMMAND, expect!["aa ab ba bb"]);
}

#[test]
fn ranges_and_frames() {
    units("kind = \"range\"\nfrom = -2\nto = 3", COMMAND, expect!["-2 -1 0 1 2"]);
    units("kind = \"range\"\nfrom = 10\nto = 0\nstep = -3", COMMAND, expect!["10 7 4 1"]);
    units("kind = \"frames\"\nfirst = 0x10\nlast = 18", COMMAND, expect!["16 17 18"]);
}

#[test]
fn a_grid_keeps_its_order_and_its_numbers_as_written() {
    let grid = "kind = \"grid\"\n[space.grid]\nz = [0.10, 1_000, 0xff]\na = [true, \"x y\"]\n";
    units(grid, COMMAND, expect!["0.10 true 0.10 x y 1000 true 1000 x y 255 true 255 x y"]);
    assert_eq!(space_of(&format!("[space]\n{grid}{COMMAND}")).names(), ["z", "a"]);
    units("kind = \"grid\"\ngrid = { \"a b\" = [\"\"] }", COMMAND, expect![""]);
}

#[test]
fn a_list_comes_with_its_chunks() {
    let folder = Folder::new().with("words/list.txt", b"one\r\n\nth\xffree");
    let text = format!("[space]\nkind = \"list\"\nfile = \"words/list.txt\"{COMMAND}");
    let job = parse(&text, "demo.toml", folder.path()).unwrap();
    let blob = b"one\r\n\nth\xffree\n".to_vec();
    let chunk = Chunk { hash: ContentHash::of(&blob), units: 3 };
    assert_eq!(job.spec.space, Space::List { chunks: vec![chunk] });
    assert_eq!(job.blobs, [blob]);
}

#[test]
fn a_pattern_finds_files_sorted_and_absolute() {
    let folder = Folder::new();
    let folder = ["b/2.png", "b/10.png", "a/1.png", "b/.hidden.png", "b/note.txt", "b/sub.png/x"]
        .iter()
        .fold(folder, |folder, name| folder.with(name, ""));
    let found = |pattern: &str| {
        let text = format!("[space]\nkind = \"list\"\nglob = \"{pattern}\"{COMMAND}");
        let blobs = parse(&text, "demo.toml", folder.path()).unwrap().blobs;
        folder.hide(&String::from_utf8(blobs.concat()).unwrap())
    };
    expect![[r#"
        BASE/a/1.png
        BASE/b/10.png
        BASE/b/2.png
    "#]]
    .assert_eq(&found("*/*.png"));
    expect![[r#"
        BASE/b/2.png
    "#]]
    .assert_eq(&found("b/[0-9].png"));
    expect![[r#"
        BASE/a/1.png
    "#]]
    .assert_eq(&found(&format!("{}/a/*", folder.path().display())));
}

#[test]
fn a_folder_whose_name_looks_like_a_pattern() {
    let folder = Folder::new().with("[x]/a.png", "").with("x/b.png", "");
    let text = format!("[space]\nkind = \"list\"\nglob = \"*.png\"{COMMAND}");
    let job = parse(&text, "demo.toml", &folder.path().join("[x]")).unwrap();
    expect![[r#"
        BASE/[x]/a.png
    "#]]
    .assert_eq(&folder.hide(&String::from_utf8_lossy(&job.blobs[0])));
}

const EVERYTHING: &str = "executor = \"command\"\nprogram = [\"{index}\"]\nstdin = \"{}.in\"\n\
                timeout_seconds = 0.25\nhang_seconds = 60\nretries = 3\noutput_limit = \"strict:512\"\nunits_per_task = 1000\nmax_failures = 50\nspeculative = true\n\
                [task.env]\nB = \"{}\"\nA = \"\"\n";

#[test]
fn a_command_with_everything() {
    let job = parsed(&format!("{RANGE}{EVERYTHING}")).unwrap();
    assert_eq!((job.sizing, job.max_failures), (Sizing::Units(1_000), MaxFailures::Units(50)));
    assert_eq!((job.speculative, job.terms), (Some(true), Terms::default()));
    expect![[r#"
        Command(
            CommandWork {
                program: [
                    "{index}",
                ],
                per: Unit,
                slots: 1,
                memory_bytes: 0,
                gpus: 0.0,
                parallel: false,
                env: {
                    "A": "",
                    "B": "{}",
                },
                timeout_ms: Some(
                    250,
                ),
                hang_ms: Some(
                    60000,
                ),
                retries: 3,
                output_limit: OutputLimit {
                    bytes: 512,
                    strict: true,
                },
                cwd: None,
                cwd_optional: false,
                stdin: Some(
                    "{}.in",
                ),
                merge: None,
                inputs: [],
                unit_inputs: [],
                outputs: [],
                files_limit: 268435456,
            },
        )
    "#]]
    .assert_debug_eq(&job.spec.work);
}

#[test]
fn times_are_rounded_to_milliseconds_but_never_to_none() {
    for (written, ms) in [("1", 1000), ("0.0004", 1), ("1e9", 1_000_000_000_000), ("2.0016", 2002)] {
        let text =
            format!("{RANGE}executor = \"command\"\nprogram = [\"true\"]\ntimeout_seconds = {written}\n");
        let Work::Command(command) = parsed(&text).unwrap().spec.work else { panic!("a command") };
        assert_eq!(command.timeout_ms, Some(ms), "{written}");
    }
}

#[test]
fn what_is_not_said_has_a_default() {
    let job = parsed(&format!("{RANGE}executor = \"command\"\nprogram = [\"true\"]\n")).unwrap();
    assert_eq!((job.name.as_str(), job.sizing), ("demo", Sizing::TargetUs(8_000_000)));
    let Work::Command(command) = job.spec.work else { panic!("a command") };
    assert_eq!((command.timeout_ms, command.retries, command.env.len()), (None, 0, 0));
    assert_eq!((job.max_failures, job.speculative), (MaxFailures::Usual, None));
    let text = format!("{RANGE}executor = \"command\"\nprogram = [\"true\"]\nmax_failures = \"never\"\n");
    assert_eq!(parsed(&text).unwrap().max_failures, MaxFailures::Never);
    let job = parsed(&format!("[space]\nkind = \"chars\"\nmask = \"a\"{SEARCH}")).unwrap();
    let Work::Search(search) = job.spec.work else { panic!("a search") };
    assert_eq!(search.stop, Stop::AllTargets);
}

#[test]
fn every_algorithm_and_every_end() {
    for (algorithm, digits) in [("md5", 32), ("ntlm", 32), ("sha1", 40), ("sha256", 64)] {
        for stop in ["never", "first-hit", "all-targets"] {
            let digest = "0f".repeat(digits / 2);
            let task = format!(
                "executor=\"search\"\nalgorithm=\"{algorithm}\"\ntargets=[\"{digest}\"]\nstop=\"{stop}\""
            );
            let Work::Search(search) = parsed(&format!("{CHARS}{task}")).unwrap().spec.work else {
                panic!("a search")
            };
            assert_eq!(search.targets[0].0, vec![0x0f; digits / 2]);
            assert_eq!(serde_json::to_string(&search.stop).unwrap(), format!("\"{stop}\""));
        }
    }
}

#[test]
fn a_targets_file_with_comments_blanks_and_repeats() {
    let (one, two) = ("0".repeat(32), "Ab".repeat(16));
    let content = format!("# found in 2019\n{one}\r\n\n  {two}\n{one}\n{}", two.to_lowercase());
    let folder = Folder::new().with("digests.txt", content);
    let task = "executor = \"search\"\nalgorithm = \"ntlm\"\ntargets_file = \"digests.txt\"\n";
    let job = parse(&format!("{CHARS}{task}"), "demo.toml", folder.path()).unwrap();
    let Work::Search(search) = job.spec.work else { panic!("a search") };
    assert_eq!(search.targets.iter().map(|t| t.0.clone()).collect::<Vec<_>>(), [vec![0; 16], vec![0xab; 16]]);
}

#[test]
fn a_program_beside_the_job_file_becomes_absolute() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new().with("bin/render.sh", "#!/bin/sh\n").with("plain.sh", "#!/bin/sh\n");
    for script in ["bin/render.sh", "plain.sh"] {
        fs::set_permissions(folder.path().join(script), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let program = |name: &str| {
        let text = format!("{RANGE}executor = \"command\"\nprogram = [\"{name}\"]\n");
        let job = parse(&text, "demo.toml", folder.path()).unwrap();
        let Work::Command(command) = job.spec.work else { panic!("a command") };
        folder.hide(&command.program[0])
    };
    assert_eq!(program("bin/render.sh"), "BASE/bin/render.sh");
    assert_eq!(program("plain.sh"), "BASE/plain.sh");
    assert_eq!(program("true"), "true");
    assert_eq!(program("/bin/sh"), "/bin/sh");
    assert_eq!(program("tool-{}"), "tool-{}", "known when a unit is run");
}

#[test]
fn a_file_is_read_with_its_own_folder_and_name() {
    let folder = Folder::new()
        .with("jobs/words.toml", format!("[space]\nkind = \"list\"\nfile = \"words.txt\"{COMMAND}"))
        .with("jobs/words.txt", "one\n");
    let job = read(&folder.path().join("jobs/words.toml"), &UnitSet::default()).unwrap();
    assert_eq!((job.name.as_str(), job.blobs), ("words", vec![b"one\n".to_vec()]));
}

#[test]
fn gpus_are_whole_or_a_share() {
    let job = |needs: &str| {
        parsed(&format!(
            "[space]\nkind = \"range\"\nfrom = 0\nto = 9\n[task]\nexecutor = \"command\"\nprogram = [\"true\"]\nneeds = {needs}\n"
        ))
    };
    for (needs, gpus) in [("{ gpus = 2 }", 2.0), ("{ gpus = 0.5 }", 0.5), ("{}", 0.0)] {
        let Work::Command(work) = job(needs).unwrap().spec.work else { panic!("it runs a program") };
        assert_eq!(work.gpus, gpus);
    }
    for (needs, words) in [
        (
            "{ gpus = 1.5 }",
            "demo.toml:8:18: `gpus` is 1.5: write a whole number of cards up to 64, or a share",
        ),
        ("{ gpus = -1 }", "`gpus` is -1: write"),
        ("{ cards = 1 }", "unknown key `cards` in"),
        ("1", "demo.toml:8:9"),
    ] {
        let why = job(needs).unwrap_err().to_string();
        assert!(why.contains(words), "{why}");
    }
}
