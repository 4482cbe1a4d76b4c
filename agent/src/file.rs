//! The file of a node's own agent, and that of the whole farm, as text: TOML, read into a [`Config`] with the place of each
//! thing. Whether a graph can be made of it is checked elsewhere.

use std::fmt;
use std::path::{Path, PathBuf};

use starfarm_agent_core::When;
use starfarm_agent_core::config::{At, Config, EdgeEntry, StageEntry, TimerEntry, Wrong};
use toml::de::{DeTable, DeValue};

/// What may stand in a node's own file.
const OWN_KEYS: [&str; 6] = ["modules", "start", "stage", "edge", "timer", "service"];
/// The start stage that a file is for unless it says another, and the one that takes all from the farm.
const CONFIG: &str = "config";
const ORDERS: &str = "orders";
/// Longest period or delay, in seconds.
const SECONDS_MAX: f64 = 1e9;
/// Words of a service's command line, at most.
const WORDS_MAX: usize = 1_000;

/// A file that cannot be used: where, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileError {
    file: String,
    /// Line and column, from 1; columns are characters.
    place: Option<(usize, usize)>,
    why: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, place, why } = self;
        match place {
            Some((line, column)) => write!(f, "{file}:{line}:{column}: {why}"),
            None => write!(f, "{file}: {why}"),
        }
    }
}

impl std::error::Error for FileError {}

impl FileError {
    /// One of the file as a whole.
    pub(crate) fn whole(file: &str, why: impl Into<String>) -> Self {
        Self { file: file.to_owned(), place: None, why: why.into() }
    }

    /// At a byte of its text.
    pub(crate) fn at(file: &str, text: &str, Wrong { at, why }: Wrong) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let place = Some((line, before[line_start..].chars().count() + 1));
        Self { file: file.to_owned(), place, why }
    }
}

/// What a file says.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Said {
    pub(crate) config: Config,
    pub(crate) services: Vec<ServiceEntry>,
    /// Modules that are files: as they are written, and where they are.
    pub(crate) libraries: Vec<At<PathBuf>>,
}

/// A program beside the agent.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ServiceEntry {
    pub(crate) name: At<String>,
    pub(crate) program: Vec<String>,
}

type Value<'t> = toml::Spanned<DeValue<'t>>;
type Read<T> = Result<T, Wrong>;

fn wrong<T>(at: usize, why: impl Into<String>) -> Read<T> {
    Err(Wrong { at, why: why.into() })
}

/// Reads a node's own file. Paths in it are relative to `base`.
pub(crate) fn read(text: &str, base: &Path) -> Read<Said> {
    let table = DeTable::parse(text).map_err(|error| Wrong {
        at: error.span().map_or(text.len(), |span| span.start),
        why: format!("this is not TOML: {}", error.message().trim_end()),
    })?;
    let root = Table { name: "the file", at: 0, table: table.get_ref() };
    root.only(&OWN_KEYS)?;
    let mut said = Said::default();
    if let Some(modules) = root.get("modules") {
        let modules = strings(modules, "modules")?;
        let files = modules.iter().filter(|At(_, name)| name.contains('/'));
        said.libraries = files.map(|At(at, name)| At(*at, base.join(name))).collect();
        said.config.modules = Some(modules);
    }
    if let Some(start) = root.get("start") {
        let At(at, name) = string(start, "start")?;
        if ![CONFIG, ORDERS].contains(&name.as_str()) {
            return wrong(at, format!("there is no start stage `{name}`: it is `{CONFIG}` or `{ORDERS}`"));
        }
        let added = ["stage", "edge", "timer"].into_iter().find_map(|key| Some((key, root.get(key)?)));
        if let Some((key, of)) = added.filter(|_| name == ORDERS) {
            let why = format!(
                "with `start = \"{ORDERS}\"` the farm says what is beside an agent's own stages (`starfarm monitor load`): leave out [[{key}]], or write \"{CONFIG}\""
            );
            return wrong(of.span().start, why);
        }
    }
    said.config.stages = root.tables("stage")?.iter().map(stage).collect::<Read<_>>()?;
    said.config.edges = root.tables("edge")?.iter().map(edge).collect::<Read<_>>()?;
    said.config.timers = root.tables("timer")?.iter().map(timer).collect::<Read<_>>()?;
    said.services = root.tables("service")?.iter().map(|of| service(of, base)).collect::<Read<_>>()?;
    Ok(said)
}

