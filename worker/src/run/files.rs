//! Files of a unit: its inputs are linked into its scratch directory, and what it made there is packed into an archive.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use starfarm_decomposers::Decomposer;
use starfarm_decomposers::template::{Rules, Template, UnitText};
use starfarm_protocol::spec::{CommandWork, Input, is_inside, plain};

use super::executor::Context;
use super::memory::Memory;
use super::pack::{Made, NotPacked, Output, bytes_of, pack};
use super::room::Room;
use crate::bulk::FetchError;
use starfarm_exec::CancelFlag;

/// The files of a job's units.
pub(super) struct UnitFiles {
    /// Of all units.
    inputs: Vec<Input>,
    /// Of those units that name them, by their paths.
    of_units: BTreeMap<String, Input>,
    unit_inputs: Vec<Template>,
    outputs: Vec<Template>,
    limit: u64,
    /// All units make files of these names, so each unit's have a folder of their own.
    many_units: bool,
}

impl UnitFiles {
    /// `None` where the job has none.
    pub(super) fn new(work: &CommandWork, space: &dyn Decomposer) -> Result<Option<Self>, String> {
        if let Some(input) = work.inputs.iter().find(|input| !is_inside(&input.path)) {
            return Err(format!(
                "the input `{}` would lie outside of the scratch directory: submit the job anew",
                input.path
            ));
        }
        let (names, limit, many_units) = (space.names(), work.files_limit, space.numbers() > 1);
        let rules = Rules::of(work, &names);
        let outputs = work.outputs.iter().map(|name| rules.text(name)).collect();
        // These are of single units, whatever one run computes.
        let single = CommandWork { parallel: work.parallel, ..CommandWork::default() };
        let unit_rules = Rules::of(&single, &names);
        let unit_inputs = work.unit_inputs.iter().map(|name| unit_rules.text(name)).collect();
        let (of_units, inputs): (Vec<Input>, _) =
            work.inputs.iter().cloned().partition(|input| input.of_units);
        let of_units = of_units.into_iter().map(|input| (input.path.clone(), input)).collect();
        let files = Self { inputs, of_units, unit_inputs, outputs, limit, many_units };
        Ok(work.has_files().then_some(files))
    }

    /// No unit makes any.
    pub(super) fn are_inputs(&self) -> bool {
        self.outputs.is_empty()
    }

    /// Units have inputs of their own.
    pub(super) fn differ(&self) -> bool {
        !self.unit_inputs.is_empty()
    }

