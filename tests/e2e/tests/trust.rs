//! Who may do what: join files, roles, names, revoked keys, and administration from elsewhere.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use starfarm_e2e::{Farm, each_done_once};

/// A join file of a new key with that role.
fn new_key(farm: &Farm, role: &str) -> PathBuf {
    let path = farm.temp().path().join(format!("{role}.join"));
    farm.cli(&["key", "add", "--role", role, "--out", &path.to_string_lossy()]).exits(0);
    path
}

#[test]
fn a_farm_is_governed_from_elsewhere_with_its_admin_join_file() {
    let farm = Farm::with_workers(1, 2);
    let admin = farm.state().join("admin.join");
    let ask = |args: &[&str]| farm.cli_by(&admin, args);
    let script = "head -c 200000 /dev/zero | tr '\\0' x";
    let args = ["--output", "quiet", "submit", "--range", "0..3", "--", "sh", "-c", script];
    let id = ask(&args).exits(0).stdout.trim().to_owned();
    ask(&["job", "wait", &id, "--timeout", "110"]).exits(0);
    let results = ask(&["--output", "json", "results", &id]).exits(0).json();
    each_done_once(&farm.job(&id), &results, 3);
    assert_eq!(results["outputs"][2]["stdout"]["text"].as_str().unwrap(), "x".repeat(200_000));
    assert_eq!(ask(&["--output", "quiet", "nodes"]).exits(0).stdout, "w1\n");
    ask(&["node", "drain", "w1"]).exits(0);
    farm.until_node("w1", "draining");
    ask(&["key", "list"]).exits(0);
    let keys = ask(&["--output", "json", "key", "list"]).exits(0).json();
    let keys = keys["keys"].as_array().unwrap();
    let enrolled =
        |role: &str| keys.iter().filter(|key| key["kind"] == "enrolled" && key["role"] == role).count();
    assert_eq!((enrolled("worker"), enrolled("admin")), (1, 1));
}

#[test]
fn an_observer_looks_an_operator_steers_and_neither_governs() {
    let farm = Farm::with_workers(1, 1);
    let submit = ["--output", "quiet", "submit", "--range", "0..2", "--", "true"];
    let observer = new_key(&farm, "observer");
    for args in [&["jobs"][..], &["nodes"], &["status"]] {
        farm.cli_by(&observer, args).exits(0);
    }
    farm.cli_by(&observer, &submit).exits(5).says(&["role observer"]);
    farm.cli_by(&observer, &["key", "list"]).exits(5).says(&["role observer"]);

    let operator = new_key(&farm, "operator");
    let id = farm.cli_by(&operator, &submit).exits(0).stdout.trim().to_owned();
    farm.wait(&id).exits(0);
    farm.cli_by(&observer, &["results", &id]).exits(0);
    farm.cli_by(&observer, &["job", "delete", &id]).exits(5);
    farm.cli_by(&operator, &["key", "add"]).exits(5).says(&["role operator"]);
    farm.cli_by(&operator, &["job", "delete", &id]).exits(0);
}

#[test]
fn join_files_do_not_cross_roles() {
    let mut farm = Farm::start();
    let (worker, admin) = (farm.state().join("worker.join"), farm.state().join("admin.join"));
    farm.cli_by(&worker, &["jobs"]).exits(5).says(&["admin.join"]);
    let crossed = farm.add_worker_by("crossed", &admin, &[]);
    assert_eq!(crossed.wait(), 5, "{}", crossed.log());
    assert!(crossed.log().contains("worker.join"), "{}", crossed.log());
    assert_eq!(farm.node_state("crossed"), "");
}

#[test]
fn a_join_file_of_another_farm_leads_nowhere() {
    let (mut farm, other) = (Farm::start(), Farm::start());
    let admin = other.join_file_at("admin.join", farm.address());
    farm.cli_by(&admin, &["jobs"]).exits(3).says(&["not the scheduler of this join file", "copy"]);
    let worker = other.join_file_at("worker.join", farm.address());
    let stranger = farm.add_worker_by("stranger", &worker, &[]);
    stranger.until_says("does not answer");
    assert_eq!(farm.node_state("stranger"), "");
}

