//! The replacement strings of GNU parallel: forms of a value, such as `{.}`, and the quoting of what a shell is given.
//! Which unit they are filled with is in [`crate::template`].

/// What is written in the place of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// `{}`: the value.
    Whole,
    /// `{.}`: without its extension.
    NoExtension,
    /// `{/}`: behind the last slash.
    Name,
    /// `{//}`: its folder.
    Folder,
    /// `{/.}`: behind the last slash, without the extension.
    Stem,
}

/// What stands between the braces of a replacement string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Replacement {
    /// `{#}`: the unit's number, from 1 on.
    Sequence,
    /// All values of the unit, with blanks between.
    All(Form),
    /// The value of the list with this number: from 1 on, or from -1 on from the last one back.
    One(i32, Form),
}

impl Form {
    /// The form of `value`. An extension begins with the last dot, with nothing behind that as well.
    pub(crate) fn of(self, value: &[u8]) -> &[u8] {
        match self {
            Form::Whole => value,
            Form::NoExtension => without_extension(value),
            Form::Name => name(value),
            Form::Folder => folder(value),
            Form::Stem => without_extension(name(value)),
        }
    }
}

impl Replacement {
    /// What `inside` means between braces, if it means anything.
    pub(crate) fn parse(inside: &str) -> Option<Self> {
        if inside == "#" {
            return Some(Self::Sequence);
        }
        let digits_end = inside.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(inside.len());
        let (place, form) = inside.split_at(digits_end);
        let form = match form {
            "" => Form::Whole,
            "." => Form::NoExtension,
            "/" => Form::Name,
            "//" => Form::Folder,
            "/." => Form::Stem,
            _ => return None,
        };
        match place {
            "" => Some(Self::All(form)),
            place => place.parse().ok().filter(|place| *place != 0).map(|place| Self::One(place, form)),
        }
    }
}

fn without_extension(value: &[u8]) -> &[u8] {
    match value.iter().rposition(|byte| matches!(byte, b'.' | b'/')) {
        Some(at) if value[at] == b'.' => &value[..at],
        _ => value,
    }
}

fn name(value: &[u8]) -> &[u8] {
    value.iter().rposition(|byte| *byte == b'/').map_or(value, |slash| &value[slash + 1..])
}

/// As `dirname` does it.
fn folder(value: &[u8]) -> &[u8] {
    let trimmed = without_slashes(value);
    match trimmed.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => match without_slashes(&trimmed[..slash]) {
            b"" => b"/",
            folder => folder,
        },
        None if trimmed.is_empty() && !value.is_empty() => b"/",
        None => b".",
    }
}

fn without_slashes(value: &[u8]) -> &[u8] {
    let end = value.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    &value[..end]
}

/// Appends `value` so that a shell takes it for one word, whatever is in it. Backslashes rather than quotation marks: what
/// is in them is not run either where a user has put the placeholder between double quotes.
pub(crate) fn push_quoted(line: &mut Vec<u8>, value: &[u8]) {
    if value.is_empty() {
        return line.extend_from_slice(b"''");
    }
    for &byte in value {
        match byte {
            b'\n' => line.extend_from_slice(b"'\n'"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | 0x80.. => line.push(byte),
            b'-' | b'_' | b'.' | b'/' | b'+' | b',' | b':' | b'@' | b'%' => line.push(byte),
            _ => line.extend_from_slice(&[b'\\', byte]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What GNU parallel 20221122 makes of them.
    #[test]
    fn forms_are_those_of_gnu_parallel() {
        for (value, forms) in [
            ("a.b.c", ["a.b", "a.b.c", ".", "a.b"]),
            ("dir.d/file", ["dir.d/file", "file", "dir.d", "file"]),
            (".bashrc", ["", ".bashrc", ".", ""]),
            ("a/.b", ["a/", ".b", "a", ""]),
            ("a", ["a", "a", ".", "a"]),
            ("/a", ["/a", "a", "/", "a"]),
            ("a/b/", ["a/b/", "", "a", ""]),
            ("a/b.", ["a/b", "b.", "a", "b"]),
            ("..", [".", "..", ".", "."]),
            ("x/..", ["x/.", "..", "x", "."]),
            ("/", ["/", "", "/", ""]),
            ("a//b", ["a//b", "b", "a", "b"]),
            ("", ["", "", ".", ""]),
        ] {
            let made = [Form::NoExtension, Form::Name, Form::Folder, Form::Stem]
                .map(|form| String::from_utf8(form.of(value.as_bytes()).to_vec()).unwrap());
            assert_eq!(made, forms, "{value}");
        }
    }

    #[test]
    fn a_replacement_string_is_a_place_and_a_form() {
        for (inside, replacement) in [
            ("", Some(Replacement::All(Form::Whole))),
            (".", Some(Replacement::All(Form::NoExtension))),
            ("#", Some(Replacement::Sequence)),
            ("1", Some(Replacement::One(1, Form::Whole))),
            ("12/.", Some(Replacement::One(12, Form::Stem))),
            ("-1//", Some(Replacement::One(-1, Form::Folder))),
            ("0", None),
            ("-", None),
            ("1-2", None),
            ("index", None),
            ("/x", None),
            ("99999999999", None),
        ] {
            assert_eq!(Replacement::parse(inside), replacement, "{inside}");
        }
    }

    #[test]
    fn a_shell_gets_back_every_byte() {
        let all: Vec<u8> = (1..=255).collect();
        for value in [b"".as_slice(), b"it's", b"$(id) `id` \"x\" \\ \n\n~ # !*?[]{}<>|&;=^", &all] {
            let mut line = b"printf %s ".to_vec();
            push_quoted(&mut line, value);
            use std::os::unix::ffi::OsStringExt;
            let line = std::ffi::OsString::from_vec(line);
            let out = std::process::Command::new("sh").arg("-c").arg(line).output().unwrap();
            assert_eq!(out.stdout, value);
        }
    }
}
