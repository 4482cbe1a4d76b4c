//! What a command said, and with which exit code it ended.

use std::collections::BTreeMap;

use serde_json::Value;

/// A command that has ended.
#[derive(Clone, Debug)]
pub struct Reply {
    line: String,
    /// Exit code; a signal counts as 128 and its number.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Reply {
    pub(crate) fn new(line: String, code: i32, stdout: &[u8], stderr: &[u8]) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Self { line, code, stdout: text(stdout), stderr: text(stderr) }
    }

    /// Requires an exit code.
    ///
    /// # Panics
    /// It is another one.
    #[track_caller]
    pub fn exits(&self, code: i32) -> &Self {
        assert_eq!(
            self.code, code,
            "{} ended with {} instead of {code}\nstdout: {}\nstderr: {}",
            self.line, self.code, self.stdout, self.stderr
        );
        self
    }

    /// Requires that standard error has each of these words, whatever their case.
    ///
    /// # Panics
    /// One is missing.
    #[track_caller]
    pub fn says(&self, words: &[&str]) -> &Self {
        let said = self.stderr.to_lowercase();
        for word in words {
            assert!(
                said.contains(&word.to_lowercase()),
                "{}: `{word}` is not in: {}",
                self.line,
                self.stderr
            );
        }
        self
    }

    /// Standard output as one JSON document.
    ///
    /// # Panics
    /// It is none.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!(
                "{} printed no JSON document: {error}\nstdout: {}\nstderr: {}",
                self.line, self.stdout, self.stderr
            )
        })
    }
}

/// The units of a list of results, in its order.
///
/// # Panics
/// It is no list, or an element has no unit that is a decimal string.
#[track_caller]
pub fn units(list: &Value) -> Vec<u128> {
    let unit = |item: &Value| item["unit"].as_str().and_then(|unit| unit.parse().ok());
    let list = list.as_array().unwrap_or_else(|| panic!("no list: {list}"));
    list.iter().map(|item| unit(item).unwrap_or_else(|| panic!("no unit: {item}"))).collect()
}

/// What each unit wrote to standard output, from a job's results.
///
/// # Panics
/// A unit is there twice, or an output is not as it should be.
#[track_caller]
pub fn stdouts(results: &Value) -> BTreeMap<u128, String> {
    let outputs = &results["outputs"];
    let texts = outputs.as_array().into_iter().flatten().map(|output| output["stdout"]["text"].as_str());
    let texts = texts.map(|text| text.unwrap_or_else(|| panic!("an output without text: {outputs}")));
    let units = units(outputs);
    let count = units.len();
    let found: BTreeMap<u128, String> = units.into_iter().zip(texts.map(str::to_owned)).collect();
    assert_eq!(found.len(), count, "a unit is counted twice");
    found
}

/// Requires that a job's result counts so many units, each as done, with one output for each.
///
/// # Panics
/// It does not.
#[track_caller]
pub fn each_done_once(job: &Value, results: &Value, count: u128) {
    for (key, value) in [("units_total", count), ("units_done", count), ("units_failed", 0)] {
        assert_eq!(job[key], value.to_string(), "{key} of {job}");
    }
    assert!(stdouts(results).keys().copied().eq(0..count), "an output for each unit, and no more");
}
