//! What a job file cannot say, and what the user is told: keys, types, spaces, tasks.

use expect_test::expect;
use starfarm_protocol::spec::Work;

use super::*;

#[test]
fn not_toml() {
    refused(
        &["name = \"x\"\n[space\n".into(), "a = 1\na = 2\n".into(), "name = \"é\" x".into()],
        expect![[r#"
            demo.toml:2:7: this is not TOML: unclosed table, expected `]`
            demo.toml:2:1: this is not TOML: duplicate key
            demo.toml:1:12: this is not TOML: unexpected key or value, expected newline, `#`
        "#]],
    );
}

#[test]
fn missing_sections_and_keys() {
    let texts = [
        String::new(),
        "[space]\nkind = \"range\"\nfrom = 0\nto = 1\n".into(),
        format!("[space]\n{COMMAND}"),
        format!("[space]\nkind = \"range\"\n{COMMAND}"),
        format!("[space]\nkind = \"range\"\nfrom = 0\n{COMMAND}"),
        format!("[space]\nkind = \"frames\"\nlast = 0\n{COMMAND}"),
        format!("[space]\nkind = \"frames\"\nfirst = 0\n{COMMAND}"),
        format!("[space]\nkind = \"list\"\n{COMMAND}"),
        format!("[space]\nkind = \"grid\"\n{COMMAND}"),
        format!("[space]\nkind = \"chars\"\n{COMMAND}"),
        format!("[space]\nkind = \"chars\"\nalphabet = \"a\"\n{COMMAND}"),
        RANGE.into(),
        format!("{RANGE}executor = \"command\"\n"),
        format!("{CHARS}executor = \"search\"\n"),
        format!("{CHARS}executor = \"search\"\nalgorithm = \"md5\"\n"),
    ];
    refused(
        &texts,
        expect![[r#"
            demo.toml:1:1: the section [space] is missing: add it and say what the units are, e.g. kind = "range"
            demo.toml:1:1: the section [task] is missing: add it and say what is done with them, e.g. executor = "command"
            demo.toml:1:1: [space] needs `kind`: add kind = one of "chars", "range", "frames", "list", "grid", "program"
            demo.toml:1:1: [space] needs `from`: add the first integer, e.g. from = 0
            demo.toml:1:1: [space] needs `to`: add the end, exclusive, e.g. to = 100
            demo.toml:1:1: [space] needs `first`: add the first frame, e.g. first = 1
            demo.toml:1:1: [space] needs `last`: add the last frame, inclusive, e.g. last = 250
            demo.toml:1:1: a list needs `file` or `glob`: add file = "lines.txt", or glob = "frames/*.png"
            demo.toml:1:1: [space] needs `grid`: add a table of lists, e.g. grid = { size = [1, 2], mode = ["a", "b"] }
            demo.toml:1:1: a space of characters needs `mask` or `alphabet`: add mask = "?l?l?d", or alphabet = "abc" with min = 1 and max = 6
            demo.toml:1:1: [space] needs `max`: add the longest length, e.g. max = 6
            demo.toml:5:1: [task] needs `executor`: add executor = one of EXECUTORS
            demo.toml:5:1: [task] needs `program`: add the program and its arguments, e.g. program = ["echo", "{}"]
            demo.toml:4:1: [task] needs `algorithm`: add the kind of digest, e.g. algorithm = "md5"
            demo.toml:4:1: a search needs `targets` or `targets_file`: add targets = ["..."] with digests in hexadecimal, or targets_file = "digests.txt"
        "#]],
    );
}

#[test]
fn unknown_keys() {
    let texts = [
        "nam = \"x\"\n".to_owned(),
        format!("[space]\nkind = \"range\"\nfrom = 0\nto = 1\n  stepp = 1\n{COMMAND}"),
        format!("{RANGE}executor = \"command\"\nprogram = [\"true\"]\nshell = true\n"),
        format!("[space]\nkind = \"chars\"\nmask = \"?1\"\nalphabets = {{ 5 = \"a\" }}\n{SEARCH}"),
        format!("[space]\nkind = \"rang\"\n{COMMAND}"),
        format!("{RANGE}executor = \"opencl\"\n"),
    ];
    refused(
        &texts,
        expect![[r#"
            demo.toml:1:1: unknown key `nam` in the job file: remove it, or use one of name, after, after_any, labels, space, task, trust, merge, monitor
            demo.toml:5:3: unknown key `stepp` in [space]: remove it, or use one of kind, from, to, step
            demo.toml:8:1: unknown key `shell` in [task]: remove it, or use one of executor, program, per, inputs, outputs, files_limit, stdin, cwd, env, timeout_seconds, hang_seconds, retries, output_limit, slots, memory, needs, target_seconds, units_per_task, max_failures, speculative, max_nodes, storage_limit
            demo.toml:4:15: unknown key `5` in [alphabets]: remove it, or use one of 1, 2, 3, 4
            demo.toml:2:8: kind "rang" is not known: use one of "chars", "range", "frames", "list", "grid", "program"
            demo.toml:5:1: [task] needs `kernel`: add the file with the kernel's text, e.g. kernel = "scan.cl"
        "#]],
    );
}

#[test]
fn keys_of_another_kind() {
    let texts = [
        format!("[space]\nkind = \"range\"\nfrom = 0\nto = 1\nmask = \"?l\"\n{COMMAND}"),
        format!("[space]\nkind = \"frames\"\nfirst = 0\nlast = 1\nstep = 2\n{COMMAND}"),
        format!("{RANGE}executor = \"command\"\nprogram = [\"true\"]\nstop = \"never\"\n"),
        format!("{CHARS}executor = \"search\"\nretries = 1\n"),
        format!("[space]\nkind = \"chars\"\nmask = \"a\"\nalphabet = \"a\"\nmax = 1\n{SEARCH}"),
        format!("[space]\nkind = \"chars\"\nmask = \"a\"\nmin = 1\n{SEARCH}"),
        format!(
            "[space]\nkind = \"chars\"\nalphabet = \"a\"\nmax = 1\nalphabets = {{ 1 = \"a\" }}\n{SEARCH}"
        ),
        format!("[space]\nkind = \"list\"\nfile = \"a\"\nglob = \"b\"\n{COMMAND}"),
        format!(
            "{RANGE}executor = \"command\"\nprogram = [\"true\"]\ntarget_seconds = 8\nunits_per_task = 9\n"
        ),
        format!("{CHARS}executor = \"search\"\nalgorithm = \"md5\"\ntargets = []\ntargets_file = \"x\"\n"),
        format!("{RANGE}executor = \"search\"\nalgorithm = \"md5\"\ntargets = [\"{}\"]\n", "0".repeat(32)),
    ];
    refused(
        &texts,
        expect![[r#"
            demo.toml:5:1: `mask` belongs to kind = "chars", but this one is "range": remove it, or use one of kind, from, to, step
            demo.toml:5:1: `step` belongs to kind = "range", but this one is "frames": remove it, or use one of kind, first, last
            demo.toml:8:1: `stop` belongs to executor = "search", but this one is "command": remove it, or use one of executor, program, per, inputs, outputs, files_limit, stdin, cwd, env, timeout_seconds, hang_seconds, retries, output_limit, slots, memory, needs, target_seconds, units_per_task, max_failures, speculative, max_nodes, storage_limit
            demo.toml:6:1: `retries` belongs to executor = "command", but this one is "search": remove it, or use one of executor, algorithm, targets, targets_file, stop, needs, target_seconds, units_per_task, max_failures, speculative, max_nodes, storage_limit
            demo.toml:4:12: a space of characters has either `mask` or `alphabet`, not both: remove one
            demo.toml:4:7: `min` goes with `alphabet`, but a mask has one length: remove it
            demo.toml:5:13: `alphabets` goes with `mask`, but this space has `alphabet`: remove it
            demo.toml:4:8: a list has either `file` or `glob`, not both: remove one
            demo.toml:9:18: a task's size follows either `target_seconds` or `units_per_task`, not both: remove one
            demo.toml:8:16: a search has either `targets` or `targets_file`, not both: remove one
            demo.toml:6:12: `search` tests candidates, so it needs a space of kind = "chars": change one of them
        "#]],
    );
}

#[test]
fn wrong_types() {
    let mut texts = vec![
        "name = 1\n".to_owned(),
        "space = 1\n".into(),
        "task = []\n[space]\nkind = \"range\"\nfrom = 0\nto = 1\n".into(),
    ];
    texts.extend(each(
        "[space]\nkind = \"range\"\nto = 9\n",
        &["from = \"0\"", "from = 0.5", "from = true"],
        COMMAND,
    ));
    texts.extend(each(
        "[space]\nkind = \"grid\"\n",
        &["grid = []", "grid = { a = 1 }", "grid = { a = [1, [2]] }"],
        COMMAND,
    ));
    texts.extend(each(
        "[space]\nkind = \"chars\"\n",
        &["mask = 1", "alphabet = []", "mask=\"a\"\nalphabets=\"b\""],
        SEARCH,
    ));
    texts.extend(each(
        &format!("{RANGE}executor = \"command\"\n"),
        &["program = \"true\"", "program = [1]", "program = [\"true\"]\nenv = { A = 1 }"],
        "",
    ));
    texts.extend(each(
        &format!("{RANGE}executor = \"command\"\nprogram = [\"true\"]\n"),
        &["timeout_seconds = \"9\"", "retries = 1.0", "target_seconds = 2020-01-01", "env = 1"],
        "",
    ));
    texts.extend(each(&format!("{CHARS}executor = \"search\"\n"), &["algorithm = 5"], ""));
    texts.extend(each(
        &format!("{CHARS}executor = \"search\"\nalgorithm = \"md5\"\n"),
        &["targets = \"\"", "targets = [7]"],
        "",
    ));
    refused(
        &texts,
        expect![[r#"
            demo.toml:1:8: `name` must be a string in quotes, this is an integer: change it
            demo.toml:1:9: `space` must be a table, this is an integer: change it
            demo.toml:1:8: `task` must be a table, this is an array: change it
            demo.toml:4:8: `from` must be an integer, this is a string: change it
            demo.toml:4:8: `from` must be an integer, this is a float: change it
            demo.toml:4:8: `from` must be an integer, this is a boolean: change it
            demo.toml:3:8: `grid` must be a table, this is an array: change it
            demo.toml:3:14: `a` must be a list of strings, numbers or booleans, this is an integer: change it
            demo.toml:3:18: `a[1]` must be a string, a number or a boolean, this is an array: change it
            demo.toml:3:8: `mask` must be a string in quotes, this is an integer: change it
            demo.toml:3:12: `alphabet` must be a string in quotes, this is an array: change it
            demo.toml:4:11: `alphabets` must be a table, this is a string: change it
            demo.toml:7:11: `program` must be a list of strings, the program and its arguments, this is a string: change it
            demo.toml:7:12: `program[0]` must be a string in quotes, this is an integer: change it
            demo.toml:8:13: `A` must be a string in quotes, this is an integer: change it
            demo.toml:8:19: `timeout_seconds` must be a number of seconds, this is a string: change it
            demo.toml:8:11: `retries` must be an integer, this is a float: change it
            demo.toml:8:18: `target_seconds` must be a number of seconds, this is a datetime: change it
            demo.toml:8:7: `env` must be a table, this is an integer: change it
            demo.toml:6:13: `algorithm` must be a string in quotes, this is an integer: change it
            demo.toml:7:11: `targets` must be a list of digests in hexadecimal, this is a string: change it
            demo.toml:7:12: `targets[0]` must be a string in quotes, this is an integer: change it
        "#]],
    );
}

#[test]
fn values_out_of_range() {
    let mut texts = each("", &["name = \"\"", "name = \"a\\nb\""], "");
    texts.extend(each(
        &format!("{RANGE}executor = \"command\"\nprogram = [\"true\"]\n"),
        &[
            "timeout_seconds = 0",
            "timeout_seconds = -0.5",
            "timeout_seconds = nan",
            "target_seconds = inf",
            "units_per_task = 0",
            "retries = -1",
            "retries = 4294967296",
            "units_per_task = 9223372036854775808",
        ],
        "",
    ));
    refused(
        &texts,
        expect![[r#"
            demo.toml:1:8: a job's name is one line of text, not empty, of at most 200 characters: change it
            demo.toml:1:8: a job's name is one line of text, not empty, of at most 200 characters: change it
            demo.toml:8:19: `timeout_seconds` is 0: use a number of seconds above 0, up to 1000000000
            demo.toml:8:19: `timeout_seconds` is -0.5: use a number of seconds above 0, up to 1000000000
            demo.toml:8:19: `timeout_seconds` is NaN: use a number of seconds above 0, up to 1000000000
            demo.toml:8:18: `target_seconds` is inf: use a number of seconds above 0, up to 1000000000
            demo.toml:8:18: `units_per_task` is 0: use an integer from 1 to 9223372036854775807
            demo.toml:8:11: `retries` is -1: use an integer from 0 to 4294967295
            demo.toml:8:11: `retries` is 4294967296: use an integer from 0 to 4294967295
            demo.toml:8:18: `units_per_task` does not fit: use an integer from 1 to 9223372036854775807
        "#]],
    );
}

#[test]
fn keys_of_every_executor() {
    let texts = each(
        &format!("{RANGE}executor = \"command\"\nprogram = [\"true\"]\n"),
        &["speculative = \"yes\"", "max_failures = true", "max_failures = 0", "max_failures = \"50\""],
        "",
    );
    refused(
        &texts,
        expect![[r#"
            demo.toml:8:15: `speculative` must be true or false, this is a string: change it
            demo.toml:8:16: `max_failures` must be an integer, this is a boolean: change it
            demo.toml:8:16: `max_failures` is 0: use an integer from 1 to 9223372036854775807
            demo.toml:8:16: `max_failures` "50" is not known: write "never", or a number of failed units without quotes
        "#]],
    );
}

#[test]
fn bad_masks() {
    let masks = [
        "mask = \"?l?z\"",
        "mask = \"?l?\"",
        "mask = \"a?1\"",
        "mask = \"\"",
        "mask = \"\\t?z\"",
        "mask = '''\n?z'''",
    ];
    let mut texts = each("[space]\nkind = \"chars\"\n", &masks, SEARCH);
    texts.extend(each(
        "[space]\nkind = \"chars\"\nmask = \"?1\"\n",
        &[
            "alphabets = { 2 = \"a\" }",
            "alphabets = { 1 = \"a?\" }",
            "alphabets = { 1 = \"\" }",
            "alphabets = { 1 = \"?2\", 2 = \"a\" }",
        ],
        SEARCH,
    ));
    refused(
        &texts,
        expect![[r#"
            demo.toml:3:11: `?z` is not a class: use ?l ?u ?d ?s ?a ?h, ?1 to ?4, or `??` for a question mark
            demo.toml:3:11: a `?` at the end stands for nothing: write `??` for a question mark
            demo.toml:3:10: `?1` has no alphabet: add alphabets = { 1 = "..." } to [space]
            demo.toml:3:8: the mask has no positions: give at least one, such as ?l or a letter
            demo.toml:3:8: `?z` is not a class: use ?l ?u ?d ?s ?a ?h, ?1 to ?4, or `??` for a question mark
            demo.toml:3:8: `?z` is not a class: use ?l ?u ?d ?s ?a ?h, ?1 to ?4, or `??` for a question mark
            demo.toml:3:9: `?1` has no alphabet: add alphabets = { 1 = "..." } to [space]
            demo.toml:4:21: a `?` at the end stands for nothing: write `??` for a question mark
            demo.toml:4:19: `1` is empty: give at least one character
            demo.toml:4:20: `?2` cannot stand inside an alphabet: write its characters out
        "#]],
    );
}

#[test]
fn bad_alphabets() {
    let lines = [
        "alphabet = \"\"\nmax = 1",
        "alphabet = \"ab?\"\nmax = 1",
        "alphabet = \"ab\"\nmax = 0",
        "alphabet = \"ab\"\nmin = 0\nmax = 1",
        "alphabet = \"ab\"\nmin = 3\nmax = 2",
        "alphabet = \"ab\"\nmax = 1000000",
    ];
    refused(
        &each("[space]\nkind = \"chars\"\n", &lines, SEARCH),
        expect![[r#"
            demo.toml:3:12: `alphabet` is empty: give at least one character
            demo.toml:3:15: a `?` at the end stands for nothing: write `??` for a question mark
            demo.toml:4:7: `max` is 0: use an integer from 1 to 4096
            demo.toml:4:7: `min` is 0: use an integer from 1 to 1
            demo.toml:4:7: `min` is 3: use an integer from 1 to 2
            demo.toml:4:7: `max` is 1000000: use an integer from 1 to 4096
        "#]],
    );
}

#[test]
fn spaces_that_are_empty_or_too_large() {
    let mut texts = each(
        "[space]\nkind = \"range\"\n",
        &[
            "from = 5\nto = 5",
            "from = 6\nto = 5",
            "from = 5\nto = 6\nstep = 0",
            "from = 5\nto = 6\nstep = -1",
        ],
        COMMAND,
    );
    texts.extend(each("[space]\nkind = \"frames\"\n", &["first = 2\nlast = 1"], COMMAND));
    texts.extend(each(
        "[space]\nkind = \"grid\"\n",
        &["grid = {}", "grid = { a = [] }", "grid = { b = [1], index = [1] }", "grid = { \"x{\" = [1] }"],
        COMMAND,
    ));
    let mask = format!("mask = \"{}\"", "?a".repeat(30));
    texts.extend(each("[space]\nkind = \"chars\"\n", &[&mask, "alphabet = \"01\"\nmax = 128"], SEARCH));
    refused(
        &texts,
        expect![[r#"
        demo.toml:4:6: the range from 5 to 5 (exclusive) in steps of 1 is empty: `to` must be above `from`
        demo.toml:4:6: the range from 6 to 5 (exclusive) in steps of 1 is empty: `to` must be above `from`
        demo.toml:5:8: the step is 0, so the range never ends: use 1, or any other integer
        demo.toml:4:6: the range from 5 to 6 (exclusive) in steps of -1 is empty: with a negative step `to` must be below `from`
        demo.toml:4:8: the last frame, 1, comes before the first, 2: swap them
        demo.toml:3:8: the grid has no lists: give at least one name with its values
        demo.toml:3:14: the grid's list `a` is empty: give at least one value
        demo.toml:3:27: a grid's list cannot be named `index`: the name must not be empty, `index`, or contain a brace
        demo.toml:3:17: a grid's list cannot be named `x{`: the name must not be empty, `index`, or contain a brace
        demo.toml:3:8: 30 positions of 95 characters make about 10^59 candidates; a job holds at most 2^128 - 1 units (about 3.4 x 10^38): make the space smaller, or split it into several jobs
        demo.toml:3:12: 128 positions of 2 characters make about 10^39 candidates; a job holds at most 2^128 - 1 units (about 3.4 x 10^38): make the space smaller, or split it into several jobs
    "#]],
    );
}

/// Names and absolute paths are the workers' business.
#[test]
fn a_program_that_is_not_here_is_told_and_kept() {
    let folder = Folder::new();
    let told = |program: &str| {
        let text = format!("{RANGE}executor = \"command\"\nprogram = [\"{program}\", \"{{}}\"]\n");
        let job = parse(&text, "demo.toml", folder.path()).unwrap();
        let Work::Command(command) = job.spec.work else { panic!("a command") };
        assert_eq!(command.program[0], program);
        folder.hide(&job.not_here.unwrap().to_string()) + "\n"
    };
    let told = ["no-such-program-here", "/no/such/program", "/etc"].map(told).concat();
    expect![[r#"
        demo.toml:7:12: the program `no-such-program-here` is neither on PATH here nor a file in `BASE`
        demo.toml:7:12: the program `/no/such/program` is not a file here
        demo.toml:7:12: the program `/etc` is not a file here
    "#]]
    .assert_eq(&told);
}

#[test]
fn programs_that_cannot_be_run() {
    let programs = [
        "program = []",
        "program = [\"./missing.sh\"]",
        "program = [\"\"]",
        "program = [\"true\", \"a\\u0000b\"]",
        "program = [\"true\"]\nenv = { \"A=B\" = \"c\" }",
    ];
    refused(
        &each(&format!("{RANGE}executor = \"command\"\n"), &programs, ""),
        expect![[r#"
            demo.toml:7:11: `program` is empty: name a program, e.g. program = ["echo", "{}"]
            demo.toml:7:12: the program `./missing.sh` is not a file here: check the path, which is relative to `BASE`
            demo.toml:7:12: the program's name is empty: name a program, or give its path
            demo.toml:7:20: `program[1]` holds a NUL character, which no program can be given: remove it
            demo.toml:8:17: "A=B" cannot name a variable: it must not be empty or contain `=`
        "#]],
    );
}

#[test]
fn bad_searches() {
    let lines = ["algorithm = \"md4\"", "algorithm = \"MD5\"", "algorithm = \"md5\"\ntargets = []"];
    let mut texts = each(&format!("{CHARS}executor = \"search\"\n"), &lines, "");
    let digest = "0".repeat(32);
    texts.push(format!(
        "{CHARS}executor = \"search\"\nalgorithm = \"md5\"\ntargets = [\"{digest}\"]\nstop = \"first\"\n"
    ));
    for (letters, algorithm) in [(28, "ntlm"), (56, "md5")] {
        let mask = "a".repeat(letters - 1) + "?d";
        texts.push(format!(
            "[space]\nkind = \"chars\"\nmask = \"{mask}\"\n[task]\nexecutor = \"search\"\nalgorithm = \"{algorithm}\"\n"
        ));
    }
    refused(
        &texts,
        expect![[r#"
            demo.toml:6:13: `algorithm` "md4" is not known: use one of "md5", "sha1", "sha256", "ntlm"
            demo.toml:6:13: `algorithm` "MD5" is not known: use one of "md5", "sha1", "sha256", "ntlm"
            demo.toml:7:11: `targets` is empty: give at least one digest
            demo.toml:8:8: `stop` "first" is not known: use one of "never", "first-hit", "all-targets"
            demo.toml:6:13: candidates of 28 bytes are too long for ntlm, which takes at most 27: shorten the mask or lower `max`
            demo.toml:6:13: candidates of 56 bytes are too long for md5, which takes at most 55: shorten the mask or lower `max`
        "#]],
    );
}

#[test]
fn digests_that_are_none() {
    let sound = "0".repeat(32);
    let texts = ["00", &"0".repeat(31), &"0".repeat(40), "xyz", "d41d8cd9:salt", ""].map(|digest| {
        format!("{CHARS}executor = \"search\"\nalgorithm = \"md5\"\ntargets = [\n  \"{sound}\",\n  \"{digest}\",\n]\n")
    });
    refused(
        &texts,
        expect![[r#"
        demo.toml:9:3: entry 2 of `targets`: this digest has 2 hexadecimal digits, md5 has 32: check it and `algorithm`
        demo.toml:9:3: entry 2 of `targets`: this digest has 31 hexadecimal digits, md5 has 32: check it and `algorithm`
        demo.toml:9:3: entry 2 of `targets`: this digest has 40 hexadecimal digits, md5 has 32: check it and `algorithm`
        demo.toml:9:3: entry 2 of `targets`: 'x' is not a hexadecimal digit: give the digest with 0-9, a-f or A-F
        demo.toml:9:3: entry 2 of `targets`: forms such as `hash:anything` are not supported: give the digest alone
        demo.toml:9:3: entry 2 of `targets`: this digest has 0 hexadecimal digits, md5 has 32: check it and `algorithm`
    "#]],
    );
    let ntlm =
        format!("{CHARS}executor = \"search\"\nalgorithm = \"ntlm\"\ntargets = [\"{}\"]\n", "0".repeat(33));
    let sha256 = format!("{CHARS}executor = \"search\"\nalgorithm = \"sha256\"\ntargets = [\"{sound}\"]\n");
    refused(
        &[ntlm, sha256],
        expect![[r#"
        demo.toml:7:12: entry 1 of `targets`: this digest has 33 hexadecimal digits, ntlm has 32: check it and `algorithm`
        demo.toml:7:12: entry 1 of `targets`: this digest has 32 hexadecimal digits, sha256 has 64: check it and `algorithm`
    "#]],
    );
}
