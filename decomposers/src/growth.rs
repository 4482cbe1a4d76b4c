//! What a scheduler and a user's decomposer say to each other, as lines of JSON: see `docs/own-decomposer.md`. A batch counts
//! as a whole, when its closing line has come. Processes, pipes and time limits live in `scheduler`, the values of units in
//! [`crate::program`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Units that are asked for at one time, at most.
pub const BATCH_UNITS_MAX: u32 = 65_536;
/// Bytes of a line, its end left out: of a unit as of a state.
pub const LINE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the values of a batch.
const BATCH_BYTES_MAX: usize = 64 << 20;
/// A content that has so many bytes gets no further unit: a worker fetches whole ones.
const CHUNK_BYTES: usize = 256 * 1024;
/// The state of a program that has said none.
pub const NO_STATE: &str = "null";
/// What costs may be: others are taken for the nearest of these.
const COSTS: std::ops::RangeInclusive<f64> = 1e-6..=1e6;
/// Bytes of a line that are shown to a person.
const SHOWN_BYTES: usize = 120;

#[derive(Serialize)]
struct Request<'a> {
    next: u32,
    state: &'a RawValue,
    units_so_far: u128,
}

/// The line that asks for up to `next` units, behind `units_so_far` others. `state` is what the program said last.
///
/// # Errors
/// The state is no JSON: no program said that.
pub fn request(next: u32, state: &str, units_so_far: u128) -> Result<Vec<u8>, String> {
    let state = serde_json::from_str(state).map_err(|e| format!("the program's state is no JSON: {e}"))?;
    let request = Request { next, state, units_so_far };
    let mut line = serde_json::to_vec(&request).map_err(|e| e.to_string())?;
    line.push(b'\n');
    Ok(line)
}

/// Units side by side, and the content that has their values: a line each.
#[derive(Clone, PartialEq, Debug)]
pub struct Values {
    /// The bytes of the content.
    pub content: Vec<u8>,
    /// Units in it.
    pub units: u64,
    /// What one of them costs, in the mean.
    pub cost: f64,
}

/// A whole batch.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// Its units, in order.
    pub chunks: Vec<Values>,
    /// What the program wants to hear when it is asked again, as JSON.
    pub state: String,
    /// There are no more units.
    pub end: bool,
}

impl Batch {
    /// How many units it has.
    pub fn units(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.units).sum()
    }
}

/// A batch that comes in.
#[derive(Debug)]
pub struct Answer<'a> {
    names: &'a [String],
    next: u32,
    units: u32,
    lines: u64,
    bytes: usize,
    /// The start of a line whose end has not come.
    rest: Vec<u8>,
    chunks: Vec<Values>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow, default, deserialize_with = "there")]
    unit: Option<&'a RawValue>,
    #[serde(default)]
    cost: Option<f64>,
    #[serde(borrow, default, deserialize_with = "there")]
    state: Option<&'a RawValue>,
    #[serde(default)]
    end: Option<bool>,
}

/// A value that is there, `null` too.
fn there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

impl<'a> Answer<'a> {
    /// Nothing has come yet of up to `next` units, whose values have these names.
    pub fn new(names: &'a [String], next: u32) -> Self {
        Self { names, next, units: 0, lines: 0, bytes: 0, rest: Vec::new(), chunks: Vec::new() }
    }

