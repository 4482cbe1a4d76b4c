//! What the program prints, as a script sees it: documents that keep to their schemas, exit codes, data
//! and messages each on its own stream.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use crate::fake::{long_output, serve, serve_late};
use crate::program::Folder;
use crate::schemas::Schemas;

/// Commands that print, and the schema that their output keeps to.
const DOCUMENTS: [(&str, &str); 28] = [
    ("jobs", "jobs"),
    ("job show 1", "jobs"),
    ("job wait 2", "jobs"),
    ("job pause 1", "jobs"),
    ("job delete 1", "jobs"),
    ("job retry --failed 3", "jobs"),
    ("job retry --missing-outputs 3", "jobs"),
    ("nodes", "nodes"),
    ("node show lab-7", "nodes"),
    ("node drain lab-7", "nodes"),
    ("node forget lab-7", "nodes"),
    ("key list", "keys"),
    ("key add --role observer", "join-file"),
    ("key revoke lab-7", "keys"),
    ("results 1", "results"),
    ("job explain 1", "explanation"),
    ("node explain lab-7", "explanation"),
    ("status", "status"),
    ("status --label project=x", "labelled-status"),
    ("job set 1 --storage-limit 5G --max-nodes none", "jobs"),
    ("events", "events"),
    ("monitor show", "series"),
    ("monitor alarms", "alarms"),
    ("monitor graph lab-7", "graph"),
    ("tree", "tree"),
    ("tree plan", "tree-plan"),
    ("tree form --fanout 4 --strategy fuzzy", "tree"),
    ("submit --range 0..3 -- true {}", "submitted"),
];

#[test]
fn every_document_keeps_to_its_schema() {
    let (folder, schemas) = (Folder::new(), Schemas::load());
    serve(&folder);
    for (command, schema) in DOCUMENTS {
        let whole = folder.run(&format!("--farm FARM --output json {command}")).with(0);
        schemas.check(schema, &whole);
        for line in folder.run(&format!("--farm FARM --output jsonl {command}")).with(0).lines() {
            schemas.check(schema, line);
        }
    }
    let dry =
        folder.run("submit --output json --dry-run --grid a=1,2 --units-per-task 3 -- true {a}").with(0);
    schemas.check("dry-run", &dry);
    schemas.check("jobs", &folder.run("submit --farm FARM --wait --output json -- true").with(0));
}

/// What a command prints that goes on until it is stopped: so many lines, and what it says meanwhile.
fn followed(folder: &Folder, command: &str, lines: usize) -> (Vec<String>, String) {
    let mut command = folder.command(&format!("--farm FARM {command}"));
    let mut follows =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(follows.stdout.take().unwrap()).lines().take(lines);
    let out = out.map(Result::unwrap).collect();
    follows.kill().unwrap();
    let mut said = String::new();
    follows.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    follows.wait().unwrap();
    (out, said)
}

#[test]
fn what_is_followed_keeps_to_its_schema_line_by_line() {
    let schemas = Schemas::load();
    for (stream, schema, lines) in [("alarm", "alarm-change", 2), ("trace", "trace", 3)] {
        let folder = Folder::new();
        serve(&folder);
        let command = format!("--output jsonl monitor follow --stream {stream}");
        let (out, said) = followed(&folder, &command, lines);
        assert_eq!(out.len(), lines);
        out.iter().for_each(|line| schemas.check(schema, line));
        let missed = said.contains("6 more events were told, of whatever job, than are kept");
        assert_eq!(missed, stream == "trace", "{said}");
    }
}

#[test]
fn what_is_followed_is_for_people_as_well() {
    let texts = |command: &str, lines| {
        let folder = Folder::new();
        serve(&folder);
        followed(&folder, command, lines).0
    };
    assert_eq!(
        texts("monitor follow --stream trace", 4),
        [
            "2023-11-14T22:13:20.000001Z  lab-7  job 1, unit 12: step \\u{1b}[2J done",
            "(3 events of node lab-7 lost here: it told more than it may, or was cut off)",
            "2023-11-14T22:13:20.000002Z  lab-7  job 2: step \\u{1b}[2J done",
            "2023-11-14T22:13:20.000009Z  lab-7  job 9, unit 340282366920938463463374607431768211455: step \\u{1b}[2J done",
        ]
    );
    assert_eq!(
        texts("monitor follow --stream alarm --output quiet", 2),
        ["begun 7-disk-1700000000000000", "over 7-disk-1700000000000000"]
    );
    let of_job = texts("monitor follow --stream trace --job 9 --output jsonl", 1);
    assert!(of_job[0].contains("\"number\":9,"), "{of_job:?}");
    let folder = Folder::new();
    serve(&folder);
    folder.run("--farm FARM monitor follow --stream alarm --job 1").with(2);
}