/// A table, and what it is called.
struct Table<'t> {
    name: &'static str,
    at: usize,
    table: &'t DeTable<'t>,
}

impl<'t> Table<'t> {
    fn get(&self, key: &str) -> Option<&'t Value<'t>> {
        self.table.iter().find(|(known, _)| known.get_ref() == key).map(|(_, value)| value)
    }

    fn require(&self, key: &str, example: &str) -> Read<&'t Value<'t>> {
        let missing = || Wrong { at: self.at, why: format!("{} needs `{key}`: add {example}", self.name) };
        self.get(key).ok_or_else(missing)
    }

    fn only(&self, known: &[&str]) -> Read<()> {
        let unknown = self.table.keys().find(|key| !known.contains(&key.get_ref().as_ref()));
        unknown.map_or(Ok(()), |key| {
            let why =
                format!("unknown key `{}` in {}: it has {}", key.get_ref(), self.name, known.join(", "));
            wrong(key.span().start, why)
        })
    }

    /// The tables of an array of tables, if it is there.
    fn tables(&self, key: &'static str) -> Read<Vec<Table<'t>>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let title = match key {
            "stage" => "[[stage]]",
            "edge" => "[[edge]]",
            "timer" => "[[timer]]",
            _ => "[[service]]",
        };
        let not =
            || Wrong { at: value.span().start, why: format!("write {title} before each of its tables") };
        let all = value.get_ref().as_array().ok_or_else(not)?;
        let table = |value: &'t Value<'t>| {
            let at = value.span().start;
            let table = value.get_ref().as_table().ok_or_else(not)?;
            Ok(Table { name: title, at, table })
        };
        all.iter().map(table).collect()
    }
}

fn string(value: &Value<'_>, key: &str) -> Read<At<String>> {
    let at = value.span().start;
    match value.get_ref().as_str() {
        Some(text) => Ok(At(at, text.to_owned())),
        None => wrong(at, format!("`{key}` is a string in quotes")),
    }
}

fn strings(value: &Value<'_>, key: &str) -> Read<Vec<At<String>>> {
    match value.get_ref().as_array() {
        Some(all) => all.iter().map(|one| string(one, key)).collect(),
        None => wrong(value.span().start, format!("`{key}` is a list of strings in quotes")),
    }
}

fn stage(table: &Table<'_>) -> Read<StageEntry> {
    table.only(&["name", "type", "set"])?;
    let name = string(table.require("name", "name = \"cpu\"")?, "name")?;
    let type_name = string(table.require("type", "type = \"cpuload\"")?, "type")?;
    let mut settings = Vec::new();
    if let Some(set) = table.get("set") {
        let Some(set) = set.get_ref().as_table() else {
            return wrong(set.span().start, "`set` is a table, as { match = \"cpu\" }");
        };
        for (key, value) in set.iter() {
            let At(at, text) = scalars(value, key.get_ref())?;
            settings.push((At(at, key.get_ref().to_string()), text));
        }
    }
    Ok(StageEntry { name, type_name, settings })
}

/// A setting's value as stages take it: text; of a list, with commas between.
fn scalars(value: &Value<'_>, key: &str) -> Read<At<String>> {
    let at = value.span().start;
    match value.get_ref() {
        DeValue::Array(all) if all.iter().all(|one| !matches!(one.get_ref(), DeValue::Array(_))) => {
            let all: Vec<_> = all.iter().map(|one| scalars(one, key)).collect::<Read<_>>()?;
            Ok(At(at, all.into_iter().map(|At(_, text)| text).collect::<Vec<_>>().join(",")))
        }
        DeValue::String(text) => Ok(At(at, text.to_string())),
        DeValue::Boolean(on) => Ok(At(at, if *on { "on" } else { "off" }.to_owned())),
        DeValue::Float(float) => Ok(At(at, float.as_str().to_owned())),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => Ok(At(at, number.to_string())),
            Err(_) => wrong(at, format!("`{key}` does not fit into 64 bits")),
        },
        _ => wrong(at, format!("`{key}` is a string, a number, true, false, or a list of these")),
    }
}

