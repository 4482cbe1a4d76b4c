//! Typed access to a TOML table in which every key and value knows its place, so that an error can
//! point at it. No key of a job file is named here.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::JobFileError;

/// A file's name and text, to turn byte offsets into places.
#[derive(Clone, Copy)]
pub(super) struct Source<'t> {
    /// As the user named it.
    pub(super) file: &'t str,
    pub(super) text: &'t str,
}

impl Source<'_> {
    /// An error at byte `at` of the text.
    pub(super) fn error(&self, at: usize, message: impl Into<String>) -> JobFileError {
        // Past the end of a text, or within a character, is its end.
        let before = self.text.get(..at).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let place = Some((line, before[line_start..].chars().count() + 1));
        JobFileError { file: self.file.to_owned(), place, message: message.into() }
    }
}

/// A value of `kind` or `executor`, and the keys that go with it.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// Keys that no other kind has, or that several have each in its own sense.
    pub(super) keys: &'static [&'static str],
}

/// A table of a job file.
pub(super) struct Section<'t> {
    source: Source<'t>,
    /// Name in brackets; empty for the file itself.
    name: String,
    table: &'t DeTable<'t>,
    at: usize,
}

/// A value of a job file.
pub(super) struct Item<'t> {
    source: Source<'t>,
    /// The key, and for an element of an array which one it is.
    pub(super) name: String,
    value: &'t DeValue<'t>,
    span: Range<usize>,
}

impl<'t> Section<'t> {
    /// The file's outermost table.
    pub(super) fn root(source: Source<'t>, table: &'t DeTable<'t>) -> Self {
        Self { source, name: String::new(), table, at: 0 }
    }

    /// The table `name`, which must be there; `hint` says what belongs into it.
    pub(super) fn section(&self, name: &str, hint: &str) -> Result<Section<'t>, JobFileError> {
        match self.get(name) {
            Some(item) => item.table(),
            None => Err(self.error(format!("the section [{name}] is missing: add it and say {hint}"))),
        }
    }

    /// The value of `key`, if it is there.
    pub(super) fn get(&self, key: &str) -> Option<Item<'t>> {
        self.items().find(|item| item.name == key)
    }

    /// The value of `key`, which must be there; `hint` gives an example.
    pub(super) fn require(&self, key: &str, hint: &str) -> Result<Item<'t>, JobFileError> {
        self.get(key).ok_or_else(|| self.error(format!("{} needs `{key}`: add {hint}", self.title())))
    }

    /// What `of` makes of the value of `key`, if it is there.
    pub(super) fn read<T>(
        &self,
        key: &str,
        of: impl FnOnce(&Item<'t>) -> Result<T, JobFileError>,
    ) -> Result<Option<T>, JobFileError> {
        self.get(key).as_ref().map(of).transpose()
    }

    /// The value of one of two keys, of which `what` has exactly one; `hint` gives an example.
    pub(super) fn either(
        &self,
        what: &str,
        [one, other]: [&str; 2],
        hint: &str,
    ) -> Result<Item<'t>, JobFileError> {
        match (self.get(one), self.get(other)) {
            (Some(item), None) | (None, Some(item)) => Ok(item),
            (Some(_), Some(item)) => {
                Err(item.error(format!("{what} has either `{one}` or `{other}`, not both: remove one")))
            }
            (None, None) => Err(self.error(format!("{what} needs `{one}` or `{other}`: add {hint}"))),
        }
    }

    /// All values, in the file's order.
    pub(super) fn items(&self) -> impl Iterator<Item = Item<'t>> {
        let (source, table) = (self.source, self.table);
        table.iter().map(move |(key, value)| item(source, key.get_ref().to_string(), value))
    }

    /// An error of the section as a whole.
    pub(super) fn error(&self, message: impl Into<String>) -> JobFileError {
        self.source.error(self.at, message)
    }

    /// Refuses keys other than `known`.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), JobFileError> {
        match self.table.keys().find(|key| !known.contains(&key.get_ref().as_ref())) {
            Some(key) => Err(self.key_error(
                key,
                format!(
                    "unknown key `{}` in {}: remove it, or use one of {}",
                    key.get_ref(),
                    self.title(),
                    known.join(", ")
                ),
            )),
            None => Ok(()),
        }
    }

    /// Reads `selector`, one of `kinds` by name, and refuses the keys that do not go with it. Returns which one it is.
    pub(super) fn select(
        &self,
        selector: &'static str,
        kinds: &[Kind],
        common: &[&'static str],
    ) -> Result<usize, JobFileError> {
        let names = kinds.iter().map(|kind| format!("\"{}\"", kind.name)).collect::<Vec<_>>().join(", ");
        let item = self.require(selector, &format!("{selector} = one of {names}"))?;
        let chosen = item.string()?;
        let at = kinds
            .iter()
            .position(|kind| kind.name == chosen)
            .ok_or_else(|| item.error(format!("{selector} \"{chosen}\" is not known: use one of {names}")))?;
        let known = [&[selector], kinds[at].keys, common].concat();
        for key in self.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let name = key.get_ref().as_ref();
            if let Some(other) = kinds.iter().find(|other| other.keys.contains(&name)) {
                let message = format!(
                    "`{name}` belongs to {selector} = \"{}\", but this one is \"{chosen}\": remove it, or use \
                     one of {}",
                    other.name,
                    known.join(", ")
                );
                return Err(self.key_error(key, message));
            }
        }
        self.only(&known)?;
        Ok(at)
    }

    fn key_error<K>(&self, key: &Spanned<K>, message: String) -> JobFileError {
        self.source.error(key.span().start, message)
    }

    fn title(&self) -> String {
        if self.name.is_empty() { "the job file".to_owned() } else { format!("[{}]", self.name) }
    }
}

