//! Each file that says who the farm is and who belongs to it: every byte flipped, many lengths, none, and another farm's.
//! The farm opens as what it is, or is refused in words that name a file and say what to do. Nothing is lost on the way.

use super::*;

/// The files that a farm cannot go on without, and those that are made anew.
const FILES: [&str; 6] =
    ["farm.json", "scheduler.key", "keys.json", "enrolments", "worker.join", "admin.join"];

/// A farm that was started, with a worker that enrolled since its keys were written.
fn farm(name: &str) -> (PathBuf, PublicKey) {
    let (dir, mut keys) = started(name);
    let (state, _) = StateDir::open(&dir).unwrap();
    state.save_keys(&keys).unwrap();
    let join_key = *keys.join_keys().find(|(_, key)| key.role == Role::Worker).unwrap().0;
    let key = PublicKey([7; 32]);
    keys.enrol(&Claim { key, name: "n1".into(), boot: Boot(1), join_key }, 1).unwrap();
    state.save_enrolled(&keys, &[key]).unwrap();
    fs::create_dir(dir.join("journal")).unwrap();
    (dir, key)
}

/// Who a farm is: its id, its scheduler's key, its join keys.
fn identity(dir: &Path) -> Result<(FarmId, PublicKey, Vec<String>), String> {
    let (state, keys) = StateDir::open(dir).map_err(|e| e.to_string())?;
    let join_keys = keys.join_keys().map(|(id, key)| format!("{id} {} {}", key.role, key.revoked)).collect();
    Ok((state.farm.id, state.key.public(), join_keys))
}

/// It is the farm, or is refused in words.
#[track_caller]
fn sound(dir: &Path, farm: &(FarmId, PublicKey, Vec<String>), of: &str) {
    match identity(dir) {
        Ok(found) => assert_eq!(found, *farm, "{of}"),
        Err(why) => {
            assert!(FILES.iter().any(|file| why.contains(file)), "{of}: {why}");
            assert!(why.contains("restore it from a copy") || why.contains("newer program"), "{of}: {why}");
        }
    }
}

#[test]
fn every_flip_and_many_lengths_of_each_file_are_refused_in_words_or_harmless() {
    let (dir, _) = farm("damage-flips");
    let before = identity(&dir).unwrap();
    let mut cases = 0;
    for name in FILES {
        let path = dir.join(name);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 7);
            fs::write(&path, &damaged).unwrap();
            sound(&dir, &before, &format!("{name}, byte {at}"));
            cases += 1;
            if at % 7 != 0 {
                continue;
            }
            fs::write(&path, &whole[..at]).unwrap();
            sound(&dir, &before, &format!("{name}, cut at {at}"));
            assert_eq!(fs::read(&path).unwrap(), whole[..at], "who is refused changes nothing");
            cases += 1;
        }
        fs::remove_file(&path).unwrap();
        sound(&dir, &before, &format!("{name} deleted"));
        let _ = fs::remove_file(&path);
        fs::write(&path, &whole).unwrap();
    }
    assert_eq!(identity(&dir).unwrap(), before);
    assert!(cases > 2_000, "{cases}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn files_of_another_farm_are_recognised_and_join_files_are_made_anew() {
    let ((dir, enrolled), (other, _)) = (farm("damage-ours"), farm("damage-theirs"));
    let before = identity(&dir).unwrap();
    for name in FILES {
        let path = dir.join(name);
        let whole = fs::read(&path).unwrap();
        fs::copy(other.join(name), &path).unwrap();
        let opened = StateDir::open(&dir);
        match (name, opened) {
            ("farm.json" | "scheduler.key" | "keys.json", Err(why)) => {
                let why = why.to_string();
                assert!(why.contains("restore it from a copy"), "{name}: {why}");
                // Whose it is, and not that the key beside it is wrong.
                assert!(name == "scheduler.key" || why.contains("it is of farm"), "{name}: {why}");
            }
            ("enrolments", Ok((_, keys))) => {
                // The worker that enrolled lately does so again, as it did before.
                assert!(keys.key(&enrolled).is_none());
                assert!(keys.join_keys().any(|(_, key)| key.role == Role::Worker && !key.revoked));
            }
            ("worker.join" | "admin.join", Ok((state, mut keys))) => {
                state.write_join_files(&mut keys, &["h:1".into()]).unwrap();
                let join = join_file(&dir, name).unwrap();
                assert_eq!((join.farm, join.scheduler_key), (before.0, before.1), "{name}");
            }
            (name, opened) => panic!("{name}: {:?}", opened.map(|_| ()).map_err(|e| e.to_string())),
        }
        fs::write(&path, &whole).unwrap();
    }
    fs::remove_dir_all(dir).unwrap();
    fs::remove_dir_all(other).unwrap();
}

/// The file for workers must never carry the secret that makes an admin.
#[test]
fn join_files_that_were_swapped_are_made_anew_with_their_own_roles() {
    let (dir, _) = farm("damage-roles");
    let (worker, admin) = (dir.join("worker.join"), dir.join("admin.join"));
    let secrets = [&worker, &admin].map(|path| fs::read(path).unwrap());
    fs::write(&worker, &secrets[1]).unwrap();
    fs::write(&admin, &secrets[0]).unwrap();
    let (state, mut keys) = StateDir::open(&dir).unwrap();
    state.write_join_files(&mut keys, &["h:1".into()]).unwrap();
    for (name, role) in [("worker.join", Role::Worker), ("admin.join", Role::Admin)] {
        let join = join_file(&dir, name).unwrap();
        assert_eq!((join.role, keys.join_key(&join.join_key()).unwrap().role), (role, role));
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_farm_of_the_release_before_is_read_and_becomes_one_of_this() {
    let (dir, _) = farm("damage-before");
    let before = identity(&dir).unwrap();
    let text = fs::read_to_string(dir.join("farm.json")).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["version"] = 2.into();
    json.as_object_mut().unwrap().remove("checksum");
    fs::write(dir.join("farm.json"), json.to_string()).unwrap();
    let key = StaticKey::from_file(&fs::read_to_string(dir.join("scheduler.key")).unwrap()).unwrap();
    fs::write(dir.join("scheduler.key"), key.private().to_text().as_bytes()).unwrap();
    assert_eq!(identity(&dir).unwrap(), before);
    let (mut state, keys) = StateDir::open(&dir).unwrap();
    state.raise_epoch(Epoch(2)).unwrap();
    state.save_keys(&keys).unwrap();
    drop(state);
    assert_eq!(identity(&dir).unwrap(), before);
    assert!(fs::read_to_string(dir.join("farm.json")).unwrap().contains("\"version\": 3"));
    assert!(fs::read_to_string(dir.join("keys.json")).unwrap().contains("\"owner\""));
    fs::remove_dir_all(dir).unwrap();
}
