//! Inputs on a disk with and without room for them.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::testing::TempDir;

fn input(parts: &[Vec<u8>]) -> Input {
    Input {
        path: "a".into(),
        parts: parts.iter().map(|part| ContentHash::of(part)).collect(),
        bytes: parts.iter().map(|part| part.len() as u64).sum(),
        executable: false,
        of_units: false,
    }
}

/// A store, what it fetched, and links of inputs in their order.
struct Bench {
    dir: TempDir,
    store: Store,
    contents: Vec<Vec<u8>>,
    fetched: RefCell<usize>,
    links: RefCell<usize>,
}

impl Bench {
    fn new(bytes_max: u64) -> Self {
        let dir = TempDir::new();
        let store = Store::open(&dir.0.join("inputs"), bytes_max).unwrap();
        Self { dir, store, contents: Vec::new(), fetched: RefCell::default(), links: RefCell::default() }
    }

    /// Links an input of these parts, and says what the link holds.
    fn link(&mut self, parts: &[Vec<u8>]) -> Result<Vec<u8>, FetchError> {
        self.contents.extend_from_slice(parts);
        *self.links.borrow_mut() += 1;
        let to = self.dir.0.join(self.links.borrow().to_string());
        let fetch = |hash: ContentHash| {
            *self.fetched.borrow_mut() += 1;
            let found = self.contents.iter().find(|content| ContentHash::of(content) == hash);
            found.cloned().ok_or_else(|| FetchError::Refused("gone".into()))
        };
        self.store.link(&input(parts), &to, &fetch, &CancelFlag::new().unwrap())?;
        Ok(fs::read(to).unwrap())
    }

    fn fetched(&self) -> usize {
        *self.fetched.borrow()
    }
}

fn parts(byte: u8) -> Vec<Vec<u8>> {
    vec![vec![byte; INPUT_PART_BYTES], vec![byte, 1, 2]]
}

#[test]
fn an_input_is_fetched_once_also_after_a_start_and_links_outlive_it() {
    let mut bench = Bench::new(u64::MAX);
    assert_eq!(bench.link(&parts(1)).unwrap(), parts(1).concat());
    assert_eq!(bench.link(&parts(1)).unwrap(), parts(1).concat());
    assert_eq!(bench.link(&[]).unwrap(), b"");
    assert_eq!(bench.fetched(), 2);
    bench.store = Store::open(&bench.dir.0.join("inputs"), u64::MAX).unwrap();
    assert_eq!(bench.link(&parts(1)).unwrap(), parts(1).concat());
    assert_eq!(bench.fetched(), 2);
    // One that was damaged meanwhile is mended: its second part.
    let path = bench.dir.0.join("inputs").join(name_of(&input(&parts(1))));
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().write_all_at(b"x", INPUT_PART_BYTES as u64).unwrap();
    bench.store = Store::open(&bench.dir.0.join("inputs"), u64::MAX).unwrap();
    assert_eq!(bench.link(&parts(1)).unwrap(), parts(1).concat());
    assert_eq!(bench.fetched(), 3);
}

#[test]
fn what_a_program_writes_to_spoils_no_other() {
    let mut bench = Bench::new(u64::MAX);
    bench.link(&[b"abc".to_vec()]).unwrap();
    let link = bench.dir.0.join("1");
    fs::set_permissions(&link, Permissions::from_mode(0o600)).unwrap();
    fs::write(&link, "spoilt").unwrap();
    assert_eq!(bench.link(&[b"abc".to_vec()]).unwrap(), b"abc");
    assert_eq!(bench.fetched(), 2);
    assert_eq!(fs::metadata(bench.dir.0.join("2")).unwrap().mode() & 0o777, 0o444);
}

#[test]
fn what_was_not_asked_for_the_longest_makes_room_and_links_stay() {
    let mut bench = Bench::new(10);
    for word in ["aaaa", "bbbb", "aaaa", "cccc", "aaaa"] {
        assert_eq!(bench.link(&[word.into()]).unwrap(), word.as_bytes());
    }
    assert_eq!(bench.fetched(), 3);
    assert_eq!(bench.link(&[b"bbbb".to_vec()]).unwrap(), b"bbbb");
    assert_eq!(bench.fetched(), 4);
    assert_eq!(bench.link(&[vec![7; 99]]).unwrap(), [7; 99], "more than all room, alone");
    assert_eq!(fs::read(bench.dir.0.join("1")).unwrap(), b"aaaa");
    let inputs = bench.dir.0.join("inputs");
    Store::open(&inputs, 98).unwrap();
    assert_eq!(fs::read_dir(inputs).unwrap().count(), 0, "nor is more kept after a start with less");
}

/// A disk of 160 bytes, of which ten are to be free. Links lie elsewhere.
fn small(dir: &Path) -> io::Result<(u64, u64)> {
    let bytes = |dir: &Path| -> u64 {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
        entries.filter(Metadata::is_file).map(|there| there.len()).sum()
    };
    Ok((160 - bytes(dir), 160))
}

#[test]
fn a_disk_that_is_nearly_full_loses_the_oldest_inputs_that_no_unit_has() {
    let mut bench = Bench::new(u64::MAX);
    bench.store.disk = small;
    for byte in 1..=3 {
        bench.link(&[vec![byte; 50]]).unwrap();
    }
    let links = [1, 2, 3].map(|link| bench.dir.0.join(link.to_string()));
    assert_eq!(small(&bench.store.dir).unwrap().0, 10);
    assert_eq!(bench.store.leave_room(), Ok(()));
    bench.link(&[vec![4; 5]]).unwrap();
    let Err(FetchError::NoRoom(why)) = bench.store.leave_room() else { panic!("links hold the inputs") };
    assert!(why.contains("has 0 MiB left on this node, too little to start a program"), "{why}");
    // The second and the third have no links any more: the second, which is older, makes room.
    links[1..].iter().for_each(|link| fs::remove_file(link).unwrap());
    assert_eq!(bench.store.leave_room(), Ok(()));
    assert_eq!(small(&bench.store.dir).unwrap().0, 55);
    bench.link(&[vec![3; 50]]).unwrap();
    assert_eq!(bench.fetched(), 4, "the third is there");
    bench.link(&[vec![2; 50]]).unwrap();
    assert_eq!(bench.fetched(), 5);
}

