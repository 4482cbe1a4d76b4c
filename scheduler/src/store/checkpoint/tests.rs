//! Checkpoints that are saved, cut off, damaged and robbed of files.

use std::sync::atomic::{AtomicU32, Ordering};

use starfarm_protocol::random::SplitMix64;

use super::*;

/// Panics in sled's own threads.
static STRAY: AtomicU32 = AtomicU32::new(0);

/// A directory for one test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("starfarm-checkpoint-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn dir(&self) -> PathBuf {
        self.0.join("checkpoint")
    }

    fn copy(&self) -> Self {
        let copy = Self::new();
        copy_dir(&self.dir(), &copy.dir());
        copy
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut random = SplitMix64(seed);
    (0..count).map(|_| random.draw() as u8).collect()
}

fn open(dir: &Path) -> Opened {
    Checkpoint::open(dir, 0).unwrap()
}

fn aside(dir: &Path) -> PathBuf {
    PathBuf::from(format!("{}.damaged-1", dir.display()))
}

#[test]
fn states_of_all_sizes_come_back() {
    let scratch = Scratch::new();
    let mut opened = open(&scratch.dir());
    assert!(opened.saved.is_none() && opened.notes.is_empty());
    for (sequence, length) in [(1, 0), (2, 1), (3, 5 << 20), (4, CHUNK_BYTES), (5, CHUNK_BYTES + 1)] {
        let state = noise(sequence, length);
        opened.checkpoint.save(sequence, &state).unwrap();
        opened = open(&scratch.dir());
        assert!(opened.notes.is_empty(), "{:?}", opened.notes);
        assert!(opened.saved == Some(Saved { sequence, state }), "{length} bytes");
    }
    assert_eq!(file_names(&scratch.dir()).unwrap(), ["5"], "the last one alone is kept");
}

/// Files of the one checkpoint in `dir`, largest first.
fn files(dir: &Path) -> Vec<PathBuf> {
    let [number] = &numbers(dir, "").unwrap()[..] else { panic!("one checkpoint") };
    let dir = dir.join(number.to_string());
    let mut files: Vec<_> =
        file_names(&dir).unwrap().iter().map(|name| dir.join(name)).filter(|path| path.is_file()).collect();
    files.sort_by_key(|path| std::cmp::Reverse(fs::metadata(path).unwrap().len()));
    files
}

#[test]
fn a_checkpoint_is_for_its_user_alone() {
    let scratch = Scratch::new();
    open(&scratch.dir()).checkpoint.save(1, b"state").unwrap();
    let files = files(&scratch.dir());
    let folder = files[0].parent().unwrap().to_owned();
    for path in files.into_iter().chain([folder, scratch.dir()]) {
        let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).unwrap());
        assert_eq!(mode & 0o077, 0, "{}", path.display());
    }
}

#[test]
fn nothing_lies_in_files_that_sled_never_syncs_and_the_rest_takes_little_room() {
    let scratch = Scratch::new();
    let mut opened = open(&scratch.dir());
    for sequence in 1..6 {
        opened.checkpoint.save(sequence, &noise(sequence, 3 << 20)).unwrap();
        let blobs = scratch.dir().join(sequence.to_string()).join("blobs");
        assert_eq!(fs::read_dir(blobs).unwrap().count(), 0);
        let room: u64 = files(&scratch.dir()).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
        assert!(room < 12 << 20, "{room} bytes for a state of 3 MiB");
    }
}

#[test]
fn a_save_that_stops_at_any_step_leaves_the_old_state_or_the_new() {
    let scratch = Scratch::new();
    let states = [1, 2].map(|sequence| Saved { sequence, state: noise(sequence, 200_000) });
    let mut checkpoint = open(&scratch.dir()).checkpoint;
    checkpoint.save(1, &states[0].state).unwrap();
    let look = |copy: &Scratch, expected: &Saved| {
        let opened = open(&copy.dir());
        assert!(opened.notes.is_empty(), "{:?}", opened.notes);
        assert!(opened.saved.unwrap() == *expected);
        assert_eq!(file_names(&copy.dir()).unwrap().len(), 1, "leftovers went");
    };
    let new = scratch.dir().join("new");
    fs::create_dir(&new).unwrap();
    look(&scratch.copy(), &states[0]);
    write(&new, 2, &states[1].state).map_err(|trouble| trouble.words).unwrap();
    look(&scratch.copy(), &states[0]);
    let torn = scratch.copy();
    fs::write(torn.dir().join("new/db"), "torn").unwrap();
    look(&torn, &states[0]);
    fs::rename(&new, scratch.dir().join("2")).unwrap();
    look(&scratch.copy(), &states[1]);
    fs::remove_file(scratch.dir().join("1/db")).unwrap();
    look(&scratch.copy(), &states[1]);
    fs::create_dir(scratch.dir().join("reading")).unwrap();
    look(&scratch, &states[1]);
}

