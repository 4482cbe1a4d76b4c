//! Contents that are put, read, damaged and removed.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::store::low_water::free_bytes;
use crate::store::testing::SmallDisk;
use crate::store::transfers::Incoming;

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("starfarm-blobs-{}-{name}", std::process::id()));
    let _ = fs::remove_file(&path);
    path
}

fn open(path: &Path) -> Blobs {
    let (blobs, notes) = Blobs::open(path).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    blobs
}

#[test]
fn contents_come_back_in_pieces_and_are_kept_once() {
    let path = scratch("pieces");
    let mut blobs = open(&path);
    let (one, two) = (blobs.put(b"hello").unwrap(), blobs.put(b"world!").unwrap());
    let end = blobs.file.end();
    assert_eq!(blobs.put(b"hello").unwrap(), one);
    for mut blobs in [blobs, open(&path)] {
        assert_eq!(blobs.file.end(), end);
        assert_eq!(blobs.read(&two, 2, 3).unwrap().unwrap(), b"rld");
        assert_eq!(blobs.read(&one, 5, 3).unwrap().unwrap(), b"");
        assert_eq!(blobs.read(&one, 50, 3).unwrap().unwrap(), b"");
        let unknown = ContentHash([0; 32]);
        assert!(blobs.read(&unknown, 0, 1).unwrap().is_none());
        assert_eq!((blobs.len(&two).unwrap(), blobs.len(&unknown).unwrap()), (Some(6), None));
        assert!(blobs.lament(&unknown).ends_with(AGAIN), "{}", blobs.lament(&unknown));
    }
    fs::remove_file(path).unwrap();
}

#[test]
fn a_content_that_came_in_pieces_is_kept_once_and_only_with_its_hash() {
    let path = scratch("incoming");
    let mut blobs = open(&path);
    let content: Vec<u8> = (0..3_000_000_u32).map(|i| (i / 7) as u8).collect();
    let hash = ContentHash::of(&content);
    let incoming = |bytes: &[u8]| {
        let mut incoming = Incoming::new(hash, bytes.len() as u64, &std::env::temp_dir()).unwrap();
        bytes.chunks(50_000).for_each(|piece| incoming.take(piece).unwrap());
        incoming.finish()
    };
    assert!(incoming(&content[1..]).is_none());
    assert!(blobs.put_incoming(&incoming(&content).unwrap()).unwrap());
    assert!(blobs.unsynced().is_some());
    assert!(!blobs.put_incoming(&incoming(&content).unwrap()).unwrap());
    for mut blobs in [blobs, open(&path)] {
        assert_eq!(blobs.read(&hash, 0, usize::MAX).unwrap().unwrap(), content);
        let entry = blobs.index.get(&hash).unwrap().unwrap().entry;
        assert!(blobs.file.body(&entry).unwrap().is_some(), "its CRC is right");
    }
    fs::remove_file(path).unwrap();
}

#[test]
fn a_sync_is_due_after_a_put_of_something_new_only() {
    let path = scratch("sync");
    let mut blobs = open(&path);
    assert!(blobs.unsynced().is_none());
    blobs.put(b"one").unwrap();
    assert!(blobs.unsynced().is_some() && blobs.unsynced().is_none());
    blobs.put(b"one").unwrap();
    assert!(blobs.unsynced().is_none());
    blobs.put(b"two").unwrap();
    assert!(blobs.unsynced().is_some());
    fs::remove_file(path).unwrap();
}

#[test]
fn a_torn_tail_is_cut_off_with_a_note() {
    let path = scratch("torn");
    let mut blobs = open(&path);
    let one = blobs.put(b"one").unwrap();
    let end = blobs.file.end();
    blobs.put(b"another").unwrap();
    let bytes = fs::read(&path).unwrap();
    for length in end + 1..bytes.len() as u64 {
        fs::write(&path, &bytes[..length as usize]).unwrap();
        let (mut blobs, notes) = Blobs::open(&path).unwrap();
        assert!(notes.len() == 1 && notes[0].contains("cut off"), "{notes:?}");
        assert_eq!(blobs.read(&one, 0, 9).unwrap().unwrap(), b"one");
        assert_eq!((blobs.index.len(), fs::metadata(&path).unwrap().len()), (1, end));
    }
    fs::write(&path, b"from another program").unwrap();
    let (_, notes) = Blobs::open(&path).unwrap();
    let aside = path.with_added_extension("damaged-1");
    assert!(notes[0].contains("damaged-1"), "{notes:?}");
    assert_eq!(fs::read(&aside).unwrap(), b"from another program");
    fs::remove_file(aside).unwrap();
    fs::remove_file(path).unwrap();
}

