//! Programs that misbehave: too much output, no end, children that hide.
#![allow(clippy::unwrap_used)]

use starfarm_e2e::{Farm, alive, units, until, until_some};

/// The most memory that the worker ever had, in MiB.
fn peak_mib(farm: &Farm) -> u64 {
    let pid = farm.workers[0].pid().as_raw_nonzero();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[test]
fn of_too_much_output_head_and_tail_are_kept_and_memory_stays_small() {
    let farm = Farm::with_workers(1, 2);
    let script = "echo HEAD; yes | head -c 1000000000; echo; echo TAIL";
    let id = farm.submit(&["--range", "0..2", "--units-per-task", "1", "--", "sh", "-c", script]);
    farm.wait(&id).exits(0);
    for output in farm.results(&id)["outputs"].as_array().unwrap() {
        let stdout = &output["stdout"];
        let text = stdout["text"].as_str().unwrap();
        assert!(text.starts_with("HEAD\ny\n") && text.ends_with("y\n\nTAIL\n"), "{:.40}", text);
        assert_eq!(stdout["total"], 1_000_000_011);
        assert!(stdout["kept"].as_u64().unwrap() < 2 << 20, "{}", stdout["kept"]);
    }
    let peak = peak_mib(&farm);
    assert!(peak < 96, "the worker took {peak} MiB for two programs of 1 GB each");
}

#[test]
fn a_program_that_hangs_is_ended_when_its_time_is_over() {
    let farm = Farm::with_workers(1, 2);
    let dir = farm.temp().path().display().to_string();
    // The second does not heed TERM.
    let script = format!("echo $$ > {dir}/pid-{{}}; case {{}} in 1) trap '' TERM;; esac; {}", farm.forever());
    let args = ["--range", "0..2", "--units-per-task", "1", "--timeout-seconds", "0.3", "--"];
    let id = farm.submit(&[&args[..], &["sh", "-c", &script]].concat());
    farm.wait(&id).exits(1);
    let failed = farm.results(&id)["failed"].take();
    assert!(failed.as_array().unwrap().iter().all(|unit| unit["reason"] == "timeout"), "{failed}");
    for file in ["pid-0", "pid-1"] {
        let pid = std::fs::read_to_string(farm.temp().path().join(file)).unwrap().trim().parse().unwrap();
        assert!(!alive(pid), "{file} lives on");
    }
}

#[test]
fn a_child_that_leaves_its_group_is_ended_with_its_unit() {
    let farm = Farm::with_workers(1, 1);
    let away = farm.temp().path().join("away");
    let away = away.display();
    let script = format!(
        "setsid sh -c 'echo $$ > {away}; {}' > /dev/null 2>&1 & \
         while ! test -s {away}; do sleep 0.01; done; echo gone",
        farm.forever()
    );
    let id = farm.submit(&["--range", "0..1", "--", "sh", "-c", &script]);
    farm.wait(&id).exits(0);
    assert_eq!(farm.results(&id)["outputs"][0]["stdout"]["text"], "gone\n");
    let pid = std::fs::read_to_string(farm.temp().path().join("away")).unwrap().trim().parse().unwrap();
    until("the child is ended too", || !alive(pid));
}

#[test]
fn a_child_that_keeps_the_output_open_does_not_hold_its_unit() {
    let farm = Farm::with_workers(1, 1);
    let file = farm.temp().path().join("holder");
    let script = format!("({}) & echo $! > {}; echo done", farm.forever(), file.display());
    let id = farm.submit(&["--range", "0..1", "--", "sh", "-c", &script]);
    farm.wait(&id).exits(0);
    let pid = until_some("the child is named", || std::fs::read_to_string(&file).ok()?.trim().parse().ok());
    until("the child is ended", || !alive(pid));
}

/// Writes 33 000 bytes.
const LONG: &str = "i=0; while test $i -lt 3000; do echo 0123456789; i=$((i+1)); done";

#[test]
fn what_is_longer_than_its_limit_is_counted_and_told_by_all_who_are_asked() {
    let farm = Farm::with_workers(1, 2);
    let script = format!("test {{}} = 1 || exec echo short; {LONG}");
    let args = ["submit", "--wait", "--output-limit", "4096", "--range", "0..3", "--", "sh", "-c", &script];
    farm.cli(&args).exits(0).says(&["1 output was longer than output_limit"]);
    assert_eq!(farm.job("1")["outputs_cut"], 1);
    let shown = farm.cli(&["job", "show", "1"]).exits(0).stdout.clone();
    assert!(shown.contains("1 output was longer than output_limit"), "{shown}");
    let results = farm.cli(&["results", "1"]);
    results.exits(0).says(&["1 output was longer than output_limit"]);
    let outputs = farm.results("1")["outputs"].take();
    let long = outputs.as_array().unwrap().iter().find(|output| output["unit"] == "1").unwrap();
    let (stdout, text) = (&long["stdout"], long["stdout"]["text"].as_str().unwrap());
    assert_eq!(
        (&stdout["total"], &stdout["kept"], &stdout["cut_at"]),
        (&33_000.into(), &4_096.into(), &2_048.into())
    );
    // Head and tail and nothing between: no mark is among the program's own bytes.
    let all = "0123456789\n".repeat(3_000);
    assert_eq!(text, [&all[..2_048], &all[all.len() - 2_048..]].concat());
}

#[test]
fn with_a_strict_limit_a_unit_that_writes_more_has_failed() {
    let farm = Farm::with_workers(1, 1);
    let script = format!("test {{}} = 1 || exec echo short; {LONG}");
    let args = ["--output-limit", "strict:4096", "--range", "0..3", "--", "sh", "-c", &script];
    let id = farm.submit(&args);
    farm.wait(&id).exits(1);
    let (job, results) = (farm.job(&id), farm.results(&id));
    assert_eq!((&job["units_done"], &job["units_failed"]), (&"2".into(), &"1".into()));
    assert_eq!(units(&results["failed"]), [1]);
    assert_eq!(results["failed"][0]["reason"], "output");
    // At its limit exactly it has not.
    let args = ["--output-limit", "strict:6", "--range", "0..3", "--", "echo", "short"];
    farm.wait(&farm.submit(&args)).exits(0);
}