#[test]
fn results_say_which_outputs_are_lost_in_each_format_and_end_with_a_code_of_their_own() {
    let (folder, schemas) = (Folder::new(), Schemas::load());
    serve(&folder);
    for format in ["json", "jsonl", "table"] {
        let ended = folder.run(&format!("--farm FARM --output {format} results 2"));
        assert!(ended.stderr.contains("6 outputs of job 2 are missing or damaged"), "{}", ended.stderr);
        let stdout = ended.with(6);
        match format {
            "json" => schemas.check("results", &stdout),
            "jsonl" => stdout.lines().for_each(|line| schemas.check("results", line)),
            _ => assert!(stdout.contains("20 to 24  missing"), "{stdout}"),
        }
        let (of_stream, superseded) = match format {
            "table" => ("-- this output is damaged on", "missing, of a run that does not count"),
            _ => ("\"lost\":\"damaged\"", "\"what\":\"missing\",\"superseded\":true}"),
        };
        assert!(stdout.contains(of_stream) && !stdout.contains(superseded), "{stdout}");
        let all = folder.run(&format!("--farm FARM --output {format} results 2 --all")).with(6);
        assert!(all.contains(superseded), "{all}");
        match format {
            "json" => schemas.check("results", &all),
            "jsonl" => all.lines().for_each(|line| schemas.check("results", line)),
            _ => {}
        }
    }
    let again = folder.run("--farm FARM job retry --missing-outputs 2");
    assert!(again.stderr.contains("6 units run again"), "{}", again.stderr);
    again.with(0);
    folder.run("--farm FARM job retry 2").with(2);
    folder.run("--farm FARM job retry --failed --missing-outputs 2").with(2);
}

/// It waits for a person: a script that waited on would wait for ever.
#[test]
fn a_wait_ends_where_the_farm_paused_the_job_with_a_code_of_its_own() {
    let folder = Folder::new();
    serve(&folder);
    let ended = folder.run("--farm FARM job wait --timeout 5 7");
    assert!(ended.stderr.contains("job 7 is paused: 2 units failed"), "{}", ended.stderr);
    ended.with(8);
    folder.run("--farm FARM job wait --wait-paused --timeout 0.2 7").with(124);
}