#[test]
fn an_input_that_the_disk_has_no_room_for_is_not_fetched_and_leaves_those_that_units_have() {
    let mut bench = Bench::new(u64::MAX);
    bench.store.disk = small;
    for byte in 1..=3 {
        bench.link(&[vec![byte; 50]]).unwrap();
    }
    let why = "the input `a` of 50 bytes cannot be kept on this node: no storage space";
    assert_eq!(bench.link(&[vec![4; 50]]), Err(FetchError::NoRoom(why.into())));
    assert_eq!((bench.fetched(), small(&bench.store.dir).unwrap().0), (3, 10));
    fs::remove_file(bench.dir.0.join("3")).unwrap();
    bench.link(&[vec![4; 50]]).unwrap();
    bench.link(&[vec![1; 50]]).unwrap();
    assert_eq!(bench.fetched(), 4, "the first is there");
}

/// It waited until all others had gone from the disk, to be refused then; and all that was kept had been thrown away for it.
#[test]
fn an_input_beyond_the_whole_disk_is_refused_at_once_and_nothing_goes_in_vain() {
    let mut bench = Bench::new(u64::MAX);
    bench.store.disk = small;
    for byte in 1..=3 {
        bench.link(&[vec![byte; 50]]).unwrap();
    }
    [2, 3].iter().for_each(|link| fs::remove_file(bench.dir.0.join(link.to_string())).unwrap());
    assert!(matches!(bench.link(&[vec![4; 161]]), Err(FetchError::TooLarge(_))));
    assert!(matches!(bench.link(&[vec![4; 111]]), Err(FetchError::NoRoom(_))));
    bench.link(&[vec![2; 50]]).unwrap();
    bench.link(&[vec![3; 50]]).unwrap();
    assert_eq!((bench.fetched(), small(&bench.store.dir).unwrap().0), (3, 10), "all are there");
}

/// What was fetched of inputs that nobody wanted in the end stayed for ever, and counted nowhere.
#[test]
fn the_beginning_of_an_input_gives_way_to_others_also_after_a_start() {
    for starts_anew in [false, true] {
        let mut bench = Bench::new(u64::MAX);
        let begun = [vec![1; INPUT_PART_BYTES], vec![1]];
        let fetch = |hash: ContentHash| match hash == ContentHash::of(&begun[0]) {
            true => Ok(begun[0].clone()),
            false => Err(FetchError::Cancelled),
        };
        let to = bench.dir.0.join("x");
        let cancel = CancelFlag::new().unwrap();
        assert!(bench.store.link(&input(&begun), &to, &fetch, &cancel).is_err());
        let part = bench.store.part(&name_of(&input(&begun)));
        assert_eq!(fs::metadata(&part).unwrap().len(), INPUT_PART_BYTES as u64);
        let bytes_max = INPUT_PART_BYTES as u64 + 9;
        if starts_anew {
            bench.store = Store::open(&bench.dir.0.join("inputs"), bytes_max).unwrap();
        }
        bench.store.bytes_max = bytes_max;
        bench.link(&[vec![2; 9]]).unwrap();
        assert!(part.exists(), "there is room for both");
        bench.link(&[vec![3; 9]]).unwrap();
        assert!(!part.exists());
    }
}

#[test]
fn a_fetch_that_fails_leaves_what_it_has_and_the_next_one_goes_on() {
    let mut bench = Bench::new(u64::MAX);
    let parts = parts(3);
    bench.contents.push(parts[0].clone());
    let to = bench.dir.0.join("x");
    let fetch = |hash: ContentHash| match hash == ContentHash::of(&parts[0]) {
        true => Ok(parts[0].clone()),
        false => Err(FetchError::Cancelled),
    };
    let failed = bench.store.link(&input(&parts), &to, &fetch, &CancelFlag::new().unwrap());
    assert_eq!(failed, Err(FetchError::Cancelled));
    assert_eq!(bench.link(&parts).unwrap(), parts.concat());
    assert_eq!(bench.fetched(), 1, "the first part is there");
}

/// Slots whose units want one file at the same time.
#[test]
fn an_input_that_many_want_at_once_is_fetched_once_and_a_fetch_that_fails_is_taken_over() {
    let dir = TempDir::new();
    let store = Store::open(&dir.0.join("inputs"), u64::MAX).unwrap();
    let content = vec![7; 100_000];
    let (fetched, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let fetch = |_: ContentHash| {
        std::thread::sleep(Duration::from_millis(30));
        // The first of them breaks off.
        if fetched.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err(FetchError::Refused("broken".into()));
        }
        Ok(content.clone())
    };
    std::thread::scope(|scope| {
        for slot in 0..8 {
            let (store, input, to) =
                (&store, input(std::slice::from_ref(&content)), dir.0.join(slot.to_string()));
            let (fetch, failed) = (&fetch, &failed);
            scope.spawn(move || match store.link(&input, &to, fetch, &CancelFlag::new().unwrap()) {
                Ok(()) => assert_eq!(fs::metadata(to).unwrap().len(), 100_000),
                Err(why) => {
                    assert_eq!(why, FetchError::Refused("broken".into()));
                    failed.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!((fetched.into_inner(), failed.into_inner()), (2, 1));
}