    /// Takes what the program wrote; the batch once it is whole.
    ///
    /// # Errors
    /// What is wrong with which line, in words.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<Batch>, String> {
        let mut from = 0;
        while let Some(length) = bytes[from..].iter().position(|byte| *byte == b'\n') {
            let end = from + length;
            let closed = if self.rest.is_empty() {
                self.line(&bytes[from..end])?
            } else {
                let mut line = std::mem::take(&mut self.rest);
                line.extend_from_slice(&bytes[from..end]);
                self.line(&line)?
            };
            from = end + 1;
            match closed {
                Some(batch) if bytes[from..].iter().all(u8::is_ascii_whitespace) => return Ok(Some(batch)),
                Some(_) => {
                    return Err(format!(
                        "it went on behind the end of a batch, with {}: it is asked again first",
                        shown(&bytes[from..])
                    ));
                }
                None => {}
            }
        }
        self.rest.extend_from_slice(&bytes[from..]);
        if self.rest.len() > LINE_BYTES_MAX {
            return Err(
                self.wrong(&self.rest, "is longer than 64 KiB: write long values to a file, and name that")
            );
        }
        Ok(None)
    }

    /// Lines that have come.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    fn wrong(&self, line: &[u8], why: impl std::fmt::Display) -> String {
        format!("line {} of its answer {why}: {}", self.lines.max(1), shown(line))
    }

    fn line(&mut self, line: &[u8]) -> Result<Option<Batch>, String> {
        self.lines += 1;
        if line.len() > LINE_BYTES_MAX {
            return Err(self.wrong(line, "is longer than 64 KiB: write long values to a file, and name that"));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let read: Line<'_> =
            serde_json::from_slice(line).map_err(|e| self.wrong(line, format!("cannot be read ({e})")))?;
        let end = read.end == Some(true);
        match (read.unit, read.state) {
            (Some(unit), None) if read.end.is_none() => {
                let values = values(self.names, unit).map_err(|why| self.wrong(line, why))?;
                self.add(&values, read.cost.unwrap_or(1.0)).map_err(|why| self.wrong(line, why))?;
                Ok(None)
            }
            (None, state) if (state.is_some() || end) && read.cost.is_none() => Ok(Some(Batch {
                chunks: std::mem::take(&mut self.chunks),
                state: state.map_or(NO_STATE, RawValue::get).to_owned(),
                end,
            })),
            _ => Err(self.wrong(line, "is neither {\"unit\": ...} nor {\"state\": ...} nor {\"end\": true}")),
        }
    }

    fn add(&mut self, values: &[Cow<'_, str>], cost: f64) -> Result<(), String> {
        if self.units == self.next {
            return Err(format!("is one unit more than the {} that it was asked for", self.next));
        }
        self.units += 1;
        if self.chunks.last().is_none_or(|last| last.content.len() >= CHUNK_BYTES) {
            self.chunks.push(Values { content: Vec::new(), units: 0, cost: 0.0 });
        }
        let chunk = self.chunks.last_mut().expect("there is one by now");
        let before = chunk.content.len();
        serde_json::to_writer(&mut chunk.content, values).map_err(|e| e.to_string())?;
        chunk.content.push(b'\n');
        chunk.units += 1;
        chunk.cost += (cost.clamp(*COSTS.start(), *COSTS.end()) - chunk.cost) / chunk.units as f64;
        self.bytes += chunk.content.len() - before;
        match self.bytes <= BATCH_BYTES_MAX {
            true => Ok(()),
            false => {
                Err("takes the batch over 64 MiB: name fewer units at a time, it may be less than `next`"
                    .into())
            }
        }
    }
}

/// The values of a unit, in the order of their names.
fn values<'a>(names: &[String], unit: &'a RawValue) -> Result<Vec<Cow<'a, str>>, String> {
    let text = unit.get();
    let listed: Vec<&RawValue> = match text.as_bytes().first() {
        Some(b'[') => serde_json::from_str(text).map_err(|e| e.to_string())?,
        Some(b'{') => {
            let mut named: BTreeMap<Cow<'a, str>, &RawValue> =
                serde_json::from_str(text).map_err(|e| e.to_string())?;
            let listed = names
                .iter()
                .map(|name| named.remove(name.as_str()).ok_or_else(|| format!("lacks the value `{name}`")));
            let listed = listed.collect::<Result<_, _>>()?;
            if let Some((name, _)) = named.first_key_value() {
                return Err(format!("has a value `{name}`, and `names` in [space] does not have it"));
            }
            listed
        }
        _ => vec![unit],
    };
    let expected = names.len().max(1);
    if listed.len() != expected {
        let s = if expected == 1 { "" } else { "s" };
        return Err(format!("has {} values, and a unit of this job has {expected} value{s}", listed.len()));
    }
    listed.into_iter().map(value).collect()
}

fn value(raw: &RawValue) -> Result<Cow<'_, str>, String> {
    let text = raw.get();
    let value = match text.as_bytes().first() {
        Some(b'"') => match text[1..text.len() - 1].contains('\\') {
            false => Cow::Borrowed(&text[1..text.len() - 1]),
            true => Cow::Owned(serde_json::from_str(text).map_err(|e| e.to_string())?),
        },
        Some(b'[' | b'{' | b'n') | None => {
            return Err("has a value that is no text, number, true or false".to_owned());
        }
        Some(_) => Cow::Borrowed(text),
    };
    match value.contains('\0') {
        true => Err("has a value with a NUL byte, which no program can be given".to_owned()),
        false => Ok(value),
    }
}

