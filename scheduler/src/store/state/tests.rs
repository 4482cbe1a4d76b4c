//! The state directory: what is refused, and that nothing is overwritten.

use starfarm_protocol::ids::Boot;
use starfarm_protocol::seal::Claim;

use super::*;

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("starfarm-state-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    dir
}

#[test]
fn each_start_raises_the_epoch_and_keeps_the_rest() {
    let dir = scratch("epoch");
    drop(StateDir::open(&dir).unwrap());
    let (mut first, mut keys) = StateDir::open(&dir).unwrap();
    first.raise_epoch(Epoch(1)).unwrap();
    first.write_join_files(&mut keys, &["h:1".into()]).unwrap();
    let join = fs::read_to_string(dir.join("worker.join")).unwrap();
    let (farm, public) = (first.farm.id, first.key.public());
    assert!(first.farm.epoch == Epoch(1) && first.notes.is_empty());
    drop(first);
    let (mut second, mut keys) = StateDir::open(&dir).unwrap();
    second.raise_epoch(Epoch(2)).unwrap();
    second.write_join_files(&mut keys, &["h:1".into()]).unwrap();
    assert_eq!(second.farm.superseded, None);
    second.supersede(Epoch(9)).unwrap();
    assert_eq!((second.farm.epoch, second.farm.id, second.key.public()), (Epoch(2), farm, public));
    assert_eq!(join, fs::read_to_string(dir.join("worker.join")).unwrap());
    drop(second);
    let (third, _) = StateDir::open(&dir).unwrap();
    assert_eq!(
        (third.farm.epoch, third.farm.superseded),
        (Epoch(2), Some(Epoch(9))),
        "not raised, so not started"
    );
    fs::remove_dir_all(dir).unwrap();
}

fn started(name: &str) -> (PathBuf, KeyStore) {
    let dir = scratch(name);
    let (mut state, mut keys) = StateDir::open(&dir).unwrap();
    state.raise_epoch(Epoch(1)).unwrap();
    state.write_join_files(&mut keys, &["h:1".into()]).unwrap();
    (dir, keys)
}

fn refusal(dir: &Path) -> String {
    StateDir::open(dir).map(|_| ()).unwrap_err().to_string()
}

mod damage;

#[test]
fn keys_that_are_damaged_missing_or_unreadable_are_refused_and_nothing_is_overwritten() {
    let (dir, keys) = started("damaged-keys");
    let path = dir.join("keys.json");
    let bytes = fs::read(&path).unwrap();
    for (at, bit) in (0..bytes.len()).step_by(7).map(|at| (at, at % 8)) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << bit;
        fs::write(&path, &damaged).unwrap();
        match StateDir::open(&dir) {
            // A capital digit is the same digit.
            Ok((_, read)) => assert_eq!(read, keys, "bit {bit} of byte {at}"),
            Err(e) => assert!(e.to_string().contains("keys.json"), "{e}"),
        }
        assert_eq!(fs::read(&path).unwrap(), damaged);
    }
    fs::remove_file(&path).unwrap();
    assert!(refusal(&dir).contains("nothing takes its place"), "{}", refusal(&dir));
    assert!(!path.exists());
    fs::create_dir(&path).unwrap();
    assert!(refusal(&dir).contains("keys.json"), "a read error: {}", refusal(&dir));
    fs::remove_dir(&path).unwrap();
    fs::write(&path, &bytes).unwrap();
    assert_eq!(StateDir::open(&dir).unwrap().1, keys);
    let (ours, join) = (dir.join("scheduler.key"), fs::read(dir.join("worker.join")).unwrap());
    // As a flipped bit would make it.
    fs::write(&ours, StaticKey::generate().unwrap().private().to_text().as_bytes()).unwrap();
    assert!(refusal(&dir).contains("not the key that worker.join names"), "{}", refusal(&dir));
    assert_eq!(fs::read(dir.join("worker.join")).unwrap(), join);
    fs::remove_file(ours).unwrap();
    assert!(refusal(&dir).contains("scheduler.key"), "{}", refusal(&dir));
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn ten_thousand_first_joins_write_a_line_each() {
    let (dir, mut keys) = started("joins");
    let (state, _) = StateDir::open(&dir).unwrap();
    state.save_keys(&keys).unwrap();
    let before = fs::read(dir.join("keys.json")).unwrap();
    let join_key = *keys.join_keys().find(|(_, key)| key.role == Role::Worker).unwrap().0;
    let numbers: Vec<u32> = (0..10_000).collect();
    for batch in numbers.chunks(64) {
        let mut enrolled = Vec::new();
        for number in batch {
            let mut key = PublicKey([0; 32]);
            key.0[..4].copy_from_slice(&number.to_le_bytes());
            let (name, boot) = (format!("n{number}"), Boot(1));
            let now_s = u64::from(*number);
            assert_eq!(keys.enrol(&Claim { key, name, boot, join_key }, now_s), Ok(true));
            enrolled.push(key);
        }
        state.save_enrolled(&keys, &enrolled).unwrap();
    }
    assert_eq!(fs::read(dir.join("keys.json")).unwrap(), before, "it is not written anew for each");
    let bytes = fs::metadata(dir.join("enrolments")).unwrap().len();
    assert!(bytes < 3_000_000, "{bytes}");
    drop(state);
    let (state, again) = StateDir::open(&dir).unwrap();
    assert_eq!(again, keys);
    state.save_keys(&again).unwrap();
    assert!(fs::metadata(dir.join("enrolments")).unwrap().len() < 100);
    drop(state);
    assert_eq!(StateDir::open(&dir).unwrap().1, keys);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_farm_without_its_file_is_not_taken_for_a_new_one() {
    let dir = scratch("lost");
    StateDir::open(&dir).unwrap().0.raise_epoch(Epoch(1)).unwrap();
    fs::create_dir(dir.join("journal")).unwrap();
    fs::remove_file(dir.join("farm.json")).unwrap();
    let error = StateDir::open(&dir).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("farm.json is missing"), "{error}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_second_scheduler_is_told_to_use_another_directory() {
    let dir = scratch("lock");
    let held = StateDir::open(&dir).unwrap();
    let error = StateDir::open(&dir).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("another scheduler runs"), "{error}");
    drop(held);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_clock_that_went_back_is_noted() {
    let dir = scratch("clock");
    StateDir::open(&dir).unwrap().0.raise_epoch(Epoch(1)).unwrap();
    let text = fs::read_to_string(dir.join("farm.json")).unwrap();
    let mut file: FarmFile = serde_json::from_str(&text).unwrap();
    file.started_unix += 3_600;
    save(&dir, &file).unwrap();
    let (state, _) = StateDir::open(&dir).unwrap();
    assert!(state.notes.iter().any(|note| note.contains("behind this farm's last start")));
    fs::remove_dir_all(dir).unwrap();
}