/// The log of a nightly run wants the verdict and nothing before it.
#[test]
fn progress_is_said_unless_nobody_wants_it() {
    // A fake serves one after the other.
    let folders = [Folder::new(), Folder::new()];
    let mut words = ["job wait --timeout 5.5 1", "--no-progress job wait --timeout 5.5 1"].into_iter();
    let waits = folders.each_ref().map(|folder| {
        serve(folder);
        let mut command = folder.command(&format!("--farm FARM {}", words.next().unwrap()));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    let said = waits.map(|wait| {
        let ended = wait.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(124));
        String::from_utf8(ended.stderr).unwrap()
    });
    assert!(said[0].contains("job 1: 0.0 %, 12 of ") && said[0].lines().count() == 2, "{}", said[0]);
    assert!(!said[1].contains(" units, ") && said[1].lines().count() == 1, "{}", said[1]);
}

/// A script that reads JSON need not read sentences.
#[test]
fn with_json_asked_for_an_error_is_json_too() {
    let (folder, schemas) = (Folder::new(), Schemas::load());
    serve(&folder);
    for (command, code, word) in [
        ("--farm FARM --output json job pause 4", 4, "not_found"),
        ("--farm FARM --output jsonl job pause 6", 6, "conflict"),
        ("--output json jobs", 2, "usage"),
        ("--output=json job show seven", 2, "usage"),
        ("jobs --outputt --output json", 2, "usage"),
    ] {
        let ended = folder.run(command);
        let last = ended.stderr.lines().last().unwrap_or_default();
        schemas.check("error", last);
        assert!(last.contains(&format!("\"code\":\"{word}\",\"exit_code\":{code},")), "{last}");
        assert_eq!(ended.with(code), "");
    }
    assert!(folder.run("--output quiet jobs").failed_with(2).contains("which farm?"));
}

#[test]
fn schemas_and_the_keys_of_a_job_file_are_printed() {
    let folder = Folder::new();
    let names: BTreeSet<String> = folder.run("schema").with(0).lines().map(str::to_owned).collect();
    assert_eq!(names, Schemas::load().names().map(str::to_owned).collect());
    assert!(folder.run("schema jobs").with(0).contains("starfarm/jobs/1"));
    // As documents and lines name their own.
    for own in ["starfarm/jobs/1", "starfarm/job/1"] {
        assert_eq!(folder.run(&format!("schema {own}")).with(0), folder.run("schema jobs").with(0));
    }
    assert!(folder.run("schema nothing").failed_with(4).contains("`starfarm schema` lists them"));
    for command in ["job-file", "help job-file"] {
        assert!(folder.run(command).with(0).contains("executor = \"command\": a program for each unit"));
    }
}

#[test]
fn jobs_can_be_asked_for_by_state_and_a_live_one_deleted_at_once() {
    let folder = Folder::new();
    serve(&folder);
    assert_eq!(folder.run("--farm FARM --output quiet jobs --state finished,failed").with(0), "2\n3\n");
    assert_eq!(folder.run("--farm FARM --output quiet jobs --state paused").with(0), "");
    folder.run("--farm FARM jobs --state lost").with(2);
    folder.run("--farm FARM job delete --cancel 1").with(0);
}

#[test]
fn every_schema_is_tried() {
    // These need real processes, a journal or no farm: see `embedded.rs`, `bench.rs`, `audit.rs`, `log.rs` and above.
    let elsewhere = [
        "alarm-change",
        "audit",
        "bench-dispatch",
        "bench-tree",
        "bench-udp",
        "plan",
        "dry-run",
        "error",
        "log-replay",
        "log-state",
        "log-validation",
        "probe",
        "trace",
    ];
    let tried: BTreeSet<&str> = DOCUMENTS.iter().map(|(_, schema)| *schema).chain(elsewhere).collect();
    assert_eq!(Schemas::load().names().collect::<BTreeSet<_>>(), tried);
}

#[test]
fn a_schema_refuses_what_is_not_in_it() {
    let (folder, schemas) = (Folder::new(), Schemas::load());
    serve(&folder);
    let good = folder.run("--farm FARM --output json status").with(0);
    for (from, to) in [("\"gq\": 12", "\"gq\": \"12\""), ("\"gq\"", "\"queue\""), ("status/1", "status/2")] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good);
        assert!(!schemas.errors("status", &bad).is_empty(), "{to}");
    }
}

#[test]
fn quiet_prints_what_a_script_wants() {
    let folder = Folder::new();
    serve(&folder);
    for (command, printed) in [
        ("jobs", "1\n2\n3\n"),
        ("nodes", "lab-7\nlab-8\n"),
        ("submit --range 0..3 -- true", "2\n"),
        ("submit --range 0..3 --wait -- true", "2\n"),
        ("job pause 1", ""),
        ("status", ""),
    ] {
        assert_eq!(
            folder.run(&format!("--farm FARM --output quiet {command}")).with(0),
            printed,
            "{command}"
        );
    }
    let mut results = folder.command("--farm FARM --output quiet results 1");
    let stdout = results.output().unwrap().stdout;
    assert_eq!(stdout, [b"word\n\xff\n".to_vec(), long_output()].concat(), "bytes as they are");
}

#[test]
fn exit_codes_of_the_contract() {
    let folder = Folder::new();
    serve(&folder);
    for (command, code) in [
        ("job wait 2", 0),
        ("job wait 3", 1),
        ("submit --wait -- true", 0),
        ("submit --range 3..0 -- true", 2),
        ("submit nowhere.toml", 2),
        ("job cancel 4", 4),
        ("results 4", 4),
        ("node show lab-9", 4),
        ("node explain lab-9", 4),
        ("job cancel 5", 5),
        ("job resume 6", 6),
        ("job wait 1 --timeout 0.01", 124),
    ] {
        let ended = folder.run(&format!("--farm FARM {command}"));
        assert_eq!(ended.code, Some(code), "{command}: {ended:?}");
    }
    assert_eq!(folder.run("jobs --no-such-flag").code, Some(2));
}

#[test]
fn errors_cannot_steer_the_terminal() {
    let folder = Folder::new();
    serve(&folder);
    let name = format!("lab-9\u{1b}[2J\u{202e}{}", "x".repeat(200));
    let shown = "no node lab-9\\u{1b}[2J\\u{202e}x";
    let peer = folder.run(&format!("--farm FARM node explain {name}")).failed_with(4);
    assert!(peer.contains(shown) && !peer.contains('\u{1b}'), "a scheduler's words: {peer:?}");
    let own = folder.run(&format!("--farm FARM node show {name}")).failed_with(4);
    assert!(own.contains(shown) && own.contains("x…: ") && !own.contains('\u{1b}'), "{own:?}");
}

