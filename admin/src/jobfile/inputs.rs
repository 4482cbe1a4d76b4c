//! Files that a job brings along, found beneath the job file's folder and hashed; and the names of those that its units
//! make.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{self, Component, Path, PathBuf};

use starfarm_decomposers::Decomposer;
use starfarm_decomposers::template::{Rules, Template, UnitText};
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::spec::{CommandWork, INPUT_PART_BYTES, Input, is_inside, plain};
use starfarm_protocol::unit_set::UnitSet;

use super::error::JobFileError;
use super::lines;
use super::table::Item;
use crate::failure::Failure;

/// An input, and where it lies here.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct InputFile {
    pub(crate) source: PathBuf,
    pub(crate) input: Input,
}

impl InputFile {
    /// Shows `visit` its parts one by one, each with its hash.
    ///
    /// # Errors
    /// It cannot be read, or is not what it was when it was hashed; the sentence names it.
    pub(crate) fn each_part(
        &self,
        mut visit: impl FnMut(ContentHash, &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let name = self.source.display();
        let unreadable = |e: io::Error| Failure::usage(format!("cannot read the input `{name}`: {e}"));
        let changed = || {
            Failure::usage(format!(
                "the input `{name}` changed while it was submitted: submit the job again when nobody writes to it"
            ))
        };
        let mut file = File::open(&self.source).map_err(unreadable)?;
        for hash in &self.input.parts {
            let part = next_part(&mut file).map_err(unreadable)?;
            if ContentHash::of(&part) != *hash {
                return Err(changed());
            }
            visit(*hash, &part)?;
        }
        match next_part(&mut file).map_err(unreadable)?.is_empty() {
            true => Ok(()),
            false => Err(changed()),
        }
    }
}

/// Most units whose own inputs are looked for.
const UNITS_MAX: u128 = 100_000;

/// The units of a job, whose values stand in names of inputs.
pub(super) struct Units<'a> {
    /// Looks them up, or says why they are not known.
    pub(super) open: Box<dyn Fn() -> Result<Box<dyn Decomposer>, String> + 'a>,
    pub(super) names: Vec<String>,
    pub(super) parallel: bool,
    /// Those that bring nothing along.
    pub(super) over: &'a UnitSet,
}

/// What a job brings along.
#[derive(Default)]
pub(super) struct Inputs {
    /// Sorted by their paths, each once.
    pub(super) files: Vec<InputFile>,
    /// Names of which a unit finds its own alone.
    pub(super) of_units: Vec<String>,
}

