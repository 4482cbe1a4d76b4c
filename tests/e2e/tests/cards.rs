//! Programs that have GPUs to themselves, or share one. No card is at hand: a batch system that names some to the worker is
//! enough, as the programs here look at what they are told alone.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use starfarm_e2e::{Daemon, Farm, each_done_once, program, run, stdouts, worker_args};

/// Adds a worker with these cards.
fn add(farm: &mut Farm, name: &str, cards: &str, args: &[&str]) {
    let join = farm.state().join("worker.join");
    let mut command = program("starfarm-worker", farm.temp().path());
    command.args(worker_args(name, &join, &farm.worker_state(name))).args(args);
    command.env("CUDA_VISIBLE_DEVICES", cards);
    let daemon = Daemon::start(name, command, farm.temp().path());
    farm.workers.push(daemon);
}

/// A job whose units say which cards they see, and fail where `most` others use them.
fn job(farm: &Farm, units: u32, needs: &str, most: u32) -> String {
    let dir = farm.temp().path().display();
    let script = format!(
        "for place in $(seq {most}); do mkdir {dir}/$CUDA_VISIBLE_DEVICES.$place 2>/dev/null && break; place=; done; \
         test -n \"$place\" || exit 9; sleep 0.1; rmdir {dir}/$CUDA_VISIBLE_DEVICES.$place; \
         echo $CUDA_VISIBLE_DEVICES/$STARFARM_DEVICES/$ROCR_VISIBLE_DEVICES/$HIP_VISIBLE_DEVICES/$ZE_AFFINITY_MASK"
    );
    farm.submit_text(&format!(
        "[space]\nkind = \"range\"\nfrom = 0\nto = {units}\n[task]\nexecutor = \"command\"\n{needs}\n\
         units_per_task = 1\nprogram = [\"sh\", \"-c\", {script:?}]\n"
    ))
}

#[test]
fn each_unit_has_cards_of_its_own_and_small_units_fill_the_cores() {
    let mut farm = Farm::start();
    add(&mut farm, "a", "GPU-one,GPU-two", &["--slots", "6"]);
    let whole = job(&farm, 12, "needs = { gpus = 1 }", 1);
    let beside = farm.submit(&["--range", "0..40", "--", "sh", "-c", "echo {}${CUDA_VISIBLE_DEVICES+seen}"]);
    for id in [&whole, &beside] {
        farm.wait(id).exits(0);
    }
    let mut by_card: BTreeMap<String, u32> = BTreeMap::new();
    for said in stdouts(&farm.results(&whole)).into_values() {
        *by_card.entry(said.trim().to_owned()).or_default() += 1;
    }
    assert_eq!(by_card.keys().collect::<Vec<_>>(), ["GPU-one/0///", "GPU-two/1///"]);
    each_done_once(&farm.job(&whole), &farm.results(&whole), 12);
    let both = farm.submit_text(
        "[space]\nkind = \"range\"\nfrom = 0\nto = 1\n[task]\nexecutor = \"command\"\nneeds = { gpus = 2 }\n\
         program = [\"sh\", \"-c\", \"echo $CUDA_VISIBLE_DEVICES {}\"]\n",
    );
    farm.wait(&both).exits(0);
    assert_eq!(stdouts(&farm.results(&both))[&0], "GPU-one,GPU-two 0\n");
}

#[test]
fn halves_of_a_card_are_shared_by_two() {
    let mut farm = Farm::start();
    add(&mut farm, "a", "GPU-one,GPU-two", &["--slots", "8", "--gpus", "1"]);
    let id = job(&farm, 12, "needs = { gpus = 0.5 }", 2);
    farm.wait(&id).exits(0);
    let said = stdouts(&farm.results(&id));
    assert!(said.values().all(|said| said.trim() == "GPU-two/0///"), "{said:?}");
}

#[test]
fn what_no_node_has_waits_and_is_explained() {
    let mut farm = Farm::start();
    add(&mut farm, "a", "", &["--slots", "1"]);
    farm.until_nodes_up(1);
    let id = farm.submit(&["--range", "0..1", "--gpus", "1", "--", "true", "{}"]);
    let told = farm.cli(&["job", "explain", &id]);
    let told = told.exits(0).stdout.clone();
    assert!(told.contains("1 GPU") && told.contains("start a larger worker"), "{told}");
    add(&mut farm, "b", "GPU-one", &["--slots", "1"]);
    farm.wait(&id).exits(0);
    assert_eq!(farm.ask(&["node", "show", "b"])["nodes"][0]["gpus"], 1.0);
    farm.cli(&["submit", "--range", "0..1", "--gpus", "1.5", "--", "true", "{}"]).exits(2).says(&["0.5"]);
    let mut here = program("starfarm", farm.temp().path());
    here.args(["run", "--range", "0..1", "--gpus", "1", "--", "true", "{}"]).env("CUDA_VISIBLE_DEVICES", "");
    run(here).exits(2).says(&["more gpus than this machine has"]);
}
