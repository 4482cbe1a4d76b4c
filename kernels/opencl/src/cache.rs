//! Compiled programs on disk, and how large their launches were last. All of it can be lost: what is not there, is damaged or
//! is refused by the driver is compiled anew. What is read here is run, so that nobody but this user may write it.
//!
//! A file is named by what it was made from. It holds [`MAGIC`], the BLAKE3 hash of its name and content, and the content.
//! Several processes may use a folder at once: a file appears whole, under its name, or not at all.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::{Duration, SystemTime};

use starfarm_net::{state_folder, unchanged_by_others};
use starfarm_protocol::ids::ContentHash;

/// The last byte counts formats.
const MAGIC: &[u8; 16] = b"starfarm kernel\x01";
const HEAD_BYTES: usize = MAGIC.len() + 32;
/// All files together; what was not used for the longest goes first. A program has some 100 KiB.
const BYTES_MAX: u64 = 256 << 20;
/// A file of more is nothing that was kept here.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// What is being written is done within this, or nobody writes it any more.
const WRITTEN_WITHIN: Duration = Duration::from_secs(3_600);

/// A compiled program.
const PROGRAM: &str = "program";
/// One that a driver was given, and did not yet take.
const TRIED: &str = "tried";
/// Units of a launch.
const UNITS: &str = "units";
/// What is being written.
const NEW: &str = "new";

/// What a program is made from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key(ContentHash);

impl Key {
    /// By what the device says of itself and its driver, and the options and the text of the program.
    pub(crate) fn of(device: &[String], options: &str, source: &str) -> Self {
        let parts = device.iter().map(String::as_str).chain([options, source]);
        // With their lengths: no two lists of parts are the same bytes.
        let bytes = parts.fold(Vec::new(), |mut bytes, part| {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part.as_bytes());
            bytes
        });
        Self(ContentHash::of(&bytes))
    }
}

/// A folder of compiled programs.
pub struct Cache {
    folder: PathBuf,
    bytes_max: u64,
    tell: Box<dyn Fn(&str) + Send + Sync>,
    told: Once,
}

impl Cache {
    /// The cache in `folder`, which is made if need be; none where it must not be used. `tell` hears, once, why nothing is
    /// taken from it or kept in it.
    pub fn open(folder: PathBuf, tell: impl Fn(&str) + Send + Sync + 'static) -> Option<Self> {
        let cache = Self { folder, bytes_max: BYTES_MAX, tell: Box::new(tell), told: Once::new() };
        let usable = state_folder(&cache.folder);
        usable.map_err(|why| cache.complain("is not used", &why)).is_ok().then_some(cache)
    }

    fn complain(&self, what: &str, why: &io::Error) {
        self.told.call_once(|| {
            (self.tell)(&format!(
                "the kernel cache {} {what}: {why}; kernels are compiled at each start",
                self.folder.display()
            ));
        });
    }

    fn path(&self, key: Key, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", key.0))
    }

    /// The program, which stays away until it is [given back](Self::give_back): one that takes its driver down is tried once.
    pub(crate) fn take(&self, key: Key) -> Option<Vec<u8>> {
        let program = self.read(key, PROGRAM)?;
        fs::rename(self.path(key, PROGRAM), self.path(key, TRIED)).ok()?;
        Some(program)
    }

    /// The driver took what was taken.
    pub(crate) fn give_back(&self, key: Key) {
        let path = self.path(key, TRIED);
        // Both may fail, since another process has taken it as well, which gives it back, too.
        let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        let _ = fs::rename(path, self.path(key, PROGRAM));
    }

    /// Keeps a program.
    pub(crate) fn keep(&self, key: Key, program: &[u8]) {
        if !program.is_empty() && ((HEAD_BYTES + program.len()) as u64) < FILE_BYTES_MAX {
            self.write(key, PROGRAM, program);
            self.make_room();
        }
    }

    /// How many units a launch of the program had, 0 where that is not known.
    pub(crate) fn units(&self, key: Key) -> u64 {
        let read = self.read(key, UNITS).and_then(|bytes| bytes.try_into().ok());
        read.map_or(0, u64::from_le_bytes)
    }

    /// None where it is not there, damaged, or could be another user's.
    fn read(&self, key: Key, kind: &str) -> Option<Vec<u8>> {
        let path = self.path(key, kind);
        match unchanged_by_others(&path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return None,
            Err(why) => {
                self.complain("has a file that is not used", &why);
                return None;
            }
            Ok(()) => {}
        }
        if fs::metadata(&path).ok()?.len() >= FILE_BYTES_MAX {
            return None;
        }
        let file = fs::read(path).ok()?;
        let (head, content) = file.split_at_checked(HEAD_BYTES)?;
        (head == Self::head(key, kind, content)).then(|| content.to_vec())
    }