/// The inputs that `items` name, relative to `base`: files, patterns, or names in which values of units stand.
pub(super) fn read(items: &[Item<'_>], base: &Path, units: &Units<'_>) -> Result<Inputs, JobFileError> {
    let mut inputs = Inputs::default();
    for item in items {
        inputs.add(item.string()?, base, units).map_err(|words| item.error(words))?;
    }
    Ok(inputs.sorted())
}

/// The same of names that stand in no file.
pub(super) fn find(names: &[String], base: &Path, units: &Units<'_>) -> Result<Inputs, String> {
    let mut inputs = Inputs::default();
    names.iter().try_for_each(|name| inputs.add(name, base, units))?;
    Ok(inputs.sorted())
}

impl Inputs {
    /// What all units find comes first where a path is named twice.
    fn sorted(mut self) -> Self {
        self.files.sort_by(|a, b| (&a.input.path, a.input.of_units).cmp(&(&b.input.path, b.input.of_units)));
        self.files.dedup_by(|a, b| a.input.path == b.input.path);
        self
    }

    fn add(&mut self, name: &str, base: &Path, units: &Units<'_>) -> Result<(), String> {
        let base = path::absolute(if base.as_os_str().is_empty() { Path::new(".") } else { base })
            .map_err(|e| format!("the current directory cannot be found: {e}"))?;
        let rules = CommandWork { parallel: units.parallel, ..CommandWork::default() };
        let template = Rules::of(&rules, &units.names).text(name);
        let of_units = !template.is_fixed();
        let sources = match of_units {
            true => of_each_unit(name, &template, &base, units)?,
            false => found(name, &base)?.into_iter().collect(),
        };
        for source in sources {
            let file = input(&source, &base)?;
            self.files.push(InputFile { input: Input { of_units, ..file.input }, ..file });
        }
        self.of_units.extend(of_units.then(|| name.to_owned()));
        Ok(())
    }
}

/// The files of all units by a name in which values of units stand.
fn of_each_unit(
    name: &str,
    template: &Template,
    base: &Path,
    units: &Units<'_>,
) -> Result<BTreeSet<PathBuf>, String> {
    let space = (units.open)().map_err(|why| format!("the input `{name}` is of units, and {why}"))?;
    let count = space.units();
    if count > UNITS_MAX {
        return Err(format!(
            "the input `{name}` is of units, and the job has {count}: at most {UNITS_MAX} may have files of their own"
        ));
    }
    let mut files = BTreeSet::new();
    for unit in (0..count).filter(|unit| !units.over.contains(*unit)) {
        let text = UnitText::of(&*space, unit).map_err(|e| e.to_string())?;
        let at_fault = |words: String| format!("unit {unit}: {words}");
        let path = String::from_utf8(template.fill(&text)).map_err(|e| {
            at_fault(format!("the input {:?} is not UTF-8", String::from_utf8_lossy(e.as_bytes())))
        })?;
        // What may be written for files of all units is no advice here.
        let is_folder = path.ends_with('/') && base.join(&path).is_dir();
        let found = lies_there(&path, base).map_err(|words| match is_folder {
            true => format!(
                "the input `{path}` is a directory, and a unit can bring single files only: name a file"
            ),
            false => words,
        });
        match found.map_err(at_fault)? {
            Some(file) => drop(files.insert(file)),
            None => {
                let base = base.display();
                return Err(at_fault(format!("the input `{path}` is not a file in {base}: check the path")));
            }
        }
    }
    Ok(files)
}

/// The files that `name` means.
fn found(name: &str, base: &Path) -> Result<Vec<PathBuf>, String> {
    if let Some(file) = lies_there(name, base)? {
        return Ok(vec![file]);
    }
    let name = name.trim_start_matches("./");
    if !name.contains(['*', '?', '[', '{']) {
        return Err(format!("the input `{name}` is not a file in {}: check the path", base.display()));
    }
    let found = lines::matches(name, base)?;
    if found.is_empty() {
        return Err(format!("the pattern `{name}` matches no file under `{}`: change it", base.display()));
    }
    Ok(found)
}

/// The file of that name; `None` where there is nothing.
fn lies_there(name: &str, base: &Path) -> Result<Option<PathBuf>, String> {
    let name = name.trim_start_matches("./");
    let is_outside = |part: Component<'_>| !matches!(part, Component::Normal(_) | Component::CurDir);
    if name.is_empty() {
        return Err("the name of an input is empty: name a file".to_owned());
    }
    if Path::new(name).starts_with(base) {
        return Err(format!(
            "the input `{name}` is an absolute path, and units find inputs by their paths from the job file's folder: \
             name it by that. The units of a `glob` are absolute: list such paths in a file instead"
        ));
    }
    if Path::new(name).components().any(is_outside) {
        return Err(format!(
            "the input `{name}` does not lie beneath the job file's folder: move or link it there, and write its path \
             relative to that folder"
        ));
    }
    match fs::metadata(base.join(name)) {
        Ok(there) if there.is_file() => Ok(Some(base.join(name))),
        Ok(there) if there.is_dir() => {
            let folder = name.trim_end_matches('/');
            Err(format!("the input `{name}` is a directory: write `{folder}/**` for all files in it"))
        }
        Ok(_) => Err(format!("the input `{name}` is no regular file: bring the bytes along in one")),
        Err(_) => Ok(None),
    }
}

/// The input that lies at `source`, with the hashes of its parts.
fn input(source: &Path, base: &Path) -> Result<InputFile, String> {
    use std::os::unix::fs::PermissionsExt;
    let unreadable =
        |e: io::Error| format!("cannot read the input `{}`: {e}; check the path", source.display());
    let path = source.strip_prefix(base).unwrap_or(source).to_str();
    let path =
        path.ok_or_else(|| format!("the name {:?} is not UTF-8: rename the file", source.display()))?;
    let mut file = File::open(source).map_err(unreadable)?;
    let executable = file.metadata().map_err(unreadable)?.permissions().mode() & 0o100 != 0;
    let (mut parts, mut bytes) = (Vec::new(), 0);
    loop {
        let part = next_part(&mut file).map_err(unreadable)?;
        if part.is_empty() {
            break;
        }
        bytes += part.len() as u64;
        parts.push(ContentHash::of(&part));
    }
    Ok(InputFile {
        source: source.to_owned(),
        input: Input { path: plain(path), parts, bytes, executable, of_units: false },
    })
}

fn next_part(file: &mut File) -> io::Result<Vec<u8>> {
    let mut part = Vec::new();
    file.take(INPUT_PART_BYTES as u64).read_to_end(&mut part)?;
    Ok(part)
}

/// The names of the files that units make; `names` are what the space names.
pub(super) fn outputs(items: &[Item<'_>], names: &[String]) -> Result<Vec<String>, JobFileError> {
    let rules = Rules::of(&CommandWork::default(), names);
    let mut outputs: Vec<String> = Vec::new();
    for item in items {
        let name = item.string()?;
        check_output(name, &outputs, &rules).map_err(|words| item.error(words))?;
        outputs.push(name.to_owned());
    }
    Ok(outputs)
}

/// Whether a file can be called so that units make beside `others`.
pub(super) fn check_output(name: &str, others: &[String], rules: &Rules) -> Result<(), String> {
    let fields = rules.names().iter().map(|name| (name.clone(), b"x".to_vec())).collect();
    let unit = UnitText { index: 0, value: b"x".to_vec(), fields };
    let filled = rules.text(name).fill(&unit);
    if !std::str::from_utf8(&filled).is_ok_and(is_inside) {
        return Err(format!(
            "the output `{name}` is no path inside of the directory that a unit runs in: write plain names, parted by /"
        ));
    }
    not_a_pattern(name)?;
    match others.iter().any(|other| other == name) {
        true => Err(format!("the output `{name}` is named twice: remove one")),
        false => Ok(()),
    }
}

/// What a run makes has a name.
pub(super) fn not_a_pattern(output: &str) -> Result<(), String> {
    match output.contains(['*', '?']) {
        true => Err(format!(
            "the output `{output}` is a pattern, which only inputs may be: name each file, or let the program pack those \
             whose names it alone knows into one"
        )),
        false => Ok(()),
    }
}
