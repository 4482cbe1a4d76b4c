//! Programs that have GPUs to themselves, or share one. No card is at hand: a batch system that names some to the worker is
//! enough, as the programs here look at what they are told alone.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::json;
use starfarm_e2e::{Daemon, Farm, TempDir, each_done_once, program, run, stdouts, until, worker_args};

/// Adds a worker with these cards.
fn add(farm: &mut Farm, name: &str, cards: &str, args: &[&str]) {
    add_with(farm, name, cards, args, &[]);
}

fn add_with(farm: &mut Farm, name: &str, cards: &str, args: &[&str], env: &[(&str, &str)]) {
    let join = farm.state().join("worker.join");
    let mut command = program("starfarm-worker", farm.temp().path());
    command.args(worker_args(name, &join, &farm.worker_state(name))).args(args);
    command.env("CUDA_VISIBLE_DEVICES", cards).envs(env.iter().copied());
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

/// A library in the place of NVIDIA's that knows one card by its name; it ends whoever asks where `crash` is set.
const NVML: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef struct { unsigned int gpu, memory; } rates;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory;
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *name, void **device)
{
    if (getenv("crash")) abort();
    *device = (void *)name;
    return strcmp(name, "GPU-one") ? 6 : 0;
}
int nvmlDeviceGetUtilizationRates(void *device, rates *out) { out->gpu = 87; out->memory = 3; return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *device, memory *out) { out->total = 1ull << 34; out->used = 1ull << 33; return 0; }
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *out)
{
    *out = 64;
    if (getenv("hot")) {
        FILE *file = fopen(getenv("hot"), "r");
        if (file) { *out = 97; fclose(file); }
    }
    return 0;
}
int nvmlDeviceGetTemperatureThreshold(void *device, int which, unsigned int *out) { *out = which ? 90 : 95; return 0; }
int nvmlDeviceGetIndex(void *device, unsigned int *out) { *out = 0; return 0; }
int nvmlEventSetCreate(void **set) { *set = 0; return 0; }
int nvmlEventSetFree(void *set) { return 0; }
int nvmlDeviceGetSupportedEventTypes(void *device, unsigned long long *out) { *out = 8; return 0; }
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) { return types == 8 ? 0 : 2; }
typedef struct { void *device; unsigned long long type, data; unsigned int instance, compute; } event;
int nvmlEventSetWait_v2(void *set, event *out, unsigned int ms)
{
    static int told;
    memset(out, 0, sizeof *out);
    if (!told && getenv("xid") && !access(getenv("xid"), R_OK)) {
        told = 1;
        out->device = "GPU-one";
        out->type = 8;
        out->data = 79;
        return 0;
    }
    usleep(ms * 1000);
    return 10;
}
"#;

/// The library, built.
fn nvml(dir: &TempDir) -> String {
    let (source, library) = (dir.write("nvml.c", NVML), dir.path().join("libnvidia-ml.so.1"));
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(built.unwrap().success(), "a linker is there, or this test would not be");
    dir.path().to_str().unwrap().to_owned()
}

#[test]
fn what_the_drivers_of_cards_say_is_shown_and_what_they_do_not_say_is_absent() {
    let mut farm = Farm::start();
    let dir = TempDir::new();
    let library = nvml(&dir);
    let library = library.as_str();
    let unknown = json!({ "model": "Nvidia", "load": null, "memory_used_bytes": null, "memory_bytes": null,
        "temperature_c": null, "power_mw": null });
    let mut known = unknown.clone();
    for (figure, value) in
        [("load", 870), ("memory_used_bytes", 1_u64 << 33), ("memory_bytes", 1 << 34), ("temperature_c", 64)]
    {
        known[figure] = json!(value);
    }
    let cases = [
        ("a", &[("LD_LIBRARY_PATH", library)][..], &known),
        ("b", &[("LD_LIBRARY_PATH", library), ("crash", "1")], &unknown),
        ("c", &[], &unknown),
    ];
    for (count, (name, env, first)) in (1..).zip(cases) {
        add_with(&mut farm, name, "GPU-one,GPU-two", &["--slots", "1"], env);
        farm.until_nodes_up(count);
        let wanted = json!([first, unknown]);
        until(&format!("the cards of {name}"), || {
            farm.ask(&["node", "show", name])["nodes"][0]["cards"] == wanted
        });
    }
    let id = farm.submit(&["--range", "0..20", "--gpus", "1", "--", "true", "{}"]);
    farm.wait(&id).exits(0);
    let table = farm.cli(&["node", "show", "a"]).exits(0).stdout.clone();
    assert!(table.contains("0: Nvidia: 87 %, 8.0 GiB of 16.0 GiB, 64 °C"), "{table}");
}

#[test]
fn jobs_and_machines_have_the_load_of_their_cards_and_what_is_wrong_with_a_card_is_an_alarm() {
    let mut farm = Farm::start();
    let dir = TempDir::new();
    let library = nvml(&dir);
    let [hot, xid] = ["hot", "xid"].map(|name| dir.path().join(name).display().to_string());
    let env = [("LD_LIBRARY_PATH", library.as_str()), ("hot", &hot), ("xid", &xid)];
    add_with(&mut farm, "a", "GPU-one,GPU-two", &["--slots", "3"], &env);
    farm.until_nodes_up(1);
    // Two share the card whose load is known; one has none.
    let halves = farm.submit(&["--range", "0..2", "--gpus", "0.5", "--", "sleep", "600", "{}"]);
    let without = farm.submit(&["--range", "0..1", "--", "sleep", "600", "{}"]);
    until("the job has the load of its card", || {
        let gpu = farm.job(&halves)["usage"]["gpu"].clone();
        gpu == json!({ "min": 0.435, "avg": 0.435, "max": 0.435, "sum": 0.87 })
    });
    until("the machine has that of its cards", || {
        farm.ask(&["node", "show", "a"])["nodes"][0]["usage"]["gpu"] == 0.87
    });
    let told = farm.cli(&["monitor", "show", "--job", &halves]).exits(0).stdout.clone();
    assert!(told.contains("gpu-memory"), "{told}");
    until("the other job is measured", || farm.job(&without)["usage"]["units"] == 1);
    assert_eq!(farm.job(&without)["usage"]["gpu"], json!(null));
    let alarm = |sensor: &str| {
        let alarms = farm.ask(&["monitor", "alarms"]);
        let mut all = alarms["alarms"].as_array().unwrap().iter();
        all.find(|alarm| alarm["sensor"] == sensor).map(|alarm| alarm["text"].as_str().unwrap().to_owned())
    };
    assert_eq!((alarm("card-temperature"), alarm("card-errors")), (None, None));
    std::fs::write(&hot, "").unwrap();
    std::fs::write(&xid, "").unwrap();
    until("the card is too hot", || {
        alarm("card-temperature").is_some_and(|text| text == "card 0 (Nvidia) is at 97 degrees Celsius")
    });
    until("the card has a fault", || {
        alarm("card-errors")
            .is_some_and(|text| text.starts_with("1 errors of card 0 (Nvidia), not corrected"))
    });
    std::fs::remove_file(&hot).unwrap();
    until("the card is cool again", || alarm("card-temperature").is_none());
}
