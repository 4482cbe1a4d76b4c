//! The names of commands and flags are a contract: here they all stand.

use clap::{Command as ClapCommand, CommandFactory};
use expect_test::expect;

use super::*;

/// Each command and its arguments on a line, hidden ones left out.
fn names(command: &ClapCommand, path: &str, lines: &mut Vec<String>) {
    let own =
        command.get_arguments().filter(|argument| !argument.is_hide_set()).map(|argument| {
            match argument.get_long() {
                Some(long) => format!("--{long}"),
                None => {
                    argument.get_value_names().map_or_else(String::new, |names| names.join(" ").to_string())
                }
            }
        });
    lines.push(std::iter::once(path.to_owned()).chain(own).collect::<Vec<_>>().join(" "));
    for child in command.get_subcommands() {
        names(child, &format!("{path} {}", child.get_name()), lines);
    }
}

#[test]
fn the_names_of_the_contract() {
    let mut lines = Vec::new();
    names(&Cli::command(), "starfarm", &mut lines);
    expect![[r#"
        starfarm --farm --output --no-progress --color
        starfarm run JOB.toml PROGRAM --range --lines --grid --name --per --timeout-seconds --hang-seconds --retries --output-limit --max-failures --speculative --target-seconds --units-per-task --cwd --env --stdin --inputs --outputs --files-limit --unit-slots --memory --gpus --after --after-any --label --max-nodes --storage-limit --parallel --keep-order --joblog --resume-failed --halt --results --resume --slots --state --fresh --dir
        starfarm scheduler --state --listen --advertise --salvage --take-over --allow-network-file-system --low-water-mib --storage-limit --transfer-rate --keep-jobs-for --keep-jobs-below --checkpoint-seconds --log --no-log --log-segment-mib --log-segment-seconds --log-keep-mib --no-monitor --config --speed-step --heartbeat-seconds --suspect-seconds --lost-seconds --idle-seconds --reconnect-seconds --retry-targets --period-seconds
        starfarm worker --join --probe --slots --devices --gpus --kernel-cache --memory --name --state --deadline --idle-exit --store --keep-failed --no-monitor --link-ports --no-peers --on-alarm --drain-on-alarm --agent --agent-cpus --verbose
        starfarm submit JOB.toml PROGRAM --range --lines --grid --name --per --timeout-seconds --hang-seconds --retries --output-limit --max-failures --speculative --target-seconds --units-per-task --cwd --env --stdin --inputs --outputs --files-limit --unit-slots --memory --gpus --after --after-any --label --max-nodes --storage-limit --parallel --keep-order --joblog --resume-failed --halt --results --front --now --resume --wait --wait-paused --timeout --dir --dry-run
        starfarm jobs --state --label
        starfarm job
        starfarm job show ID
        starfarm job explain ID
        starfarm job wait ID --label --timeout --wait-paused
        starfarm job logs ID UNIT --stderr --follow
        starfarm job cancel ID --label
        starfarm job pause ID --label
        starfarm job resume ID --label
        starfarm job set ID --label --max-nodes --storage-limit
        starfarm job front ID
        starfarm job switch ID
        starfarm job delete ID --label --cancel
        starfarm job merge ID
        starfarm job retry --failed --missing-outputs ID
        starfarm nodes
        starfarm node
        starfarm node show NAME
        starfarm node explain NAME
        starfarm node drain NAME
        starfarm node resume NAME
        starfarm node forget NAME
        starfarm key
        starfarm key list
        starfarm key add --role --out
        starfarm key revoke KEY
        starfarm results ID --all --arrival --unit --merged --dir --follow --keep-order --stdout --stderr
        starfarm status --label
        starfarm events --follow --tasks --after
        starfarm top --interval --read-only
        starfarm audit DIR --job --outputs
        starfarm log
        starfarm log replay FILE|DIR --html --text --at --from --to
        starfarm log validate FILE|DIR
        starfarm log export FILE|DIR --format --out
        starfarm log schema
        starfarm monitor
        starfarm monitor show --job --node
        starfarm monitor set --job --node --all --period --metrics --off --default
        starfarm monitor follow --job --node --stream
        starfarm monitor alarms
        starfarm monitor metrics
        starfarm monitor load FILE --check
        starfarm monitor control NODE ORDER
        starfarm monitor graph NODE --dot
        starfarm tree
        starfarm tree plan --hosts --strategy --fanout --topology
        starfarm tree form --strategy --fanout --topology
        starfarm plan --slots --nodes --speed --size --target-seconds --tasks
        starfarm bench
        starfarm bench dispatch --tasks --nodes --slots --no-journal --no-log --no-monitor
        starfarm bench udp --rate --seconds --senders --values --buffer --mean
        starfarm bench tree --shape --rounds
        starfarm job-file
        starfarm schema NAME
        starfarm completions SHELL
        starfarm man --out
    "#]].assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn clap_finds_no_slip_in_the_definitions() {
    Cli::command().debug_assert();
}

fn read(line: &str) -> Result<Cli, clap::Error> {
    Cli::read(line.split_whitespace().map(OsString::from))
}

#[track_caller]
fn parsed(line: &str) -> Cli {
    read(line).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn what_a_user_writes_is_understood() {
    for line in [
        "starfarm run demo.toml --slots 2 --state d",
        "starfarm --farm d jobs --output json",
        "starfarm jobs --farm d --output quiet",
        "starfarm submit demo.toml --front --wait --timeout 2.5",
        "starfarm submit --range -5..5 -- echo -n {}",
        "starfarm submit --grid a=1,2 --grid b=x --env A=b=c -- true --wait {a}",
        "starfarm submit --lines names --now -- echo {}",
        "starfarm submit -- hostname",
        "starfarm job wait 7 --timeout 1",
        "starfarm key add --role observer --out f",
        "starfarm plan --slots 3 --speed 1e8 --size 8e8",
        "starfarm plan --slots 3 --target-seconds 8",
        "starfarm bench dispatch --tasks 1000 --nodes 8",
        "starfarm bench udp --rate 150000 --senders 5500 --buffer 8388608",
        "starfarm bench tree --shape 1x4x16",
        "starfarm scheduler --state d --listen 127.0.0.1:0",
        "starfarm worker --join f --slots 2 --name n --state d",
    ] {
        parsed(line);
    }
}

#[test]
fn words_behind_two_dashes_are_the_programs() {
    let Command::Submit(submit) = parsed("starfarm submit --range 0..3 -- echo --wait {}").command else {
        panic!("a submission");
    };
    assert_eq!(submit.source.program, ["echo", "--wait", "{}"]);
    assert!(!submit.wait);
}

#[test]
fn behind_parallel_and_its_flags_all_words_are_the_line() {
    let line = |text: &str| {
        let (Command::Submit(_) | Command::Run(_)) = parsed(text).command else { panic!("{text}") };
        match parsed(text).command {
            Command::Submit(submit) => submit.source,
            Command::Run(run) => run.source,
            _ => panic!("{text}"),
        }
    };
    for (text, words) in [
        ("starfarm run --parallel -k convert -resize 50% {} {.}.png ::: a b", 8),
        ("starfarm run -j3 --parallel grep -- {} ::: --wait -x", 6),
        ("starfarm --farm d submit --wait --parallel -- grep -- {} :::: -", 5),
        ("starfarm submit --retries 2 --parallel ::: a", 2),
        ("starfarm submit --parallel -k", 0),
    ] {
        let source = line(text);
        let expected: Vec<_> = text.split(' ').skip(text.split(' ').count() - words).collect();
        assert!(source.parallel.parallel && source.job.is_none(), "{text}");
        assert_eq!(source.program, expected, "{text}");
    }
    let source = line("starfarm submit --range 0..3 -- echo --parallel");
    assert!(!source.parallel.parallel && source.program == ["echo", "--parallel"]);
}

#[test]
fn each_key_of_a_program_has_a_flag() {
    let help = crate::jobfile::help();
    let (programs, _) = help.split_once("[task] executor = \"search\"").unwrap();
    let keys = programs.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(" = "));
    let keys: Vec<_> = keys.map(|(key, _)| key).filter(|key| *key != "program").collect();
    assert!(keys.contains(&"stdin") && keys.len() >= 10, "{keys:?}");
    for name in ["run", "submit"] {
        let whole = Cli::command();
        let command = whole.find_subcommand(name).unwrap();
        for key in &keys {
            // `--slots` of `run` is the worker's.
            let flag = match *key {
                "slots" => "unit-slots".to_owned(),
                // What it has are flags of their own.
                "needs" => "gpus".to_owned(),
                key => key.replace('_', "-"),
            };
            let is_flag = |argument: &clap::Arg| argument.get_long() == Some(&flag);
            assert!(command.get_arguments().any(is_flag), "{name} --{flag}");
        }
    }
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    for line in [
        "starfarm",
        "starfarm submit",
        "starfarm submit demo.toml -- echo",
        "starfarm submit demo.toml --range 0..3",
        "starfarm submit demo.toml --lines f",
        "starfarm submit demo.toml --grid a=1",
        "starfarm submit --range 0..3 --lines f -- echo",
        "starfarm submit demo.toml --front --now",
        "starfarm submit demo.toml --timeout 3",
        "starfarm submit demo.toml --wait --timeout 0",
        "starfarm submit demo.toml --target-seconds 3 --units-per-task 3",
        "starfarm submit demo.toml --env A",
        "starfarm job show seven",
        "starfarm job wait 1 --timeout nan",
        "starfarm status --label project",
        "starfarm job set 1",
        "starfarm job set --storage-limit 1G",
        "starfarm job set 1 --label a=b --storage-limit 1G",
        "starfarm job set 1 --max-nodes 0",
        "starfarm jobs --output xml",
        "starfarm run demo.toml --slots 0",
        "starfarm plan --slots 2",
        "starfarm plan --slots 2 --speed 3",
        "starfarm bench dispatch --tasks 0 --nodes 1",
        "starfarm bench udp --rate 0",
        "starfarm bench tree --shape 1",
        "starfarm bench tree --shape 2x4",
        "starfarm bench tree --shape 1x4x3",
        "starfarm bench tree --shape 1x0",
        "starfarm bench tree --shape 1x600",
        "starfarm key add --role boss",
        "starfarm run",
        "starfarm run job.toml --parallel",
        "starfarm run --parallel --range 0..3 echo {}",
        "starfarm run --parallel --colsep , echo {}",
        "starfarm run --parallel --resume-failed echo {}",
        "starfarm run --parallel --halt 2 echo {}",
    ] {
        let error = read(line).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
    }
}

#[test]
fn options_out_of_range() {
    for (option, words) in [
        ("--timeout-seconds 0", "write a number above 0"),
        ("--hang-seconds 1e10", "at most 1000000000 seconds"),
        ("--target-seconds NaN", "write a number above 0"),
        ("--target-seconds 0.0001", "target_seconds is 0.001 to 86400"),
        ("--units-per-task 0", "units_per_task is 1 or more"),
    ] {
        let line = format!("starfarm submit {option} -- true");
        let error = read(&line).expect_err(&line);
        assert_eq!(error.exit_code(), 2, "{line}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// The examples below a command's help, and those of its subcommands.
fn examples(command: &ClapCommand, lines: &mut Vec<String>) {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let of_examples = help.lines().skip_while(|line| !line.starts_with("Example"));
    lines.extend(of_examples.filter_map(|line| Some(line.strip_prefix("  ")?.to_owned())));
    command.get_subcommands().for_each(|child| examples(child, lines));
}

#[test]
fn examples_are_command_lines_that_are_understood() {
    let mut lines = Vec::new();
    examples(&Cli::command(), &mut lines);
    assert!(lines.len() > 10, "{lines:?}");
    for line in lines {
        let command = line.split(['#', '>']).next().unwrap_or_default();
        let parsed = read(command);
        assert!(parsed.is_ok(), "`{line}`: {}", parsed.unwrap_err());
    }
}