#[test]
fn reading_leaves_a_checkpoint_as_it_was() {
    let scratch = Scratch::new();
    open(&scratch.dir()).checkpoint.save(1, &noise(1, 50_000)).unwrap();
    let contents =
        || files(&scratch.dir()).iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    let before: Vec<_> = contents();
    assert!(open(&scratch.dir()).saved.is_some());
    assert!(contents() == before);
}

#[test]
fn a_file_cut_off_anywhere_gives_a_saved_state_or_is_set_aside() {
    let scratch = Scratch::new();
    let states = [1, 2, 3].map(|sequence| Saved { sequence, state: noise(sequence, 100_000) });
    let mut opened = open(&scratch.dir());
    for saved in &states {
        opened.checkpoint.save(saved.sequence, &saved.state).unwrap();
    }
    let mut chance = SplitMix64(99);
    for round in 0..60 {
        let copy = scratch.copy();
        let path = &files(&copy.dir())[round % files(&copy.dir()).len()];
        let length = chance.draw() % fs::metadata(path).unwrap().len();
        fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
        check_damaged(&copy, &states, 3, &format!("{} cut to {length}", path.display()));
    }
}

#[test]
fn a_flipped_byte_anywhere_gives_the_state_or_sets_it_aside() {
    let scratch = Scratch::new();
    let states = [1, 2, 3].map(|sequence| Saved { sequence, state: noise(sequence, 100_000) });
    let mut opened = open(&scratch.dir());
    for saved in &states {
        opened.checkpoint.save(saved.sequence, &saved.state).unwrap();
    }
    // They are beyond any guard: under `abort_on_panic` each start would end there.
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let of_sled = std::thread::current().name().is_some_and(|name| name.starts_with("sled"));
        STRAY.fetch_add(u32::from(of_sled), Ordering::Relaxed);
        before(panic);
    }));
    let mut chance = SplitMix64(7);
    let (mut kept, mut aside) = (0, 0);
    for round in 0..200 {
        let copy = scratch.copy();
        let files = files(&copy.dir());
        // The large file most often: it holds the state.
        let path = if round % 4 == 0 { &files[round / 4 % files.len()] } else { &files[0] };
        let mut bytes = fs::read(path).unwrap();
        let at = (chance.draw() % bytes.len() as u64) as usize;
        bytes[at] ^= 1 << (chance.draw() % 8);
        fs::write(path, bytes).unwrap();
        match check_damaged(&copy, &states, 3, &format!("{} flipped at {at}", path.display())) {
            true => kept += 1,
            false => aside += 1,
        }
    }
    assert_eq!(STRAY.load(Ordering::Relaxed), 0, "panics beyond the guard");
    assert!(kept > 0 && aside > 10, "{kept} kept, {aside} set aside: the flips hit nothing, or all");
}

/// Opens a damaged copy; true where the last state came back. Whatever comes back was saved like that.
fn check_damaged(copy: &Scratch, states: &[Saved], last: u64, what: &str) -> bool {
    // Where the journal still has what follows, an older state would do.
    let older = copy.copy();
    if let Some(saved) = open(&older.dir()).saved {
        assert!(states.contains(&saved), "{what}: a state that was never saved");
    }
    let mut opened = Checkpoint::open(&copy.dir(), last).unwrap();
    match &opened.saved {
        Some(saved) => {
            assert!(*saved == states[2], "{what}: not the last state");
            assert!(opened.notes.is_empty(), "{what}: {:?}", opened.notes);
        }
        None => {
            assert!(opened.notes[0].contains("rebuilt from the journal"), "{what}: {:?}", opened.notes);
            assert!(aside(&copy.dir()).exists(), "{what}");
        }
    }
    let kept = opened.saved.is_some();
    // Each save waits for the disk: now and then will do.
    if !what.ends_with('0') {
        return kept;
    }
    opened.checkpoint.save(4, b"goes on").unwrap_or_else(|e| panic!("{what}: {e:?}"));
    let opened = Checkpoint::open(&copy.dir(), 4).unwrap();
    let expected = Some(Saved { sequence: 4, state: b"goes on".to_vec() });
    assert_eq!(opened.saved, expected, "{what}: {:?}", opened.notes);
    kept
}