    fn head(key: Key, kind: &str, content: &[u8]) -> Vec<u8> {
        let of = [&key.0.0[..], kind.as_bytes(), content].concat();
        [&MAGIC[..], &ContentHash::of(&of).0].concat()
    }

    fn write(&self, key: Key, kind: &str, content: &[u8]) {
        let bytes = [&Self::head(key, kind, content), content].concat();
        if let Err(why) = self.try_write(&self.path(key, kind), &bytes) {
            self.complain("keeps nothing", &why);
        }
    }

    /// It is not synced: what a power cut leaves of it is seen to be damaged.
    fn try_write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // Somebody may have deleted it all.
        state_folder(&self.folder)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let fresh = path.with_extension(format!("{}-{}.{NEW}", std::process::id(), now.as_nanos()));
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&fresh)?;
        let written = file.write_all(bytes).and_then(|()| fs::rename(&fresh, path));
        if written.is_err() {
            let _ = fs::remove_file(fresh);
        }
        written
    }

    /// Deletes what was not used for the longest, until the rest is within the bound, and what nobody goes on to write.
    fn make_room(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter(|entry| is_ours(&entry.path()))
            .filter_map(|entry| {
                let there = entry.metadata().ok()?;
                Some((there.modified().ok()?, there.len(), entry.path()))
            })
            .collect();
        files.sort_unstable();
        let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (used, size, path) in files {
            let goes = match path.extension().is_some_and(|end| end == NEW) {
                true => used.elapsed().is_ok_and(|age| age > WRITTEN_WITHIN),
                false => bytes > self.bytes_max,
            };
            if goes {
                let _ = fs::remove_file(path);
                bytes -= size;
            }
        }
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// A person may name a folder that has other files.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split_once('.'));
    let is_hash = |name: &str| name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.is_some_and(|(hash, _)| is_hash(hash))
        && path.extension().is_some_and(|end| [PROGRAM, TRIED, UNITS, NEW].iter().any(|kind| end == *kind))
}

/// How large a program's launches were last, kept beside it.
#[derive(Default)]
pub(crate) struct KeptUnits {
    of: Option<(Arc<Cache>, Key)>,
    units: u64,
}

impl KeptUnits {
    pub(crate) fn of(cache: &Arc<Cache>, key: Key) -> Self {
        Self { of: Some((Arc::clone(cache), key)), units: cache.units(key) }
    }

    /// Units of a launch that took as long as one should, or less, when the program ran last; 0 where that is not known, and
    /// of what is kept nothing must be believed.
    pub(crate) fn last(&self) -> u64 {
        self.units
    }