/// The start of a line, for a person.
fn shown(line: &[u8]) -> String {
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let text = String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES)]);
    let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let more = if line.len() > SHOWN_BYTES { "..." } else { "" };
    format!("`{text}{more}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// What comes of an answer to a question for ten units.
    fn answer(of: &[&str], text: &str) -> Result<Option<Batch>, String> {
        Answer::new(&names(of), 10).take(text.as_bytes())
    }

    fn lines(batch: &Batch) -> String {
        batch.chunks.iter().map(|chunk| String::from_utf8(chunk.content.clone()).unwrap()).collect()
    }

    #[test]
    fn a_program_is_asked_with_what_it_said_last() {
        let asked = request(1_000, "{\"at\":[1,2.50]}", 7).unwrap();
        let expected = "{\"next\":1000,\"state\":{\"at\":[1,2.50]},\"units_so_far\":7}\n";
        assert_eq!(String::from_utf8(asked).unwrap(), expected);
        assert!(request(1, "{", 0).is_err());
    }

    #[test]
    fn a_batch_is_there_with_its_closing_line_and_not_before() {
        let text = "{\"unit\":\"a b\"}\n\n{\"unit\":0.10,\"cost\":3}\n{\"unit\":[\"\\u00e9\\n\"]}\n{\"state\":{\"at\": 3}}\n";
        for split in 0..text.len() {
            let none = names(&[]);
            let mut answer = Answer::new(&none, 10);
            let (first, second) = text.as_bytes().split_at(split);
            assert_eq!(answer.take(first), Ok(None), "{split}");
            let batch = answer.take(second).unwrap().unwrap();
            assert_eq!(lines(&batch), "[\"a b\"]\n[\"0.10\"]\n[\"é\\n\"]\n");
            assert_eq!((batch.units(), &*batch.state, batch.end), (3, "{\"at\": 3}", false));
            assert!((batch.chunks[0].cost - 5.0 / 3.0).abs() < 1e-9);
        }
    }

    #[test]
    fn the_end_comes_with_units_or_without() {
        let end = answer(&[], "{\"end\":true}\n").unwrap().unwrap();
        assert_eq!((end.units(), &*end.state, end.end), (0, NO_STATE, true));
        let end = answer(&[], "{\"unit\":1}\n{\"state\":4,\"end\":true}\n").unwrap().unwrap();
        assert_eq!((end.units(), &*end.state, end.end), (1, "4", true));
        let null = answer(&[], "{\"state\":null}\n").unwrap().unwrap();
        assert_eq!((&*null.state, null.end), ("null", false));
    }

    #[test]
    fn values_have_names_in_any_order() {
        let batch =
            answer(&["b", "a"], "{\"unit\":{\"a\":1,\"b\":true}}\n{\"unit\":[2,\"x\"]}\n{\"end\":true}\n");
        assert_eq!(lines(&batch.unwrap().unwrap()), "[\"true\",\"1\"]\n[\"2\",\"x\"]\n");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (of, text, why) in [
            (&[][..], "{\"unit\":1}\nhello\n", "line 2 of its answer cannot be read"),
            (&[], "{\"unit\":1,\"state\":2}\n", "line 1 of its answer is neither"),
            (&[], "{\"cost\":1}\n", "is neither"),
            (&[], "{\"end\":false}\n", "is neither"),
            (&[], "{\"unit\":1,\"const\":2}\n", "unknown field `const`"),
            (&[], "{\"unit\":null}\n", "no text, number, true or false"),
            (&[], "{\"unit\":[[1]]}\n", "no text, number, true or false"),
            (&[], "{\"unit\":[1,2]}\n", "has 2 values, and a unit of this job has 1 value:"),
            (&[], "{\"unit\":{\"a\":1}}\n", "has a value `a`, and `names` in [space] does not have it"),
            (&["a"], "{\"unit\":{}}\n", "lacks the value `a`"),
            (&[], "{\"unit\":\"\\u0000\"}\n", "a NUL byte"),
            (&[], "{\"unit\":1,\"cost\":\"much\"}\n", "cannot be read"),
            (&[], "{\"end\":true}\n{\"unit\":1}\n", "went on behind the end of a batch, with `{\"unit\":1}`"),
        ] {
            let told = answer(of, text).unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
        }
        let eleven = "{\"unit\":1}\n".repeat(11);
        assert!(
            answer(&[], &eleven)
                .unwrap_err()
                .starts_with("line 11 of its answer is one unit more than the 10")
        );
    }

    #[test]
    fn a_line_without_end_is_not_read_for_ever() {
        let none = names(&[]);
        let mut endless = Answer::new(&none, 10);
        assert_eq!(endless.take(&[b'x'; LINE_BYTES_MAX]), Ok(None));
        assert!(endless.take(b"x").unwrap_err().contains("is longer than 64 KiB"));
        let long = format!("{{\"unit\":\"{}\"}}\n", "x".repeat(LINE_BYTES_MAX));
        assert!(answer(&[], &long).unwrap_err().contains("is longer than 64 KiB"));
    }

    #[test]
    fn a_batch_of_too_many_bytes_is_refused_and_a_large_one_has_many_contents() {
        let none = names(&[]);
        let mut large = Answer::new(&none, BATCH_UNITS_MAX);
        let line = format!("{{\"unit\":\"{}\"}}\n", "x".repeat(60_000));
        let mut taken = 0;
        let why = loop {
            match large.take(line.as_bytes()) {
                Ok(_) => taken += 1,
                Err(why) => break why,
            }
        };
        assert!(why.contains("over 64 MiB") && taken == (64 << 20) / 60_005, "{taken}: {why}");
        let units: u64 = large.chunks.iter().map(|chunk| chunk.units).sum();
        assert!(large.chunks.len() > 200 && units == taken + 1);
    }

    #[test]
    fn costs_that_cannot_be_are_the_nearest_that_can() {
        for (cost, taken) in [("-1", 1e-6), ("0", 1e-6), ("1e300", 1e6), ("2", 2.0)] {
            let batch = answer(&[], &format!("{{\"unit\":1,\"cost\":{cost}}}\n{{\"end\":true}}\n"));
            assert_eq!(batch.unwrap().unwrap().chunks[0].cost, taken);
        }
    }
}
