//! One run for a whole task: `per = "task"`, with real programs.
#![allow(clippy::unwrap_used)]

use std::fs;

use serde_json::Value;
use starfarm_e2e::{Farm, until};

/// The outputs of a job in the order of their units, which tile all of them: first unit, units, standard output.
fn tiles(results: &Value, units: u128) -> Vec<(u128, u128, String)> {
    let number = |value: &Value| value.as_str().map_or(1, |text| text.parse::<u128>().unwrap());
    let outputs = results["outputs"].as_array().unwrap().iter();
    let text = |output: &Value| output["stdout"]["text"].as_str().unwrap().to_owned();
    let all: Vec<_> = outputs.map(|of| (number(&of["unit"]), number(&of["units"]), text(of))).collect();
    let mut next = 0;
    for (lo, of, _) in &all {
        assert_eq!(*lo, next, "no gap and no overlap");
        next = lo + of;
    }
    assert_eq!(next, units);
    all
}

#[test]
fn a_program_that_goes_from_here_to_there_gets_tasks_by_the_clock() {
    let farm = Farm::with_workers(2, 1);
    let id = farm.submit_text(
        "[space]\nkind = \"range\"\nfrom = 1000\nto = 21000\n[task]\nexecutor = \"command\"\nper = \"task\"\n\
         target_seconds = 0.2\n\
         program = [\"sh\", \"-c\", \"seq $1 $2 | wc -l; echo $1 $3 $STARFARM_UNIT_COUNT $4\", \"-\", \"{lo}\", \"{last}\", \"{hi}\", \"{count}\"]\n",
    );
    farm.wait(&id).exits(0);
    let all = tiles(&farm.results(&id), 20_000);
    assert!(all.len() < 1_000, "tasks grow: {}", all.len());
    for (lo, units, text) in all {
        assert_eq!(text, format!("{units}\n{} {} {units} {units}\n", 1_000 + lo, 1_000 + lo + units));
    }
    farm.cli(&["audit", "--outputs", farm.state().to_str().unwrap()]).exits(0);
}

#[test]
fn lines_of_a_file_come_in_files_and_one_bad_line_costs_only_itself() {
    let mut farm = Farm::with_workers(2, 1);
    let lines: String = (0..3_000).map(|line| format!("line {line}\n")).collect();
    let path = farm.temp().path().join("lines.txt");
    fs::write(&path, &lines).unwrap();
    let text = format!(
        "[space]\nkind = \"list\"\nfile = \"{}\"\n[task]\nexecutor = \"command\"\nper = \"task\"\ntarget_seconds = 0.5\n\
         program = [\"sh\", \"-c\", \"grep -x 'line 1234' $1 >&2 && exit 3; cat $1\", \"-\", \"{{file}}\"]\n\
         outputs = []\n",
        path.display()
    );
    let id = farm.submit_text(&text);
    until("some are done", || farm.job(&id)["units_done"] != "0");
    farm.kill_scheduler();
    farm.restart_scheduler();
    farm.wait(&id).exits(1);
    let results = farm.results(&id);
    let failed = results["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!((&failed[0]["unit"], &failed[0]["exit_code"]), (&"1234".into(), &3.into()));
    let good: String = tiles(&results, 3_000).into_iter().map(|(_, _, text)| text).collect();
    assert!(good == lines.replace("line 1234\n", ""), "each other line was there once, in order");
    farm.cli(&["audit", "--outputs", farm.state().to_str().unwrap()]).exits(0);
}

/// What is finished of a task counts when its worker is drained, and no part of it twice.
#[test]
fn a_run_that_tells_how_far_it_is_can_be_stopped() {
    let mut farm = Farm::with_workers(1, 1);
    let go = farm.temp().path().join("go");
    let script = "i=$1; n=0; bytes=0; while [ $i -lt $2 ]; do \
                  if [ $i -eq 500 ]; then echo half; while [ ! -e $3 ]; do sleep 0.05; done; echo wrong; fi; \
                  echo $i; n=$((n+1)); bytes=$((bytes+${#i}+1)); i=$((i+1)); \
                  echo done $n $bytes >> $STARFARM_DONE; done";
    let text = format!(
        "[space]\nkind = \"range\"\nfrom = 0\nto = 1000\n[task]\nexecutor = \"command\"\nper = \"task\"\nunits_per_task = 1000\n\
         program = [\"bash\", \"-c\", {script:?}, \"-\", \"{{lo}}\", \"{{hi}}\", \"{}\"]\n",
        go.display()
    );
    let id = farm.submit_text(&text);
    until("it runs", || farm.job(&id)["units_out"] == "1000");
    let scratch = farm.worker_state("w1").join("scratch");
    until("it is half done", || {
        let mut told = fs::read_dir(&scratch).unwrap().flatten().map(|entry| entry.path());
        let told = told.find(|path| path.extension().is_some_and(|of| of == "done"));
        told.is_some_and(|path| fs::read_to_string(path).unwrap().contains("done 500 "))
    });
    farm.cli(&["job", "pause", &id]).exits(0);
    farm.until_job(&id, "units_done", "500");
    farm.until_job(&id, "units_out", "0");
    fs::write(&go, "").unwrap();
    farm.cli(&["job", "resume", &id]).exits(0);
    farm.wait(&id).exits(0);
    let all = tiles(&farm.results(&id), 1_000);
    let numbers: String = (0..500).map(|n| format!("{n}\n")).collect();
    assert_eq!(all[0], (0, 500, numbers));
    assert!(all[1].2.starts_with("half\nwrong\n500\n501\n") && all[1].2.ends_with("999\n"), "{:?}", all[1]);
    farm.kill_scheduler();
    farm.restart_scheduler();
    assert_eq!(tiles(&farm.results(&id), 1_000), all);
}

#[test]
fn values_with_line_breaks_make_no_list_of_lines() {
    let farm = Farm::with_workers(1, 1);
    let job = |program: &str| {
        farm.submit_text(&format!(
            "[space]\nkind = \"grid\"\ngrid = {{ v = [\"a\\nb\", \"c\"] }}\n[task]\nexecutor = \"command\"\nper = \"task\"\n\
             units_per_task = 2\nprogram = [\"sh\", \"-c\", \"{program}\"]\n"
        ))
    };
    farm.wait(&job("echo {count}")).exits(0);
    let id = job("wc -l < {file}");
    let explained = || farm.cli(&["job", "explain", &id]).exits(0).stdout.clone();
    until("the node says why not", || explained().contains("holds a line break"));
}