#[test]
fn a_revoked_worker_is_told_and_stays_away() {
    let mut farm = Farm::with_workers(2, 1);
    farm.cli(&["key", "revoke", "w1"]).exits(0);
    assert_eq!(farm.workers[0].wait(), 5, "{}", farm.workers[0].log());
    assert!(farm.workers[0].log().contains("revoked"), "{}", farm.workers[0].log());
    assert_eq!(farm.node_state("w1"), "lost", "nobody waits for what it had");
    let again = farm.add_worker("w1", &[]);
    assert_eq!(again.wait(), 5, "{}", again.log());
    let keys = farm.ask(&["key", "list"])["keys"].take();
    let revoked =
        |name: &str| keys.as_array().unwrap().iter().any(|key| key["name"] == name && key["revoked"] == true);
    assert!(revoked("w1") && !revoked("w2"));
    let id = farm.submit(&["--range", "0..5", "--", "true"]);
    farm.wait(&id).exits(0);
}

/// The file said nothing of the key that had been revoked since.
#[test]
fn an_older_copy_of_the_keys_is_told_by_the_journal() {
    let mut farm = Farm::with_workers(2, 1);
    let keys = farm.state().join("keys.json");
    let noted = |farm: &Farm| farm.status()["notes"].to_string();
    farm.kill_scheduler();
    farm.restart_scheduler();
    let before = std::fs::read(&keys).unwrap();
    farm.cli(&["key", "revoke", "w1"]).exits(0);
    farm.cli(&["node", "forget", "w1"]).exits(0);
    farm.kill_scheduler();
    farm.restart_scheduler();
    assert!(!noted(&farm).contains("keys.json"), "{}", noted(&farm));
    farm.kill_scheduler();
    std::fs::write(&keys, before).unwrap();
    farm.restart_scheduler();
    assert!(noted(&farm).contains("valid ones in keys.json: w1. If"), "{}", noted(&farm));
}

#[test]
fn a_revoked_join_file_lets_nobody_in_and_puts_nobody_out() {
    let mut farm = Farm::start();
    let join = new_key(&farm, "worker");
    farm.add_worker_by("early", &join, &["--slots", "1"]);
    farm.until_nodes_up(1);
    let text = std::fs::read_to_string(&join).unwrap();
    let id = serde_json::from_str::<serde_json::Value>(&text).unwrap()["join_key"].take();
    farm.cli(&["key", "revoke", id.as_str().unwrap()]).exits(0);
    let late = farm.add_worker_by("late", &join, &[]);
    assert_eq!(late.wait(), 5, "{}", late.log());
    assert!(late.log().contains("this join file was revoked"), "{}", late.log());
    let id = farm.submit(&["--range", "0..5", "--", "true"]);
    farm.wait(&id).exits(0);
    assert_eq!(farm.node_state("early"), "up");
}

#[test]
fn a_name_belongs_to_the_key_that_had_it_first() {
    let mut farm = Farm::with_workers(1, 1);
    let state = farm.temp().path().join("another");
    let join = farm.state().join("worker.join");
    let mut command = starfarm_e2e::program("starfarm-worker", farm.temp().path());
    command.args(starfarm_e2e::worker_args("w1", &join, &state));
    starfarm_e2e::run(command).exits(5).says(&["`w1` is held by another key", "--name"]);
    assert_eq!(farm.node_state("w1"), "up");
    // Its own state directory brings it back.
    farm.workers[0].kill();
    farm.add_worker("w1", &["--slots", "1"]);
    let id = farm.submit(&["--range", "0..5", "--", "true"]);
    farm.wait(&id).exits(0);
}