#[test]
fn without_a_scheduler_the_user_is_told_what_to_do() {
    let folder = Folder::new();
    let nobody = folder.run("--farm FARM jobs").failed_with(3);
    assert!(nobody.contains("starfarm scheduler --state"), "{nobody}");
    assert!(nobody.contains(folder.path().to_str().unwrap()), "what was tried: {nobody}");
    assert!(folder.run("jobs").failed_with(2).contains("STARFARM_FARM"));
}

#[test]
fn flag_before_environment_before_file_before_default() {
    let folder = Folder::new();
    serve(&folder);
    let config = folder.path().join("config/starfarm");
    std::fs::create_dir_all(&config).unwrap();
    let settings = format!("farm = {:?}\noutput = \"quiet\"\n", folder.path());
    std::fs::write(config.join("config.toml"), settings).unwrap();
    assert_eq!(folder.run("nodes").with(0), "lab-7\nlab-8\n", "the file");
    let with_variable = |line: &str| {
        let output = folder.command(line).env("STARFARM_OUTPUT", "json").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(with_variable("nodes").starts_with('{'), "the environment");
    assert!(with_variable("nodes --output table").starts_with("name"), "the flag");
    let elsewhere = folder.command("nodes").env("STARFARM_FARM", "nowhere").output().unwrap();
    assert_eq!(elsewhere.status.code(), Some(3));
    std::fs::write(config.join("config.toml"), "frm = 1\n").unwrap();
    assert!(folder.run("nodes").failed_with(2).contains("line 1"));
}

#[test]
fn data_and_messages_go_separate_ways() {
    let folder = Folder::new();
    serve(&folder);
    let ended = folder.run("--farm FARM submit --wait -- true");
    assert!(ended.stderr.contains("waiting"), "{ended:?}");
    assert!(!ended.stdout.contains("waiting"));
}

#[test]
fn colours_are_for_those_who_want_them() {
    let folder = Folder::new();
    serve(&folder);
    let is_colored = |line: &str| folder.run(line).with(0).contains('\u{1b}');
    assert!(!is_colored("--farm FARM jobs"), "a pipe is no terminal");
    assert!(is_colored("--farm FARM --color always jobs"));
    assert!(!is_colored("--farm FARM --color always --output json jobs"));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let folder = Folder::new();
    serve(&folder);
    // It has left before anything is written.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child =
        folder.command("--farm FARM results 1").stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}

#[test]
fn a_join_file_goes_where_the_user_says_and_is_private() {
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::new();
    serve(&folder);
    assert_eq!(folder.run("--farm FARM key add --out FARM/new.join").with(0), "");
    let path = folder.path().join("new.join");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let printed = folder.run("--farm FARM key add").with(0);
    assert_eq!(std::fs::read_to_string(path).unwrap(), printed);
    folder.run("--farm FARM key add --out FARM/new.join").failed_with(2);
}

#[test]
fn the_examples_can_be_submitted() {
    let folder = Folder::new();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
    let units = |name: &str| {
        let line = format!("submit --output quiet --dry-run {examples}/{name}.toml");
        folder.run(&line).with(0).trim_end().to_owned()
    };
    let found: BTreeSet<String> = std::fs::read_dir(examples)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let all = [
        ("blast", "3"),
        ("cases", "-"),
        ("commands", "200"),
        ("convert", "3"),
        ("keysearch", "3089157760"),
        ("mandel", "192"),
        ("minimum", "2250000"),
        ("primes", "2000000"),
        ("render", "24"),
        ("sweep", "30"),
        ("words", "12356630"),
    ];
    assert_eq!(found, all.iter().map(|(name, _)| (*name).to_owned()).collect());
    for (name, number) in all {
        assert_eq!(units(name), number, "{name}");
    }
}

#[test]
fn a_wait_for_a_scheduler_that_hangs_is_told() {
    let folder = Folder::new();
    let may_answer = serve_late(&folder);
    let mut status = folder.command("--farm FARM status --output quiet");
    let mut status = status.stderr(Stdio::piped()).spawn().unwrap();
    let mut words = String::new();
    BufReader::new(status.stderr.take().unwrap()).read_line(&mut words).unwrap();
    assert!(words.contains("has not answered for 3 s: waiting for 60 s at most"), "{words}");
    drop(may_answer);
    assert_eq!(status.wait().unwrap().code(), Some(0));
}