    /// Adds the inputs of a unit's own to those in `own`, by their paths.
    ///
    /// # Errors
    /// One did not come along; in words for a person.
    pub(super) fn own<'a>(
        &'a self,
        text: &UnitText,
        own: &mut BTreeMap<&'a str, &'a Input>,
    ) -> Result<(), FetchError> {
        for template in &self.unit_inputs {
            let name = template.fill(text);
            let path = plain(&String::from_utf8_lossy(&name));
            match self.of_units.get_key_value(&path) {
                Some((path, input)) => drop(own.insert(path, input)),
                None if self.inputs.iter().any(|input| input.path == path) => {}
                None => {
                    let (index, name) = (text.index, String::from_utf8_lossy(&name));
                    let why = format!(
                        "the input `{name}` of unit {index} did not come along: submit the job again"
                    );
                    return Err(FetchError::Refused(why));
                }
            }
        }
        Ok(())
    }

    /// Inputs of all units.
    pub(super) fn of_all(&self) -> impl Iterator<Item = &Input> {
        self.inputs.iter()
    }

    /// Links `inputs` into `scratch`. Those that are not here are fetched.
    pub(super) fn bring<'a>(
        &self,
        scratch: &Path,
        inputs: impl IntoIterator<Item = &'a Input>,
        cancel: &CancelFlag,
        context: &Context,
    ) -> Result<(), FetchError> {
        for input in inputs {
            let to = scratch.join(&input.path);
            if let Some(folder) = to.parent() {
                let why =
                    |e: &io::Error| format!("no directory for the input `{}` on this node: {e}", input.path);
                fs::create_dir_all(folder).map_err(|e| FetchError::of_disk(&e, why(&e)))?;
            }
            let fetch = |hash| context.contents.fetch(hash, cancel);
            context.store.link(input, &to, &fetch, cancel)?;
        }
        Ok(())
    }

    /// Makes the folders of the outputs in `scratch`: their names are known, and a program that writes a file expects its
    /// folder. A name that cannot be is told of where the file is looked for.
    pub(super) fn make_folders(&self, scratch: &Path, text: &UnitText) -> Result<(), FetchError> {
        let names = self.outputs.iter().filter_map(|name| String::from_utf8(name.fill(text)).ok());
        for name in names.filter(|name| is_inside(name)) {
            let Some((folder, _)) = name.rsplit_once('/') else { continue };
            if let Err(e) = fs::create_dir_all(scratch.join(folder))
                && let full @ FetchError::NoRoom(_) =
                    FetchError::of_disk(&e, format!("no directory for the output `{name}` on this node: {e}"))
            {
                return Err(full);
            }
        }
        Ok(())
    }

    /// What a unit made in `scratch`; `None` where nothing is asked for; or, in a sentence for the user, why it has failed.
    ///
    /// # Errors
    /// This node cannot pack them.
    pub(super) fn collect(
        &self,
        scratch: &Path,
        text: &UnitText,
        (memory, room): (&Memory, &Room),
    ) -> Result<Result<Option<Made>, String>, FetchError> {
        let names = match self.names(scratch, text) {
            Ok(names) if names.is_empty() => return Ok(Ok(None)),
            Ok(names) => names,
            Err(why) => return Ok(Err(why)),
        };
        match pack(scratch, &names, memory, room) {
            Ok(made) => Ok(Ok(Some(made))),
            Err(NotPacked::Unit(why)) => Ok(Err(why)),
            Err(NotPacked::Here(e)) => {
                let why = format!("the files that a unit made cannot be packed on this node: {e}");
                Err(FetchError::of_disk(&e, why))
            }
        }
    }

    /// The files that a unit must have made.
    fn names(&self, scratch: &Path, text: &UnitText) -> Result<Vec<Output>, String> {
        let mut names: Vec<Output> = Vec::new();
        for template in &self.outputs {
            let name = String::from_utf8(template.fill(text)).map_err(|e| {
                format!("must make {:?}, which is not UTF-8", String::from_utf8_lossy(e.as_bytes()))
            })?;
            if !is_inside(&name) {
                return Err(format!(
                    "must make `{name}`, which lies outside of the directory that it runs in"
                ));
            }
            let shown = match template.is_fixed() && self.many_units {
                true => format!("{}/{name}", text.index),
                false => name.clone(),
            };
            match names.iter().find(|other| other.shown == shown) {
                Some(other) if other.name != name => {
                    return Err(format!(
                        "makes `{}` and `{name}`, and among the files of the job both are called `{shown}`: rename one",
                        other.name
                    ));
                }
                Some(_) => {}
                None => {
                    let bytes = size_of(scratch, &name)?;
                    names.push(Output { name, shown, bytes });
                }
            }
        }
        let bytes = bytes_of(&names);
        match bytes > self.limit {
            true => Err(format!("made files of {bytes} bytes, more than files_limit, {}", self.limit)),
            false => Ok(names),
        }
    }
}