#[test]
fn damage_is_named_hides_one_content_and_is_mended_by_putting_it_again() {
    let path = scratch("damage");
    let contents = [&b"zero"[..], b"one", b"two"];
    let mut blobs = open(&path);
    let hashes = contents.map(|content| blobs.put(content).unwrap());
    let entry = blobs.index.get(&hashes[1]).unwrap().unwrap().entry;
    let bytes = fs::read(&path).unwrap();
    for at in entry.at..entry.end() {
        let mut bytes = bytes.clone();
        bytes[at as usize] ^= 0x11;
        fs::write(&path, bytes).unwrap();
        let (mut blobs, notes) = Blobs::open(&path).unwrap();
        for other in [0, 2] {
            assert_eq!(blobs.read(&hashes[other], 0, 9).unwrap().unwrap(), contents[other], "{at}");
        }
        // Spare bytes of the header, and the CRC of the body, are not looked at.
        let harmless = at >= entry.at + 56 && at < entry.body();
        assert_eq!(blobs.len(&hashes[1]).unwrap().is_some(), harmless, "{at}");
        if !harmless && at >= entry.body() {
            assert!(blobs.lament(&hashes[1]).contains("is damaged"), "{}", blobs.lament(&hashes[1]));
        } else if at < entry.at + 56 {
            assert!(notes.len() == 1 && notes[0].contains("are damaged"), "{notes:?}");
        }
        assert_eq!(blobs.put(b"one").unwrap(), hashes[1]);
        for mut blobs in [blobs, Blobs::open(&path).unwrap().0] {
            assert_eq!(blobs.read(&hashes[1], 0, 9).unwrap().unwrap(), b"one", "{at}");
        }
    }
    fs::remove_file(path).unwrap();
}

/// It was found whole, or written by this very start, and the disk has changed it since.
#[test]
fn a_content_that_is_damaged_later_is_noticed_by_who_has_doubts_and_can_be_put_again() {
    let path = scratch("later");
    let mut blobs = open(&path);
    let (one, gone) = (blobs.put(b"one").unwrap(), ContentHash([0; 32]));
    let at = blobs.index.get(&one).unwrap().unwrap().entry.body();
    std::os::unix::fs::FileExt::write_all_at(&*blobs.file.file(), b"x", at).unwrap();
    assert_eq!(blobs.loss(&one, false).unwrap(), None, "it was whole");
    assert_eq!(blobs.loss(&one, true).unwrap(), Some(OutputLoss::Damaged));
    assert_eq!(blobs.loss(&gone, true).unwrap(), Some(OutputLoss::Missing));
    assert_eq!(blobs.put(b"one").unwrap(), one);
    for mut blobs in [blobs, Blobs::open(&path).unwrap().0] {
        assert_eq!(blobs.loss(&one, true).unwrap(), None);
        assert_eq!(blobs.read(&one, 0, 9).unwrap().unwrap(), b"one");
    }
    fs::remove_file(path).unwrap();
}

/// What was put there would be acknowledged, and nobody could ever find it.
#[test]
fn a_file_that_is_deleted_or_replaced_under_the_store_is_told() {
    let path = scratch("unlinked");
    let mut blobs = open(&path);
    blobs.put(b"one").unwrap();
    blobs.is_in_place().unwrap();
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let told = blobs.is_in_place().unwrap_err().to_string();
    assert!(told.contains("deleted or replaced"), "{told}");
    fs::write(&path, bytes).unwrap();
    blobs.is_in_place().unwrap_err();
    fs::remove_file(path).unwrap();
}

#[test]
fn what_nobody_needs_gives_its_room_back() {
    let path = scratch("retain");
    let mut blobs = open(&path);
    let hashes: Vec<_> = (0..8_u8).map(|i| blobs.put(&vec![i; 1 << 20]).unwrap()).collect();
    let blocks = |blobs: &Blobs| rustix::fs::fstat(&*blobs.file.file()).unwrap().st_blocks / 2_048;
    assert!(blocks(&blobs) >= 8);
    blobs.retain(|_, idle| idle < Duration::from_secs(3_600)).unwrap();
    assert_eq!(blobs.index.len(), 8, "all were put just now");
    let hour = Duration::from_secs(3_600);
    blobs.index.age(hour);
    assert!(blobs.len(&hashes[5]).unwrap().is_some() && blobs.put(&vec![1; 1 << 20]).unwrap() == hashes[1]);
    blobs.retain(|hash, idle| idle < hour / 2 || *hash == hashes[7]).unwrap();
    assert_eq!(blobs.index.len(), 3, "two were asked for just now");
    blobs.retain(|hash, _| [hashes[1], hashes[5]].contains(hash)).unwrap();
    let blobs = Mutex::new(blobs);
    Blobs::give_room_back(&blobs).unwrap();
    let blobs = blobs.into_inner().unwrap();
    assert!(blocks(&blobs) <= 2, "{} MiB", blocks(&blobs));
    for mut blobs in [blobs, open(&path)] {
        for (i, hash) in (0_u8..).zip(&hashes) {
            let expected = matches!(i, 1 | 5).then(|| vec![i; 9]);
            assert_eq!(blobs.read(hash, 0, 9).unwrap(), expected);
        }
        // One that comes back has a new place.
        blobs.put(&vec![0; 1 << 20]).unwrap();
        assert_eq!(blobs.read(&hashes[0], 0, 3).unwrap().unwrap(), [0; 3]);
    }
    let mut blobs = open(&path);
    assert_eq!(blobs.len(&hashes[0]).unwrap(), Some(1 << 20));
    blobs.retain(|_, _| false).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    fs::remove_file(path).unwrap();
}