fn item<'t>(source: Source<'t>, name: String, value: &'t Spanned<DeValue<'t>>) -> Item<'t> {
    Item { source, name, value: value.get_ref(), span: value.span() }
}

impl<'t> Item<'t> {
    pub(super) fn error(&self, message: impl Into<String>) -> JobFileError {
        self.source.error(self.span.start, message)
    }

    /// An error at byte `offset` of a string: there if the string is written without escapes, else at its
    /// beginning.
    pub(super) fn error_inside(&self, offset: usize, message: impl Into<String>) -> JobFileError {
        let written = self.source.text.get(self.span.clone()).unwrap_or_default();
        let plain = written.len() >= 2 && self.value.as_str() == written.get(1..written.len() - 1);
        self.source.error(self.span.start + if plain { 1 + offset } else { 0 }, message)
    }

    fn wrong_type(&self, wanted: &str) -> JobFileError {
        let found = self.value.type_str();
        self.error(format!("`{}` must be {wanted}, this is {} {found}: change it", self.name, article(found)))
    }

    pub(super) fn string(&self) -> Result<&'t str, JobFileError> {
        self.value.as_str().ok_or_else(|| self.wrong_type("a string in quotes"))
    }

    /// An integer of 64 bits.
    pub(super) fn integer(&self) -> Result<i64, JobFileError> {
        self.integer_from("-2^63 to 2^63 - 1")
    }

    /// An integer of 64 bits; a longer one is told the `bounds`.
    fn integer_from(&self, bounds: &str) -> Result<i64, JobFileError> {
        let integer = self.value.as_integer().ok_or_else(|| self.wrong_type("an integer"))?;
        i64::from_str_radix(integer.as_str(), integer.radix())
            .map_err(|_| self.error(format!("`{}` does not fit: use an integer from {bounds}", self.name)))
    }

    pub(super) fn integer_within(&self, min: u64, max: u64) -> Result<u64, JobFileError> {
        let integer = self.integer_from(&format!("{min} to {max}"))?;
        u64::try_from(integer).ok().filter(|integer| (min..=max).contains(integer)).ok_or_else(|| {
            self.error(format!("`{}` is {integer}: use an integer from {min} to {max}", self.name))
        })
    }

    /// A number of seconds, an integer or a float: above 0, at most `max`.
    pub(super) fn seconds(&self, max: f64) -> Result<f64, JobFileError> {
        let seconds = self.number("a number of seconds")?;
        if seconds > 0.0 && seconds <= max {
            return Ok(seconds);
        }
        Err(self.error(format!("`{}` is {seconds}: use a number of seconds above 0, up to {max}", self.name)))
    }

    /// A number, an integer or a float; `what` it is a number of.
    pub(super) fn number(&self, what: &str) -> Result<f64, JobFileError> {
        match self.value {
            DeValue::Integer(_) => Ok(self.integer()? as f64),
            DeValue::Float(float) => Ok(float.as_str().parse().unwrap_or(f64::NAN)),
            _ => Err(self.wrong_type(what)),
        }
    }

    pub(super) fn boolean(&self) -> Result<bool, JobFileError> {
        self.value.as_bool().ok_or_else(|| self.wrong_type("true or false"))
    }

    /// A string as it is; a number or a boolean as the user wrote it, so that `0.10` keeps its zero.
    pub(super) fn scalar(&self) -> Result<String, JobFileError> {
        match self.value {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Boolean(boolean) => Ok(boolean.to_string()),
            DeValue::Float(float) => Ok(float.as_str().to_owned()),
            DeValue::Integer(_) => Ok(self.integer()?.to_string()),
            _ => Err(self.wrong_type("a string, a number or a boolean")),
        }
    }

    /// The elements of an array. `wanted` says of what.
    pub(super) fn array(&self, wanted: &str) -> Result<Vec<Item<'t>>, JobFileError> {
        let array = self.value.as_array().ok_or_else(|| self.wrong_type(wanted))?;
        let element = |(i, value)| item(self.source, format!("{}[{i}]", self.name), value);
        Ok(array.iter().enumerate().map(element).collect())
    }

    pub(super) fn table(&self) -> Result<Section<'t>, JobFileError> {
        let table = self.value.as_table().ok_or_else(|| self.wrong_type("a table"))?;
        Ok(Section { source: self.source, name: self.name.clone(), table, at: self.span.start })
    }
}

fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'i']) { "an" } else { "a" }
}
