//! Filling a unit into a program's arguments: `{}`, `{index}` and the space's own names; or, where a job says so, by the
//! rules of GNU parallel. Every other brace stays as it is.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use starfarm_protocol::spec::{CommandWork, Per};

use crate::forms::{Replacement, push_quoted};
use crate::{Decomposer, ValueError};

/// The names that a template knows where one run computes all units of a task, beside `{index}`.
pub const TASK_NAMES: [&str; 5] = ["lo", "hi", "last", "count", "file"];

/// What templates are filled with: one unit, looked up once for all arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitText {
    /// What `{index}` stands for, in decimal; `{#}` is one more.
    pub index: u128,
    /// What `{}` stands for.
    pub value: Vec<u8>,
    /// What the space's own names stand for.
    pub fields: Vec<(String, Vec<u8>)>,
}

impl UnitText {
    /// Looks `unit` up in `space`.
    ///
    /// # Errors
    /// As [`Decomposer::value`].
    pub fn of(space: &dyn Decomposer, unit: u128) -> Result<Self, ValueError> {
        Ok(Self { index: space.number(unit), value: space.value(unit)?, fields: space.fields(unit)? })
    }

    /// Looks up the units from `lo` up to `hi` together, whose values lie in `file`.
    pub fn of_task(space: &dyn Decomposer, (lo, hi): (u128, u128), file: Vec<u8>) -> Self {
        let [first, end, last] =
            [space.bound(lo), space.bound_behind(hi - 1), space.bound(hi - 1)].map(String::into_bytes);
        let values = [first, end, last, (hi - lo).to_string().into_bytes(), file];
        // `{}` stands for one unit: here it stays what it is.
        let fields = TASK_NAMES.map(str::to_owned).into_iter().zip(values).collect();
        Self { index: space.number(lo), value: b"{}".to_vec(), fields }
    }

    /// Its values as GNU parallel sees them: one of each list.
    pub fn values(&self) -> Vec<&[u8]> {
        match &self.fields[..] {
            [] => vec![&self.value],
            fields => fields.iter().map(|(_, value)| value.as_slice()).collect(),
        }
    }
}

/// By which rules the texts of a job are read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    names: Vec<String>,
    parallel: bool,
}

impl Rules {
    /// Those of `work`, whose space has these names: see [`Decomposer::names`].
    pub fn of(work: &CommandWork, names: &[String]) -> Self {
        let names = match work.per {
            Per::Unit => names.to_vec(),
            Per::Task => TASK_NAMES.map(str::to_owned).into(),
        };
        Self { names, parallel: work.parallel }
    }

    /// The names that stand for something, beside `{}` and `{index}`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// A word of the program. By the rules of GNU parallel a shell reads it: what is filled in is quoted.
    pub fn word(&self, text: &str) -> Template {
        Template { is_quoted: self.parallel, ..self.text(text) }
    }

    /// Any other text.
    pub fn text(&self, text: &str) -> Template {
        match self.parallel {
            true => {
                let parts = parts(text, |inside| Replacement::parse(inside).map(Part::Replacement));
                Template { parts, is_quoted: false }
            }
            false => Template::parse(text, &self.names),
        }
    }
}

/// One argument, parsed once and filled for every unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    parts: Vec<Part>,
    /// What is filled in is quoted for a shell, each value by itself.
    is_quoted: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(String),
    Value,
    Index,
    Field(String),
    Replacement(Replacement),
}

impl Template {
    /// Parses `text`; `names` are the fields that are replaced beside `{}` and `{index}`, see
    /// [`Decomposer::names`]. There is no wrong template: what is not known stays as it is.
    pub fn parse(text: &str, names: &[String]) -> Self {
        let part = |inside: &str| match inside {
            "" => Some(Part::Value),
            "index" => Some(Part::Index),
            name => Some(Part::Field(names.iter().find(|known| *known == name)?.clone())),
        };
        Self { parts: parts(text, part), is_quoted: false }
    }

    /// Whether the text is the same for every unit.
    pub fn is_fixed(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// The text for `unit`. A name that the unit lacks stays as it is.
    pub fn fill(&self, unit: &UnitText) -> Vec<u8> {
        let mut filled = Vec::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => filled.extend_from_slice(text.as_bytes()),
                Part::Value => filled.extend_from_slice(&unit.value),
                Part::Index => filled.extend_from_slice(unit.index.to_string().as_bytes()),
                Part::Field(name) => match unit.fields.iter().find(|(field, _)| field == name) {
                    Some((_, value)) => filled.extend_from_slice(value),
                    None => filled.extend_from_slice(format!("{{{name}}}").as_bytes()),
                },
                Part::Replacement(replacement) => self.push(*replacement, unit, &mut filled),
            }
        }
        filled
    }

    fn push(&self, replacement: Replacement, unit: &UnitText, filled: &mut Vec<u8>) {
        let values = unit.values();
        let (which, form) = match replacement {
            Replacement::Sequence => {
                return filled.extend_from_slice(unit.index.saturating_add(1).to_string().as_bytes());
            }
            Replacement::All(form) => (0..values.len(), form),
            Replacement::One(place, form) => {
                let at = match usize::try_from(place) {
                    Ok(place) => place - 1,
                    Err(_) => values.len().wrapping_sub(place.unsigned_abs() as usize),
                };
                // As GNU parallel does it: a list that is not there has no value.
                (if at < values.len() { at..at + 1 } else { 0..0 }, form)
            }
        };
        for (number, value) in values[which].iter().enumerate() {
            if number > 0 {
                filled.push(b' ');
            }
            match self.is_quoted {
                true => push_quoted(filled, form.of(value)),
                false => filled.extend_from_slice(form.of(value)),
            }
        }
    }

    /// [`Template::fill`] as the operating system takes it. Bytes that are not UTF-8 are kept.
    pub fn fill_os(&self, unit: &UnitText) -> OsString {
        OsString::from_vec(self.fill(unit))
    }
}