#[test]
fn missing_files_are_noticed() {
    let scratch = Scratch::new();
    let state = noise(1, 50_000);
    open(&scratch.dir()).checkpoint.save(1, &state).unwrap();
    for path in files(&scratch.dir()) {
        let copy = scratch.copy();
        fs::remove_file(copy.dir().join("1").join(path.file_name().unwrap())).unwrap();
        let opened = open(&copy.dir());
        let whole = opened.saved.is_some_and(|saved| saved.state == state);
        assert!(whole != opened.notes.iter().any(|note| note.contains("damaged-1")), "{}", path.display());
    }
    for gone in ["checkpoint", "checkpoint/1"] {
        let copy = scratch.copy();
        fs::remove_dir_all(copy.0.join(gone)).unwrap();
        let opened = Checkpoint::open(&copy.dir(), 1).unwrap();
        assert!(opened.saved.is_none() && opened.notes[0].contains("there is no"), "{:?}", opened.notes);
    }
}

#[test]
fn an_older_one_will_do_where_the_journal_still_has_what_follows() {
    let scratch = Scratch::new();
    open(&scratch.dir()).checkpoint.save(5, b"older").unwrap();
    copy_dir(&scratch.dir().join("1"), &scratch.dir().join("2"));
    fs::write(scratch.dir().join("2/db"), "newer, and damaged").unwrap();
    let copy = scratch.copy();
    let opened = Checkpoint::open(&scratch.dir(), 5).unwrap();
    assert_eq!(opened.saved, Some(Saved { sequence: 5, state: b"older".to_vec() }));
    assert!(
        opened.notes.len() == 1 && opened.notes[0].contains("checkpoint/2 could not"),
        "{:?}",
        opened.notes
    );
    let opened = Checkpoint::open(&copy.dir(), 6).unwrap();
    assert!(opened.saved.is_none() && opened.notes.len() == 2, "{:?}", opened.notes);
}

#[test]
fn what_is_no_directory_is_set_aside() {
    let scratch = Scratch::new();
    fs::write(scratch.dir(), "a note to myself").unwrap();
    let opened = open(&scratch.dir());
    assert!(opened.saved.is_none() && opened.notes[0].contains("damaged-1"), "{:?}", opened.notes);
    assert_eq!(fs::read(aside(&scratch.dir())).unwrap(), b"a note to myself");
}

#[test]
fn a_state_that_the_caller_finds_wrong_is_set_aside_in_its_words() {
    let scratch = Scratch::new();
    let mut opened = open(&scratch.dir());
    opened.checkpoint.save(9, b"ahead").unwrap();
    let mut opened = opened.checkpoint.discard("it is ahead of the journal").unwrap();
    let note = &opened.notes[0];
    assert!(note.contains("it is ahead of the journal") && note.contains("damaged-1"), "{note}");
    assert!(opened.saved.is_none());
    opened.checkpoint.save(3, b"again").unwrap();
    assert_eq!(open(&scratch.dir()).saved, Some(Saved { sequence: 3, state: b"again".to_vec() }));
}

#[test]
fn a_place_that_takes_no_checkpoint_is_refused_in_words() {
    let error = Checkpoint::open(Path::new("/proc/starfarm/checkpoint"), 0).unwrap_err().to_string();
    assert!(error.contains("checkpoint"), "{error}");
}

#[test]
fn what_sled_takes_for_whole_is_still_judged_by_its_digest() {
    type Harm = fn(&sled::Db);
    let state = noise(1, 3 * CHUNK_BYTES);
    let wrong: [(&str, Harm); 6] = [
        ("does not fit its digest", |db| drop(db.insert(1_u32.to_be_bytes(), vec![0; CHUNK_BYTES]).unwrap())),
        ("a piece of the state is missing", |db| drop(db.remove(2_u32.to_be_bytes()).unwrap())),
        ("a piece of the state is missing", |db| drop(db.remove(1_u32.to_be_bytes()).unwrap())),
        ("wrong length", |db| drop(db.insert(HEAD_KEY, b"head").unwrap())),
        ("format version 2", |db| drop(db.insert(HEAD_KEY, vec![2; HEAD_BYTES]).unwrap())),
        ("does not fit its digest", |db| {
            let mut head = db.get(HEAD_KEY).unwrap().unwrap();
            head[8] += 1; // The sequence.
            db.insert(HEAD_KEY, head).unwrap();
        }),
    ];
    for (words, harm) in wrong {
        let scratch = Scratch::new();
        open(&scratch.dir()).checkpoint.save(1, &state).unwrap();
        let dir = scratch.dir().join("1");
        let db = open_sled(&dir).map_err(|trouble| trouble.words).unwrap();
        harm(&db);
        close(db, &dir).map_err(|trouble| trouble.words).unwrap();
        let opened = open(&scratch.dir());
        assert!(opened.saved.is_none() && opened.notes[0].contains(words), "{words}: {:?}", opened.notes);
    }
}
