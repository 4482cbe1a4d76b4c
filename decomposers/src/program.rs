//! Units that a user's program names while the job runs. Their values lie in contents of lines, each line the values of a
//! unit as a JSON array of texts. Which content has a unit is asked for when the unit is needed. What the program says, and
//! how contents are made of that, is in [`crate::growth`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use starfarm_protocol::bulk::Located;
use starfarm_protocol::spec::OwnSpace;

use crate::decomposer::{Chunks, Decomposer};
use crate::error::ValueError;
use crate::lines::Lines;
use crate::recent::Recent;

/// Contents whose places are remembered; a worker seldom has tasks of more than a few.
const LOCATED_MAX: usize = 1_024;

/// The units of one job: see [`OwnSpace`].
pub struct Program {
    names: Vec<String>,
    chunks: Arc<dyn Chunks>,
    /// Contents by their first units.
    located: Mutex<BTreeMap<u128, Located>>,
    recent: Recent<Located>,
}

impl Program {
    /// The units of `space`, of which nothing is known yet. Contents are found in `chunks`.
    ///
    /// # Errors
    /// No program, or a name that no value can have.
    pub fn new(space: &OwnSpace, chunks: Arc<dyn Chunks>) -> Result<Self, String> {
        if space.program.is_empty() {
            return Err("[space] names no program: give one, e.g. program = [\"./cases.py\"]".into());
        }
        for (at, name) in space.names.iter().enumerate() {
            if name.is_empty() || name == "index" || name.contains(['{', '}']) {
                return Err(format!(
                    "a value cannot be named `{name}`: the name must not be empty, `index`, or contain a brace"
                ));
            }
            if space.names[..at].contains(name) {
                return Err(format!("two values are named `{name}`: rename one"));
            }
        }
        let (located, recent) = (Mutex::default(), Recent::new());
        Ok(Self { names: space.names.clone(), chunks, located, recent })
    }

    /// The unit's values, one of each name, or the only one.
    fn values(&self, unit: u128) -> Result<Vec<String>, ValueError> {
        let (located, lines) = self.lines(unit)?;
        let values: Option<Vec<String>> =
            serde_json::from_slice(lines.line((unit - located.first) as usize)).ok();
        let expected = self.names.len().max(1);
        values.filter(|values| values.len() == expected).ok_or(ValueError::ChunkMalformed(located.hash))
    }

    fn lines(&self, unit: u128) -> Result<(Located, Arc<Lines>), ValueError> {
        let look_up = || {
            let all = self.located.lock().unwrap_or_else(PoisonError::into_inner);
            let near = all.range(..=unit).next_back().map(|(_, located)| *located);
            let located = near.filter(|located| located.has(unit)).ok_or(ValueError::NotLocated(unit))?;
            let content = self.chunks.chunk(&located.hash).ok_or(ValueError::ChunkMissing(located.hash))?;
            let lines = Lines::new(content);
            let are_right = lines.count() == u128::from(located.units);
            if are_right { Ok((located, lines)) } else { Err(ValueError::ChunkMalformed(located.hash)) }
        };
        self.recent.get(|located| located.has(unit), look_up)
    }
}

impl Decomposer for Program {
    /// As many as there can be: only the scheduler knows how many there are.
    fn units(&self) -> u128 {
        u128::MAX
    }

    /// The values, joined by one space.
    fn value(&self, unit: u128) -> Result<Vec<u8>, ValueError> {
        self.values(unit).map(|values| values.join(" ").into_bytes())
    }

    fn fields(&self, unit: u128) -> Result<Vec<(String, Vec<u8>)>, ValueError> {
        if self.names.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.names.iter().cloned().zip(self.values(unit)?.into_iter().map(String::into_bytes)).collect())
    }

    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    fn learn(&self, located: Located) {
        let mut all = self.located.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= LOCATED_MAX {
            all.clear();
        }
        all.insert(located.first, located);
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::ContentHash;

    use super::*;

    struct One(Vec<u8>);

    impl Chunks for One {
        fn chunk(&self, hash: &ContentHash) -> Option<Arc<[u8]>> {
            (ContentHash::of(&self.0) == *hash).then(|| self.0.as_slice().into())
        }
    }

    fn space(names: &[&str]) -> OwnSpace {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        OwnSpace { program: vec!["./cases".into()], names, cwd: None, timeout_ms: 1 }
    }

    fn opened(names: &[&str], content: &str) -> (Program, Located) {
        let located = Located { hash: ContentHash::of(content.as_bytes()), first: 100, units: 2 };
        (Program::new(&space(names), Arc::new(One(content.into()))).unwrap(), located)
    }

    #[test]
    fn a_unit_has_its_values_once_its_content_is_known() {
        let (program, located) = opened(&["a", "b"], "[\"1\",\"x y\"]\n[\"2\",\"\"]\n");
        assert_eq!(program.value(101), Err(ValueError::NotLocated(101)));
        program.learn(located);
        assert_eq!(program.value(100).unwrap(), b"1 x y");
        assert_eq!(
            program.fields(101).unwrap(),
            [("a".to_owned(), b"2".to_vec()), ("b".to_owned(), b"".to_vec())]
        );
        for beside in [99, 102] {
            assert_eq!(program.value(beside), Err(ValueError::NotLocated(beside)));
        }
        let elsewhere = Located { hash: ContentHash([9; 32]), first: 102, units: 1 };
        program.learn(elsewhere);
        assert_eq!(program.value(102), Err(ValueError::ChunkMissing(elsewhere.hash)));
    }

    #[test]
    fn a_content_that_does_not_hold_what_it_should_is_malformed() {
        for content in
            ["[\"1\"]\n", "[\"1\"]\n[\"2\"]\n[\"3\"]\n", "[1]\n[2]\n", "[\"1\",\"2\"]\n[]\n", "1\n2\n"]
        {
            let (program, located) = opened(&[], content);
            program.learn(located);
            assert_eq!(program.value(100), Err(ValueError::ChunkMalformed(located.hash)), "{content}");
        }
    }

    #[test]
    fn names_that_no_value_can_have_are_refused() {
        for names in [&["index"][..], &[""], &["a{"], &["a", "b", "a"]] {
            assert!(Program::new(&space(names), Arc::new(One(vec![]))).is_err(), "{names:?}");
        }
        let none = OwnSpace { program: vec![], ..space(&[]) };
        assert!(Program::new(&none, Arc::new(One(vec![]))).err().unwrap().contains("names no program"));
    }
}
