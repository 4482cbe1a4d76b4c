//! Filling a unit into a program's arguments: `{}`, `{index}` and the space's own names. Every other
//! brace stays as it is, and no shell ever sees the text.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::{Decomposer, ValueError};

/// What templates are filled with: one unit, looked up once for all arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitText {
    /// What `{index}` stands for, in decimal.
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
        Ok(Self { index: unit, value: space.value(unit)?, fields: space.fields(unit)? })
    }
}

/// One argument, parsed once and filled for every unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(String),
    Value,
    Index,
    Field(String),
}

impl Template {
    /// Parses `text`; `names` are the fields that are replaced beside `{}` and `{index}`, see
    /// [`Decomposer::names`]. There is no wrong template: what is not known stays as it is.
    pub fn parse(text: &str, names: &[String]) -> Self {
        let mut parts = Vec::new();
        let (mut literal, mut rest) = (String::new(), text);
        while let Some(brace) = rest.find('{') {
            literal.push_str(&rest[..brace]);
            rest = &rest[brace..];
            if let Some((part, length)) = placeholder(rest, names) {
                push_text(&mut parts, &mut literal);
                parts.push(part);
                rest = &rest[length..];
            } else {
                literal.push('{');
                rest = &rest[1..];
            }
        }
        literal.push_str(rest);
        push_text(&mut parts, &mut literal);
        Self { parts }
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
            }
        }
        filled
    }

    /// [`Template::fill`] as the operating system takes it. Bytes that are not UTF-8 are kept.
    pub fn fill_os(&self, unit: &UnitText) -> OsString {
        OsString::from_vec(self.fill(unit))
    }
}

/// The placeholder that `text`, which begins with a brace, begins with, and its length in bytes.
fn placeholder(text: &str, names: &[String]) -> Option<(Part, usize)> {
    let end = text.find('}')?;
    let part = match &text[1..end] {
        "" => Part::Value,
        "index" => Part::Index,
        name => Part::Field(names.iter().find(|known| *known == name)?.clone()),
    };
    Some((part, end + 1))
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