fn edge(table: &Table<'_>) -> Read<EdgeEntry> {
    table.only(&["from", "to"])?;
    let from = string(table.require("from", "from = \"cpu.out\"")?, "from")?;
    let to = string(table.require("to", "to = \"system.in\"")?, "to")?;
    Ok(EdgeEntry { from, to })
}

fn timer(table: &Table<'_>) -> Read<TimerEntry> {
    table.only(&["name", "every", "after", "at", "subscribers"])?;
    let name = string(table.require("name", "name = \"second\"")?, "name")?;
    let when = match ["every", "after", "at"].map(|key| table.get(key)) {
        [Some(every), None, None] => At(every.span().start, When::Every(microseconds(every, "every")?)),
        [None, Some(after), None] => At(after.span().start, When::After(microseconds(after, "after")?)),
        [None, None, Some(at)] => At(at.span().start, When::At(moment(at)?)),
        [None, None, None] => {
            let why = "[[timer]] needs `every`, `after` or `at`: add every = 1.0";
            return wrong(table.at, why);
        }
        _ => return wrong(table.at, "a timer has one of `every`, `after` and `at`: leave out the others"),
    };
    let subscribers = table.get("subscribers").map(|all| strings(all, "subscribers")).transpose()?;
    Ok(TimerEntry { name, when, subscribers: subscribers.unwrap_or_default() })
}

/// A number of seconds.
fn microseconds(value: &Value<'_>, key: &str) -> Read<u64> {
    let seconds: Option<f64> = match value.get_ref() {
        DeValue::Integer(integer) => {
            i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|of| of as f64)
        }
        DeValue::Float(float) => float.as_str().replace('_', "").parse().ok(),
        _ => None,
    };
    match seconds.filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds)) {
        Some(seconds) => Ok((seconds * 1e6).round() as u64),
        None => wrong(value.span().start, format!("`{key}` is a number of seconds, up to {SECONDS_MAX}")),
    }
}

/// A date and time, as the farm's clock shows it: microseconds since 1970.
fn moment(value: &Value<'_>) -> Read<u64> {
    let date = value.get_ref().as_datetime().map(ToString::to_string);
    let time = date.and_then(|date| date.parse::<jiff::Timestamp>().ok());
    let us = time.and_then(|time| u64::try_from(time.as_microsecond()).ok());
    us.ok_or_else(|| Wrong {
        at: value.span().start,
        why: "`at` is a date and time with its offset, without quotes, as 2026-12-01T06:00:00Z".to_owned(),
    })
}

fn service(table: &Table<'_>, base: &Path) -> Read<ServiceEntry> {
    table.only(&["name", "program"])?;
    let name = string(table.require("name", "name = \"switch\"")?, "name")?;
    let value = table.require("program", "program = [\"./read_switch.sh\"]")?;
    let mut words = strings(value, "program")?;
    if words.is_empty() || words.len() > WORDS_MAX || words[0].1.is_empty() {
        return wrong(
            value.span().start,
            "`program` is a program and its arguments, as [\"./read_switch.sh\"]",
        );
    }
    if let Some(At(at, _)) = words.iter().find(|At(_, word)| word.contains('\0')) {
        return wrong(*at, "a word of a command line has no byte 0");
    }
    let At(at, program) = &mut words[0];
    if program.contains('/') {
        *program = self::program(program, base).map_err(|why| Wrong { at: *at, why })?;
    }
    Ok(ServiceEntry { name, program: words.into_iter().map(|At(_, word)| word).collect() })
}

/// A program whose path is relative to this folder.
pub(crate) fn program(path: &str, base: &Path) -> Result<String, String> {
    // Without the `./` that it is written with.
    let path: PathBuf = base.join(path).components().collect();
    if path.is_file() {
        Ok(path.display().to_string())
    } else {
        Err(format!("there is no program {}", path.display()))
    }
}