/// The parts of `text`; `part` says what stands for what is between two braces, if anything does.
fn parts(text: &str, part: impl Fn(&str) -> Option<Part>) -> Vec<Part> {
    let mut parts = Vec::new();
    let (mut literal, mut rest) = (String::new(), text);
    while let Some(brace) = rest.find('{') {
        literal.push_str(&rest[..brace]);
        rest = &rest[brace..];
        let end = rest.find('}');
        if let Some((end, part)) = end.and_then(|end| Some((end, part(&rest[1..end])?))) {
            push_text(&mut parts, &mut literal);
            parts.push(part);
            rest = &rest[end + 1..];
        } else {
            literal.push('{');
            rest = &rest[1..];
        }
    }
    literal.push_str(rest);
    push_text(&mut parts, &mut literal);
    parts
}

fn push_text(parts: &mut Vec<Part>, literal: &mut String) {
    if !literal.is_empty() {
        parts.push(Part::Text(std::mem::take(literal)));
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::range::Frames;

    #[track_caller]
    fn filled(text: &str, expected: Expect) {
        let fields = vec![("lr".to_owned(), b"0.1".to_vec()), ("a b".to_owned(), b"{}".to_vec())];
        let unit = UnitText { index: 7, value: b"v{index}".to_vec(), fields };
        let template = Template::parse(text, &["lr".to_owned(), "a b".to_owned(), "gone".to_owned()]);
        expected.assert_eq(&String::from_utf8(template.fill(&unit)).unwrap());
    }

    #[test]
    fn only_known_names_are_replaced_and_only_once() {
        filled("{}", expect!["v{index}"]);
        filled("-{index}-{}-", expect!["-7-v{index}-"]);
        filled("--lr={lr} {lr}{lr}", expect!["--lr=0.1 0.10.1"]);
        filled("{a b}", expect!["{}"]);
        filled("no braces", expect!["no braces"]);
        filled("", expect![""]);
        filled("{unknown} {LR} { lr } {gone}", expect!["{unknown} {LR} { lr } {gone}"]);
        filled("{{}} {a{lr}} }{ {", expect!["{v{index}} {a0.1} }{ {"]);
        filled("awk {print $1} é{}é", expect!["awk {print $1} év{index}é"]);
    }

    #[test]
    fn by_the_rules_of_gnu_parallel_a_value_has_forms() {
        let rules = Rules::of(&CommandWork { parallel: true, ..CommandWork::default() }, &[]);
        let one = UnitText { index: 6, value: b"a b/c.d".to_vec(), fields: vec![] };
        let field = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        let two = UnitText { fields: vec![field("1", "a b.c"), field("2", "d/e")], ..one.clone() };
        let text = |template: Template, unit| String::from_utf8(template.fill(unit)).unwrap();
        for (line, of_one, of_two) in [
            ("{}", r"a\ b/c.d", r"a\ b.c d/e"),
            ("{.} {/} {//} {/.}", r"a\ b/c c.d a\ b c", r"a\ b d/e a\ b.c e . d a\ b e"),
            ("{#} {2} {2/} {1} {-1}", r"7   a\ b/c.d a\ b/c.d", r"7 d/e e a\ b.c d/e"),
            ("{index} ${HOME} {a} {%}", "{index} ${HOME} {a} {%}", "{index} ${HOME} {a} {%}"),
        ] {
            assert_eq!(text(rules.word(line), &one), of_one, "{line}");
            assert_eq!(text(rules.word(line), &two), of_two, "{line}");
        }
        assert_eq!(text(rules.text("{}.{#}"), &two), "a b.c d/e.7", "no shell reads it");
        assert!(rules.word("echo ${HOME}").is_fixed() && !rules.word("{#}").is_fixed());
    }

    #[test]
    fn a_fixed_text_is_known_as_such() {
        for (text, fixed) in [("a {b}", true), ("", true), ("{}", false), ("x{index}", false)] {
            assert_eq!(Template::parse(text, &[]).is_fixed(), fixed, "{text}");
        }
    }

    #[test]
    fn a_frame_fills_its_clock() {
        let frames = Frames::new(1, 3).unwrap();
        let template = Template::parse("{index} {} {clock}", &frames.names());
        let unit = UnitText::of(&frames, 1).unwrap();
        assert_eq!(template.fill_os(&unit), "1 2 0.5");
        assert_eq!(UnitText::of(&frames, 3), Err(ValueError::OutOfSpace));
    }

    #[test]
    fn bytes_that_are_not_utf8_are_kept() {
        let unit = UnitText { index: 0, value: vec![0xff, b'a'], fields: vec![] };
        assert_eq!(Template::parse("<{}>", &[]).fill(&unit), b"<\xffa>");
    }
}
