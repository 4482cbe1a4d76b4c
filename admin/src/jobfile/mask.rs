//! The notation of masks: `?l ?u ?d ?s ?a ?h ??`, `?1` to `?4` of the user's own, anything else for
//! itself. Bytes, not code points: a character outside of ASCII takes as many positions as it has bytes
//! in UTF-8.

use starfarm_protocol::spec::HexBytes;

/// What is wrong with a mask, at which byte of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MaskError {
    /// Bytes before the fault.
    pub(super) offset: usize,
    pub(super) message: String,
}

/// The user's own alphabets, `?1` to `?4`.
pub(super) type Custom = [Option<Vec<u8>>; 4];

/// The alphabet of every position of `mask`.
pub(super) fn positions(mask: &str, custom: &Custom) -> Result<Vec<HexBytes>, MaskError> {
    Ok(expand(mask, Some(custom))?.into_iter().map(HexBytes).collect())
}

/// The characters that `text` lists, which may hold classes but no `?1` to `?4`; repeats are dropped, so
/// that `?l?h` lists a to f once.
pub(super) fn alphabet(text: &str) -> Result<Vec<u8>, MaskError> {
    let mut seen = [false; 256];
    let mut bytes = expand(text, None)?.concat();
    bytes.retain(|byte| !std::mem::replace(&mut seen[usize::from(*byte)], true));
    Ok(bytes)
}

fn expand(text: &str, custom: Option<&Custom>) -> Result<Vec<Vec<u8>>, MaskError> {
    let mut alphabets = Vec::new();
    let mut characters = text.char_indices();
    while let Some((offset, character)) = characters.next() {
        if character == '?' {
            let name = characters.next().map(|(_, name)| name);
            alphabets.push(class(name, custom).map_err(|message| MaskError { offset, message })?);
        } else {
            alphabets.extend(character.encode_utf8(&mut [0; 4]).bytes().map(|byte| vec![byte]));
        }
    }
    Ok(alphabets)
}

/// The characters of the class `?name`; the error says what to write instead.
fn class(name: Option<char>, custom: Option<&Custom>) -> Result<Vec<u8>, String> {
    let bytes: Vec<u8> = match name {
        Some('l') => (b'a'..=b'z').collect(),
        Some('u') => (b'A'..=b'Z').collect(),
        Some('d') => (b'0'..=b'9').collect(),
        Some('h') => (b'0'..=b'9').chain(b'a'..=b'f').collect(),
        Some('s') => specials().collect(),
        Some('a') => (b'a'..=b'z').chain(b'A'..=b'Z').chain(b'0'..=b'9').chain(specials()).collect(),
        Some('?') => vec![b'?'],
        Some(digit @ '1'..='4') => return own(digit, custom),
        Some(other) => {
            return Err(format!(
                "`?{other}` is not a class: use ?l ?u ?d ?s ?a ?h, ?1 to ?4, or `??` for a question mark"
            ));
        }
        None => return Err("a `?` at the end stands for nothing: write `??` for a question mark".to_owned()),
    };
    Ok(bytes)
}

fn own(digit: char, custom: Option<&Custom>) -> Result<Vec<u8>, String> {
    let Some(alphabets) = custom else {
        return Err(format!("`?{digit}` cannot stand inside an alphabet: write its characters out"));
    };
    let number = digit as usize - '1' as usize;
    alphabets[number].clone().ok_or_else(|| {
        format!("`?{digit}` has no alphabet: add alphabets = {{ {digit} = \"...\" }} to [space]")
    })
}

/// The 33 printable characters of ASCII that are neither letters nor digits, from space on.
fn specials() -> impl Iterator<Item = u8> {
    (b' '..=b'~').filter(|byte| !byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn expands(mask: &str, expected: Expect) {
        let custom = [Some(b"xyz".to_vec()), None, None, None];
        let shown = match positions(mask, &custom) {
            Ok(positions) => {
                let show = |p: &HexBytes| format!("[{}]", p.0.escape_ascii());
                positions.iter().map(show).collect::<Vec<_>>().join("\n")
            }
            Err(e) => format!("byte {}: {}", e.offset, e.message),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn classes_are_in_ascii_order() {
        expands(
            "?l?u?d?h",
            expect![[r#"
            [abcdefghijklmnopqrstuvwxyz]
            [ABCDEFGHIJKLMNOPQRSTUVWXYZ]
            [0123456789]
            [0123456789abcdef]"#]],
        );
        expands("?s", expect![[r##"[ !\"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~]"##]]);
        expands(
            "?a",
            expect![[
                r##"[abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 !\"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~]"##
            ]],
        );
        assert_eq!(specials().count(), 33);
    }

    #[test]
    fn everything_else_is_literal() {
        expands(
            "a??é\u{1F600}",
            expect![[r#"
            [a]
            [?]
            [\xc3]
            [\xa9]
            [\xf0]
            [\x9f]
            [\x98]
            [\x80]"#]],
        );
        expands(
            "?1-",
            expect![[r#"
            [xyz]
            [-]"#]],
        );
        expands("", expect![""]);
    }

    #[test]
    fn bad_masks_say_where_and_what_to_do() {
        expands(
            "ab?z",
            expect![
                "byte 2: `?z` is not a class: use ?l ?u ?d ?s ?a ?h, ?1 to ?4, or `??` for a question mark"
            ],
        );
        expands("é?", expect!["byte 2: a `?` at the end stands for nothing: write `??` for a question mark"]);
        expands(
            "?l?2",
            expect![[r#"byte 2: `?2` has no alphabet: add alphabets = { 2 = "..." } to [space]"#]],
        );
        expands(
            "?é",
            expect![
                "byte 0: `?é` is not a class: use ?l ?u ?d ?s ?a ?h, ?1 to ?4, or `??` for a question mark"
            ],
        );
    }

    #[test]
    fn an_alphabet_lists_each_byte_once() {
        let shown = |text| alphabet(text).map(|bytes| bytes.escape_ascii().to_string());
        assert_eq!(shown("cab??ca").unwrap(), "cab?");
        assert_eq!(shown("?h?d").unwrap(), "0123456789abcdef");
        assert_eq!(shown("").unwrap(), "");
        expect!["`?1` cannot stand inside an alphabet: write its characters out"]
            .assert_eq(&alphabet("a?1").unwrap_err().message);
    }
}