    /// A launch of so many units took `took`, where one should take `launch`: its units are kept if it did, or if it was
    /// quicker and had more than are known. That is written where it is new by more than a factor of two, so that it is
    /// seldom.
    pub(crate) fn ran(&mut self, units: u64, took: Duration, launch: Duration) {
        if took > launch * 2 || (took < launch / 2 && units < self.units) {
            return;
        }
        if units / 2 > self.units || self.units / 2 > units {
            self.units = units;
            if let Some((cache, key)) = &self.of {
                cache.write(*key, UNITS, &units.to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A folder that goes away with the value, and what caches in it complain of.
    struct Place {
        folder: PathBuf,
        said: Arc<Mutex<Vec<String>>>,
    }

    impl Place {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let name =
                format!("starfarm-cache-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            Self { folder: std::env::temp_dir().join(name), said: Arc::default() }
        }

        fn open(&self) -> Option<Cache> {
            let said = Arc::clone(&self.said);
            Cache::open(self.folder.clone(), move |words| said.lock().unwrap().push(words.to_owned()))
        }

        fn said(&self) -> Vec<String> {
            std::mem::take(&mut self.said.lock().unwrap())
        }

        fn files(&self) -> Vec<String> {
            let names = fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().file_name());
            names.map(|name| name.into_string().unwrap()).collect()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder).or_else(|_| fs::remove_file(&self.folder));
        }
    }

    fn key(source: &str) -> Key {
        Key::of(&["platform".into(), "device".into()], "-cl-std=CL1.2", source)
    }

    /// As a session does it, with a driver that takes anything.
    fn taken(cache: &Cache, key: Key) -> Option<Vec<u8>> {
        let program = cache.take(key);
        if program.is_some() {
            cache.give_back(key);
        }
        program
    }

    #[test]
    fn a_program_comes_back_for_the_same_device_driver_options_and_text_alone() {
        let place = Place::new();
        let cache = place.open().unwrap();
        cache.keep(key("text"), b"code");
        assert_eq!(taken(&cache, key("text")).unwrap(), b"code");
        assert_eq!(taken(&place.open().unwrap(), key("text")).unwrap(), b"code", "of another process");
        let of = |device: &[&str], options, source| {
            Key::of(&device.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), options, source)
        };
        for other in [
            of(&["platform", "device"], "-cl-std=CL1.2", "text "),
            of(&["platform", "device"], "", "text"),
            of(&["platform", "device 2"], "-cl-std=CL1.2", "text"),
            of(&["platformd", "evice"], "-cl-std=CL1.2", "text"),
            of(&["platform", "device", "-cl-std=CL1.2"], "", "text"),
        ] {
            assert_eq!(taken(&cache, other), None);
        }
        let modes = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((modes(&place.folder), modes(&cache.path(key("text"), PROGRAM))), (0o700, 0o600));
        assert_eq!(place.said(), [""; 0]);
    }

    #[test]
    fn a_file_that_is_cut_short_or_damaged_or_of_another_name_is_not_there_and_is_replaced() {
        let place = Place::new();
        let cache = place.open().unwrap();
        let key = key("text");
        for kind in [PROGRAM, UNITS] {
            let path = cache.path(key, kind);
            let known = || match kind {
                PROGRAM => taken(&cache, key).is_some(),
                _ => cache.units(key) != 0,
            };
            let keep = || match kind {
                PROGRAM => cache.keep(key, b"some code"),
                _ => cache.write(key, UNITS, &5_u64.to_le_bytes()),
            };
            keep();
            let whole = fs::read(&path).unwrap();
            let cut = (0..whole.len()).map(|length| whole[..length].to_vec());
            let flipped = (0..whole.len() * 8).map(|bit| {
                let mut bytes = whole.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                bytes
            });
            for damaged in cut.chain(flipped).chain([[&whole[..], b"x"].concat()]) {
                fs::write(&path, &damaged).unwrap();
                assert!(!known(), "{kind} {} bytes", damaged.len());
            }
            keep();
            assert!(known(), "{kind}");
            fs::copy(&path, cache.path(Key(ContentHash([1; 32])), kind)).unwrap();
            assert!(taken(&cache, Key(ContentHash([1; 32]))).is_none(), "another's");
        }
        assert_eq!(cache.units(Key(ContentHash([1; 32]))), 0);
        fs::copy(cache.path(key, UNITS), cache.path(key, PROGRAM)).unwrap();
        assert_eq!(taken(&cache, key), None, "eight bytes are no program");
    }

    /// The host that was given it has gone, and so would the next one.
    #[test]
    fn a_program_that_takes_its_driver_down_is_tried_once() {
        let place = Place::new();
        let cache = place.open().unwrap();
        cache.keep(key("text"), b"code");
        assert!(cache.take(key("text")).is_some());
        assert_eq!(cache.take(key("text")), None);
        cache.keep(key("text"), b"compiled anew");
        assert_eq!(taken(&cache, key("text")).unwrap(), b"compiled anew");
    }

    #[test]
    fn what_others_could_have_written_is_not_used_and_that_is_said_once() {
        let place = Place::new();
        let cache = place.open().unwrap();
        let path = cache.path(key("text"), PROGRAM);
        let mode = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        cache.keep(key("text"), b"code");
        mode(&path, 0o622);
        assert_eq!((taken(&cache, key("text")), taken(&cache, key("text"))), (None, None));
        let said = place.said();
        assert!(said.len() == 1 && said[0].contains("chmod go-w"), "{said:?}");
        cache.keep(key("text"), b"code");
        assert!(taken(&cache, key("text")).is_some(), "it was replaced");
        mode(&place.folder, 0o777);
        assert!(place.open().is_none());
        assert!(place.said()[0].contains("is not used: everybody on this machine may write in it"));
        mode(&place.folder, 0o700);
        // Only root can make somebody else an owner.
        if chown(&path, Some(12_345), None).is_ok() {
            let cache = Cache { told: Once::new(), ..cache };
            assert_eq!(taken(&cache, key("text")), None);
            assert!(place.said()[0].contains("belongs to another user"));
            assert!(place.open().is_none(), "one who was let in once");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_or_has_gone_is_told_once_at_most() {
        let place = Place::new();
        let cache = place.open().unwrap();
        fs::remove_dir(&place.folder).unwrap();
        assert_eq!(cache.units(key("text")), 0);
        cache.keep(key("text"), b"code");
        assert!(taken(&cache, key("text")).is_some(), "it was made again");
        assert_eq!(place.said(), [""; 0]);
        fs::remove_dir_all(&place.folder).unwrap();
        fs::write(&place.folder, "a file").unwrap();
        cache.keep(key("text"), b"code");
        cache.write(key("text"), UNITS, b"12345678");
        assert_eq!(taken(&cache, key("text")), None);
        let said = place.said();
        assert!(said.len() == 1 && said[0].contains("compiled at each start"), "{said:?}");
        assert!(place.open().is_none());
    }

    #[test]
    fn what_was_not_used_for_the_longest_goes_and_files_of_others_stay() {
        let place = Place::new();
        let cache = Cache { bytes_max: 3 * 1_100, ..place.open().unwrap() };
        let age = |path: &Path, seconds| {
            let file = File::options().append(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
        };
        for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
            cache.keep(key(name), &[0; 1_000]);
            age(&cache.path(key(name), PROGRAM), 100 - number as u64);
        }
        assert!(taken(&cache, key("a")).is_some(), "so b is the oldest");
        for (name, seconds) in [("notes.txt", 1_000), ("notes.new", 10_000)] {
            fs::write(place.folder.join(name), [0; 5_000]).unwrap();
            age(&place.folder.join(name), seconds);
        }
        let writing = |name: &str| cache.path(key(name), "1-2.new");
        for (name, seconds) in [("left", 4_000), ("busy", 3_000)] {
            fs::write(writing(name), "").unwrap();
            age(&writing(name), seconds);
        }
        cache.keep(key("d"), &[0; 1_000]);
        let there = ["a", "b", "c", "d"].map(|name| taken(&cache, key(name)).is_some());
        assert_eq!(there, [true, false, true, true]);
        assert!(!writing("left").exists() && writing("busy").exists());
        assert!(place.folder.join("notes.txt").exists() && place.folder.join("notes.new").exists());
        cache.keep(key("e"), &[]);
        assert_eq!(taken(&cache, key("e")), None, "a driver gave nothing");
    }

    #[test]
    fn two_writers_leave_whole_files() {
        let place = Place::new();
        std::thread::scope(|scope| {
            for writer in 1..=4_u8 {
                let cache = place.open().unwrap();
                scope.spawn(move || {
                    for round in 0..200_u32 {
                        let name = (round % 3).to_string();
                        let program = taken(&cache, key(&name)).unwrap_or_default();
                        assert!(program.iter().all(|byte| *byte == program[0]), "of one writer");
                        assert!([0, 9_000, 18_000].contains(&program.len()));
                        cache.keep(key(&name), &vec![writer; 9_000 * (1 + usize::from(writer % 2))]);
                    }
                });
            }
        });
        assert_eq!(place.said(), [""; 0]);
        let cache = place.open().unwrap();
        assert!((0..3).all(|name| taken(&cache, key(&name.to_string())).is_some()));
        assert!(place.files().iter().all(|name| !name.ends_with(".new")));
    }

    #[test]
    fn the_size_of_launches_is_kept_and_seldom_written() {
        let place = Place::new();
        let cache = Arc::new(place.open().unwrap());
        let mut kept = KeptUnits::of(&cache, key("text"));
        assert_eq!(kept.last(), 0);
        let launch = Duration::from_millis(20);
        for (units, ms, kept_units) in [
            (1_000, 20, 1_000),
            (1_999, 20, 1_000),
            (2_002, 20, 2_002),
            (1_001, 10, 2_002),
            (1_000, 40, 1_000),
            // The last units of a task are quick, and tell nothing; more units than ever do.
            (10, 9, 1_000),
            (5_000, 9, 5_000),
            (50_000, 41, 5_000),
            (10, 41, 5_000),
        ] {
            kept.ran(units, Duration::from_millis(ms), launch);
            assert_eq!(KeptUnits::of(&cache, key("text")).last(), kept_units, "{units} in {ms} ms");
        }
        assert_eq!(KeptUnits::of(&cache, key("other")).last(), 0);
    }
}