/// The steps of a deletion, with what may come between them.
#[test]
fn a_content_that_is_let_go_stays_for_whoever_named_or_brought_it_meanwhile() {
    let (path, hour, now) = (scratch("let-go"), Duration::from_secs(3_600), Instant::now());
    let mut blobs = open(&path);
    let hashes: Vec<_> = (0..7_u8).map(|i| blobs.put(&vec![i; 1 << 20]).unwrap()).collect();
    let [gone, named, brought, awaited, needed, kept, asked] = hashes[..] else { panic!("there are seven") };
    assert_eq!(blobs.bytes(), 7 << 20);
    blobs.names.complete().unwrap();
    blobs.offer(&awaited, 1 << 20, NodeId(1), now).unwrap();
    blobs.offer(&gone, 5, NodeId(1), now).unwrap();
    blobs.put_for_job(&vec![5; 1 << 20]).unwrap();
    assert!(blobs.keep_for_job(&asked).unwrap());
    blobs.let_go(&hashes, hour).unwrap();
    for hash in [gone, named, brought, needed] {
        assert!(
            !blobs.has(&hash, 1 << 20).unwrap() && blobs.len(&hash).unwrap().is_none(),
            "nobody relies on it now"
        );
        assert!(!blobs.keep_for_job(&hash).unwrap(), "and no job");
    }
    assert!([awaited, kept, asked].iter().all(|hash| blobs.has(hash, 1 << 20).unwrap()));
    // It was said before to be here.
    blobs.name(JobId(1), &named).unwrap();
    assert_eq!(blobs.put(&vec![2; 1 << 20]).unwrap(), brought);
    let stay = blobs.remove_gone(&hashes, &HashSet::from([needed])).unwrap();
    assert_eq!(stay, [brought, awaited, kept, asked]);
    assert_eq!(blobs.bytes(), 6 << 20);
    for mut blobs in [blobs, open(&path)] {
        let there: Vec<_> = hashes.iter().map(|hash| blobs.has(hash, 1 << 20).unwrap()).collect();
        assert_eq!(there, [false, true, true, true, true, true, true]);
        assert_eq!(blobs.bytes(), 6 << 20);
    }
    fs::remove_file(path).unwrap();
}

/// Who deletes jobs since the disk is full must not be told that it is full.
#[test]
fn on_a_full_disk_contents_are_removed_and_their_room_comes_back() {
    let Some(disk) = SmallDisk::mount(8, "on_a_full_disk_contents_are_removed_and_their_room_comes_back")
    else {
        return;
    };
    let path = disk.path().join("blobs");
    let mut blobs = open(&path);
    let hashes: Vec<_> = (0..7_u8).map(|i| blobs.put(&vec![i; 1 << 20]).unwrap()).collect();
    disk.fill(0);
    assert_eq!(free_bytes(disk.path()).unwrap(), 0);
    blobs.retain(|hash, _| *hash == hashes[6]).unwrap();
    let blobs = Mutex::new(blobs);
    Blobs::give_room_back(&blobs).unwrap();
    assert!(free_bytes(disk.path()).unwrap() > 5 << 20);
    for mut blobs in [blobs.into_inner().unwrap(), open(&path)] {
        let there: Vec<_> = hashes.iter().map(|hash| blobs.len(hash).unwrap().is_some()).collect();
        assert_eq!(there, [false, false, false, false, false, false, true]);
    }
}

/// A start gives back what the one before it had only marked.
#[test]
fn room_that_was_not_given_back_before_a_stop_comes_back_after_the_next_start() {
    let path = scratch("stopped");
    let mut blobs = open(&path);
    let hashes: Vec<_> = (0..5_u8).map(|i| blobs.put(&vec![i; 1 << 20]).unwrap()).collect();
    blobs.retain(|hash, _| *hash == hashes[4]).unwrap();
    drop(blobs);
    let blobs = Mutex::new(open(&path));
    let bytes =
        || fs::File::open(&path).map(|file| rustix::fs::fstat(file).unwrap().st_blocks * 512).unwrap();
    assert!(bytes() > 4 << 20, "{}", bytes());
    Blobs::give_room_back(&blobs).unwrap();
    assert!(bytes() < 2 << 20, "{}", bytes());
    fs::remove_file(path).unwrap();
}