#[test]
fn secrets_are_readable_by_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let farm = Farm::with_workers(1, 1);
    farm.cli_by(&farm.state().join("admin.join"), &["jobs"]).exits(0);
    let mut files: Vec<PathBuf> = ["worker.join", "admin.join", "scheduler.key", "keys.json", "admin.sock"]
        .map(|name| farm.state().join(name))
        .to_vec();
    files.push(farm.worker_state("w1").join("key"));
    files.push(farm.temp().path().join("xdg-state/starfarm/admin.key"));
    for file in files {
        let mode = std::fs::metadata(&file)
            .unwrap_or_else(|e| panic!("{}: {e}", file.display()))
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0, "{}", file.display());
    }
}

/// Every file and folder below `path` that others can use.
fn open_to_others(path: &std::path::Path) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt;
    let mut open = Vec::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            open.push(format!("{} {mode:o}", entry.path().display()));
        }
        if entry.path().is_dir() {
            open.extend(open_to_others(&entry.path()));
        }
    }
    open
}

fn open_all(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    let is_dir = path.is_dir();
    if is_dir {
        std::fs::read_dir(path).unwrap().for_each(|entry| open_all(&entry.unwrap().path()));
    }
    let mode = if is_dir { 0o755 } else { 0o644 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// In a directory that systemd or mkdir had made others could read outputs, logs and the checkpoint.
#[test]
fn what_a_farm_writes_is_for_its_user_alone_whatever_the_modes_were() {
    let mut farm = Farm::with_workers(1, 2);
    let work = |farm: &Farm| {
        let script = "head -c 2000 /dev/zero; echo x > $STARFARM_SCRATCH/file";
        let id = farm.submit(&["--range", "0..20", "--", "sh", "-c", script]);
        farm.wait(&id).exits(0);
    };
    work(&farm);
    assert_eq!(open_to_others(&farm.state()), [""; 0]);
    assert_eq!(open_to_others(&farm.worker_state("w1")), [""; 0]);
    farm.kill_scheduler();
    farm.workers[0].kill();
    open_all(&farm.state());
    open_all(&farm.worker_state("w1"));
    farm.restart_scheduler();
    let notes = farm.status()["notes"].to_string();
    assert!(notes.contains("scheduler.key") && notes.contains("revoke"), "{notes}");
    farm.add_worker("w1", &["--slots", "1"]);
    work(&farm);
    farm.workers[1].until_says("others on this machine could use");
    // What was in folders before is behind these, which are closed.
    for state in [farm.state(), farm.worker_state("w1")] {
        let mut open = open_to_others(&state);
        let top = |open: &String| !open.strip_prefix(&format!("{}/", state.display())).unwrap().contains('/');
        open.retain(top);
        assert_eq!(open, [""; 0]);
    }
}

fn chmod(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A scheduler in the farm's directory, which must not start.
fn refused_scheduler(farm: &Farm) -> starfarm_e2e::Reply {
    let mut command = starfarm_e2e::program("starfarm-scheduler", farm.temp().path());
    command.arg("--state").arg(farm.state()).args(["--listen", "127.0.0.1:0"]);
    starfarm_e2e::run(command)
}

#[test]
fn a_directory_where_others_may_write_is_refused_in_words() {
    let mut farm = Farm::with_workers(1, 1);
    farm.kill_scheduler();
    farm.workers[0].kill();
    let worker = farm.worker_state("w1");
    for (mode, who) in [
        (0o777, "everybody on this machine may write in it (mode 777)"),
        (0o1777, "everybody on this machine may write in it (mode 1777)"),
        (0o775, "its group may write in it (mode 775)"),
    ] {
        chmod(&farm.state(), mode);
        refused_scheduler(&farm).exits(6).says(&[who, "`chmod go-w "]);
        chmod(&worker, mode);
        let started = farm.add_worker("w1", &[]);
        started.wait();
        assert!(started.log().contains(who) && started.log().contains("`chmod go-w "), "{}", started.log());
    }
    [&farm.state(), &worker].into_iter().for_each(|path| chmod(path, 0o755));
    let settings = farm.state().join("config.toml");
    std::fs::write(&settings, "").unwrap();
    chmod(&settings, 0o664);
    refused_scheduler(&farm).exits(2).says(&[
        "config.toml",
        "its group may write it (mode 664)",
        "chmod go-w",
    ]);
    chmod(&settings, 0o644);
    farm.restart_scheduler();
    farm.add_worker("w1", &[]);
    farm.until_nodes_up(1);
}

/// Links that were there before led the journal and the keys to a place of another user's choice.
#[test]
fn what_another_user_put_into_a_directory_beforehand_is_refused_by_its_name() {
    use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};
    let mut farm = Farm::with_workers(1, 1);
    if std::fs::metadata(farm.state()).unwrap().uid() != 0 {
        return starfarm_e2e::skip("root", "trust::planted", "only root makes files of other users");
    }
    farm.kill_scheduler();
    farm.workers[0].kill();
    let elsewhere = farm.temp().path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let (state, worker) = (farm.state(), farm.worker_state("w1"));
    let said = |shown: &std::path::Path| {
        ["", " belongs to another user (uid 1234)", "delete it"].map(|words| match words {
            "" => shown.display().to_string(),
            words => words.to_owned(),
        })
    };
    // Temporary names, and those that a farm which is new makes.
    for name in ["farm.new", "keys.new", "ballast", "outputs/2.outputs", "journal/planted", "checkpoint/9"] {
        let path = state.join(name);
        let _ = std::fs::remove_file(&path);
        symlink(&elsewhere, &path).unwrap();
        lchown(&path, Some(1234), None).unwrap();
        refused_scheduler(&farm).exits(6).says(&said(&path).each_ref().map(String::as_str));
        std::fs::remove_file(&path).unwrap();
    }
    let journal = state.join("journal");
    std::fs::rename(&journal, elsewhere.join("journal")).unwrap();
    symlink(elsewhere.join("journal"), &journal).unwrap();
    lchown(&journal, Some(1234), None).unwrap();
    refused_scheduler(&farm).exits(6).says(&said(&journal).each_ref().map(String::as_str));
    // A link of one's own is followed, and what it leads to has to be one's own as well.
    lchown(&journal, Some(0), None).unwrap();
    let (there, key) = (elsewhere.join("journal"), elsewhere.join("secret"));
    chown(&there, Some(1234), None).unwrap();
    refused_scheduler(&farm).exits(6).says(&["journal: it belongs to another user (uid 1234)", "chown"]);
    chown(&there, Some(0), None).unwrap();
    std::fs::rename(state.join("scheduler.key"), &key).unwrap();
    symlink(&key, state.join("scheduler.key")).unwrap();
    [(&there, 0o755), (&key, 0o666)].into_iter().for_each(|(path, mode)| chmod(path, mode));
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    refused_scheduler(&farm).exits(6).says(&["journal leads to a folder that others", "(mode 755)"]);
    assert_eq!((mode(&there), mode(&key)), (0o755, 0o666), "who is refused has changed nothing");
    chmod(&there, 0o700);
    farm.restart_scheduler();
    assert_eq!((mode(&there), mode(&key)), (0o700, 0o600));
    farm.kill_scheduler();
    std::fs::rename(&key, state.join("scheduler.key")).unwrap();
    chown(&state, Some(1234), None).unwrap();
    refused_scheduler(&farm)
        .exits(6)
        .says(&["it belongs to another user (uid 1234)", "choose another place"]);
    chown(&state, Some(0), None).unwrap();
    farm.restart_scheduler();
    let planted = worker.join("key.new");
    symlink(elsewhere.join("key"), &planted).unwrap();
    lchown(&planted, Some(1234), None).unwrap();
    let refused = farm.add_worker("w1", &[]);
    refused.wait();
    said(&planted).iter().for_each(|words| assert!(refused.log().contains(words), "{}", refused.log()));
    std::fs::remove_file(&planted).unwrap();
    farm.add_worker("w1", &[]);
    farm.until_nodes_up(1);
    assert_eq!(
        std::fs::read_dir(&elsewhere).unwrap().count(),
        1,
        "nothing was written there but the journal"
    );
}

fn keys(farm: &Farm, name: &str) -> Vec<String> {
    let keys = farm.ask(&["key", "list"])["keys"].take();
    let named = keys.as_array().unwrap().iter().filter(|key| key["name"] == name);
    named.map(|key| key["id"].as_str().unwrap().to_owned()).collect()
}

/// A drain struck the one node of two of the same name, and a revoke the other.
#[test]
fn a_key_keeps_its_name_and_commands_take_either() {
    let mut farm = Farm::with_workers(2, 1);
    let state = farm.worker_state("w1");
    farm.workers[0].kill();
    let join = farm.state().join("worker.join");
    let mut command = starfarm_e2e::program("starfarm-worker", farm.temp().path());
    command.args(starfarm_e2e::worker_args("other", &join, &state));
    starfarm_e2e::run(command).exits(5).says(&["enrolled as `w1`", "--name w1"]);
    assert_eq!(farm.node_state("other"), "");
    let [key] = &keys(&farm, "w2")[..] else { panic!("w2 has one key") };
    farm.cli(&["node", "drain", key]).exits(0);
    farm.until_node("w2", "draining");
    assert_eq!(farm.ask(&["node", "show", key])["nodes"][0]["key"], **key);
    farm.cli(&["node", "resume", key]).exits(0);
    farm.cli(&["node", "explain", key]).exits(0);
    farm.cli(&["key", "revoke", key]).exits(0);
    assert_eq!(farm.workers[1].wait(), 5);
    farm.cli(&["node", "drain", key]).exits(4);
    // Another machine takes the name: it is the same node.
    let again = farm.temp().path().join("state-again");
    let mut command = starfarm_e2e::program("starfarm-worker", farm.temp().path());
    command.args(starfarm_e2e::worker_args("w2", &join, &again));
    farm.workers.push(starfarm_e2e::Daemon::start("w2-again", command, farm.temp().path()));
    farm.until_node("w2", "up");
    let nodes = farm.ask(&["nodes"])["nodes"].take();
    assert_eq!(nodes.as_array().unwrap().iter().filter(|node| node["name"] == "w2").count(), 1, "{nodes}");
    assert_eq!(keys(&farm, "w2").len(), 2);
    let id = farm.submit(&["--range", "0..5", "--", "true"]);
    farm.wait(&id).exits(0);
}

/// A worker's words went to the terminal of whoever looked at the scheduler's as they were.
#[test]
fn words_of_a_worker_steer_no_terminal() {
    let farm = Farm::with_workers(1, 1);
    let program = "no\u{1b}[2J\u{202e}\u{9b}31m\nsuch";
    let id = farm.submit(&["--range", "0..1", "--", program]);
    starfarm_e2e::until("it is refused", || {
        farm.job(&id)["refused_by"].as_array().is_some_and(|by| !by.is_empty())
    });
    let mut shown = vec![farm.scheduler.log(), farm.workers[0].log()];
    for args in [
        &["job", "show", &id][..],
        &["job", "explain", &id],
        &["events"],
        &["--output", "json", "job", "show", &id],
    ] {
        let reply = farm.cli(args);
        shown.push(reply.exits(0).stdout.clone());
    }
    for text in &shown {
        let hidden = |c: &char| *c != '\n' && starfarm_protocol::foreign::is_hidden(*c);
        assert_eq!(text.chars().find(hidden), None, "{text:?}");
    }
    assert!(shown[0].contains("no\\u{1b}[2J\\u{202e}\\u{9b}31m\\nsuch"), "{}", shown[0]);
    farm.cli(&["job", "cancel", &id]).exits(0);
}