/// Bytes of the file `name` in `scratch`, which must be one, and be reached by folders alone.
fn size_of(scratch: &Path, name: &str) -> Result<u64, String> {
    let mut path = scratch.to_owned();
    let mut parts = name.split('/').peekable();
    while let Some(part) = parts.next() {
        path.push(part);
        let there = match fs::symlink_metadata(&path) {
            Ok(there) => there,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(format!("made no file `{name}`"));
            }
            Err(e) => return Err(format!("made a file `{name}` that cannot be read: {e}")),
        };
        match parts.peek() {
            Some(_) if there.is_dir() => {}
            None if there.is_file() => return Ok(there.len()),
            _ if there.is_symlink() => return Err(format!("made `{name}` by a link: only files are taken")),
            _ if there.is_dir() => return Err(format!("made a directory `{name}`: only files are taken")),
            Some(_) => return Err(format!("made no file `{name}`")),
            None => return Err(format!("made `{name}`, which is no regular file")),
        }
    }
    Err("made no file".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use starfarm_protocol::bulk::Source;
    use starfarm_protocol::ids::ContentHash;
    use starfarm_protocol::spec::{Per, Space};

    use crate::run::memory::IN_MEMORY_MAX;
    use crate::testing::TempDir;

    const UNIT: u128 = 7;

    /// Nine units.
    fn space() -> Box<dyn Decomposer> {
        let space = Space::Range { from: 0, to: 9, step: 1 };
        starfarm_decomposers::open(&space, Arc::new(starfarm_decomposers::NoChunks)).unwrap()
    }

    fn collect(dir: &TempDir, outputs: &[&str], limit: u64) -> Result<Option<Made>, String> {
        collect_in(dir, outputs, limit, &Memory::default())
    }

    fn collect_in(
        dir: &TempDir,
        outputs: &[&str],
        limit: u64,
        memory: &Memory,
    ) -> Result<Option<Made>, String> {
        let outputs = outputs.iter().map(|name| (*name).to_owned()).collect();
        let work = CommandWork { outputs, files_limit: limit, ..CommandWork::default() };
        let files = UnitFiles::new(&work, &*space()).unwrap().unwrap();
        let text = UnitText { index: UNIT, value: b"v/../w".to_vec(), fields: Vec::new() };
        files.collect(&dir.0.join("scratch"), &text, (memory, &Room::default())).unwrap()
    }

    /// A scratch directory with a file of that name.
    fn with(name: &str, content: &str, mode: u32) -> TempDir {
        let dir = TempDir::new();
        let path = dir.0.join("scratch").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        dir
    }

    #[test]
    fn equal_files_make_equal_archives_wherever_and_whenever_they_were_made() {
        let long = format!("{}/{}", "d".repeat(150), "f".repeat(200));
        for content in ["abc".repeat(1_000), "abc".repeat(1_000_000)] {
            equal_files_make_equal_archives(&long, &content);
        }
    }

    fn equal_files_make_equal_archives(long: &str, content: &str) {
        let limit = content.len() as u64;
        let made: Vec<Made> =
            (0..2).map(|_| collect(&with(long, content, 0o777), &[long], limit).unwrap().unwrap()).collect();
        assert_eq!((made[0].hash, made[0].bytes), (made[1].hash, made[1].bytes));
        assert_eq!(made[0].is_in_memory(), limit <= IN_MEMORY_MAX);
        let bytes = made[0].read(0, 4 << 20).unwrap();
        assert_eq!((bytes.len() as u64, ContentHash::of(&bytes)), (made[0].bytes, made[0].hash));
        assert_eq!(made[0].read(made[0].bytes - 3, 9).unwrap().len(), 3);
        let mut archive = tar::Archive::new(&bytes[..]);
        let mut entries = archive.entries().unwrap();
        let mut entry = entries.next().unwrap().unwrap();
        assert_eq!(entry.path().unwrap().to_str().unwrap(), format!("{UNIT}/{long}"));
        assert_eq!((entry.header().mode().unwrap(), entry.header().mtime().unwrap()), (0o755, 0));
        let mut read = String::new();
        entry.read_to_string(&mut read).unwrap();
        assert!(read == content && entries.next().is_none());
    }

    /// A worker may have a thousand slots.
    #[test]
    fn archives_of_all_slots_take_a_bounded_part_of_the_memory() {
        let (dir, memory) = (with("x", &"x".repeat(2_000_000), 0o600), Memory::default());
        let made: Vec<Made> =
            (0..20).map(|_| collect_in(&dir, &["x"], u64::MAX, &memory).unwrap().unwrap()).collect();
        assert_eq!(made.iter().filter(|made| made.is_in_memory()).count(), 16, "of 2 MB each");
        assert!(made.iter().all(|one| one.read(0, 4 << 20).unwrap() == made[0].read(0, 4 << 20).unwrap()));
        drop(made);
        assert!(collect_in(&dir, &["x"], u64::MAX, &memory).unwrap().unwrap().is_in_memory());
    }

    #[test]
    fn what_is_no_file_of_the_unit_is_told() {
        let dir = with("a/b", "xyz", 0o600);
        std::os::unix::fs::symlink("a", dir.0.join("scratch/link")).unwrap();
        let why = |outputs: &[&str], limit| collect(&dir, outputs, limit).unwrap_err();
        assert_eq!(why(&["a/c"], 9), "made no file `a/c`");
        assert_eq!(why(&["a/b/c"], 9), "made no file `a/b/c`");
        assert_eq!(why(&["a"], 9), "made a directory `a`: only files are taken");
        assert_eq!(why(&["link/b"], 9), "made `link/b` by a link: only files are taken");
        assert_eq!(
            why(&["{}"], 9),
            "must make `v/../w`, which lies outside of the directory that it runs in"
        );
        assert_eq!(why(&["a/b"], 2), "made files of 3 bytes, more than files_limit, 2");
        assert_eq!(collect(&dir, &["a/b", "a/b"], 3).unwrap().unwrap().count, 1, "one is taken once");
    }

    #[test]
    fn folders_of_outputs_are_there_before_the_program_starts() {
        let dir = with("taken", "", 0o600);
        let outputs = ["a/b/{index}.txt", "{}.txt", "taken/x", "../y/z"].map(str::to_owned).to_vec();
        let work = CommandWork { outputs, ..CommandWork::default() };
        let files = UnitFiles::new(&work, &*space()).unwrap().unwrap();
        let text = UnitText { index: UNIT, value: b"v/w".to_vec(), fields: Vec::new() };
        let scratch = dir.0.join("scratch");
        files.make_folders(&scratch, &text).unwrap();
        assert!(scratch.join("a/b").is_dir() && scratch.join("v").is_dir());
        assert!(scratch.join("taken").is_file() && !dir.0.join("y").exists());
    }

    /// Among 10^5 files of a folder a unit finds its own, and none is linked in vain.
    #[test]
    fn a_unit_has_the_inputs_of_all_and_its_own() {
        let input = |path: &str, of_units| {
            let path = path.to_owned();
            Input { path, parts: Vec::new(), bytes: 0, executable: false, of_units }
        };
        for (per, parallel) in [(Per::Unit, false), (Per::Unit, true), (Per::Task, false)] {
            let work = CommandWork {
                inputs: vec![
                    input("all", false),
                    input("p/0.in", false),
                    input("p/1.in", true),
                    input("p/2.in", true),
                ],
                unit_inputs: vec!["./p//{}.in".into(), "p/{}.in".into()],
                per,
                parallel,
                ..CommandWork::default()
            };
            let (files, space) = (UnitFiles::new(&work, &*space()).unwrap().unwrap(), space());
            let own = |units: &[u128]| {
                let mut own = BTreeMap::new();
                let add = |unit: &u128| files.own(&UnitText::of(&*space, *unit).unwrap(), &mut own);
                units.iter().try_for_each(add)?;
                Ok(own.keys().map(|path| (*path).to_owned()).collect::<Vec<_>>())
            };
            assert!(files.differ());
            assert_eq!(own(&[1]).unwrap(), ["p/1.in"]);
            assert_eq!(own(&[0, 2, 1]).unwrap(), ["p/1.in", "p/2.in"], "all units have the first");
            let why = "the input `./p//3.in` of unit 3 did not come along: submit the job again";
            assert_eq!(own(&[3]), Err(FetchError::Refused(why.into())));
        }
    }

    #[test]
    fn an_input_that_would_lie_elsewhere_is_refused() {
        let input = |path: &str| Input {
            path: path.into(),
            parts: Vec::new(),
            bytes: 0,
            executable: false,
            of_units: false,
        };
        for path in ["/etc/x", "../x", "a/../../x", "", "a//b"] {
            let work = CommandWork { inputs: vec![input(path)], ..CommandWork::default() };
            assert!(UnitFiles::new(&work, &*space()).is_err(), "{path}");
        }
    }
}
