//! Text of attributes, both ways. XML 1.0 has no place for control characters, so text has an escaping of its own
//! below that of XML: `\u{1b}` for what XML cannot hold or nobody can see, `\\` for the backslash.

use std::borrow::Cow;
use std::fmt::Write as _;

use quick_xml::escape::EscapeError;
use starfarm_events::TEXT_BYTES_MAX;
use starfarm_protocol::foreign::is_hidden;

use super::error::Fault;

const ELLIPSIS: &str = "…";

/// Adds `text` to `line`, as it stands between the quotes of an attribute. What is longer than [`TEXT_BYTES_MAX`] is
/// cut, and ends in an ellipsis.
pub(super) fn escape(text: &str, line: &mut String) {
    let cut = text.len() > TEXT_BYTES_MAX;
    let text = if cut { &text[..text.floor_char_boundary(TEXT_BYTES_MAX - ELLIPSIS.len())] } else { text };
    if text
        .bytes()
        .all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'&' | b'<' | b'>' | b'\\'))
    {
        line.push_str(text);
    } else {
        text.chars().for_each(|char| escape_char(char, line));
    }
    if cut {
        line.push_str(ELLIPSIS);
    }
}

fn escape_char(char: char, line: &mut String) {
    match char {
        '"' => line.push_str("&quot;"),
        '&' => line.push_str("&amp;"),
        '<' => line.push_str("&lt;"),
        '>' => line.push_str("&gt;"),
        '\\' => line.push_str("\\\\"),
        // As they stand, a reader of XML would make blanks of them.
        '\t' => line.push_str("&#9;"),
        '\n' => line.push_str("&#10;"),
        '\r' => line.push_str("&#13;"),
        hidden if is_hidden(hidden) || !is_xml(hidden) => {
            // A String takes all.
            let _ = write!(line, "\\u{{{:x}}}", u32::from(hidden));
        }
        plain => line.push(plain),
    }
}

/// Whether XML 1.0 has this character (its production 2).
fn is_xml(char: char) -> bool {
    match char {
        '\t' | '\n' | '\r' => true,
        char => char >= ' ' && !matches!(char, '\u{fffe}' | '\u{ffff}'),
    }
}

/// The text that stands between the quotes as `raw`.
///
/// # Errors
/// It is no XML, or uses an entity beyond the five of XML.
pub(super) fn unescape(raw: &str) -> Result<Cow<'_, str>, Fault> {
    if raw.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'&' | b'<' | b'\\')) {
        return Ok(Cow::Borrowed(raw));
    }
    let text = of_xml(raw)?;
    Ok(Cow::Owned(if text.contains('\\') { of_backslashes(&text).0 } else { text }))
}

/// Whether each backslash of `text` begins an escape that a writer of ours could have written.
pub(super) fn backslashes_are_ours(raw: &str) -> bool {
    !raw.contains('\\') || of_xml(raw).is_ok_and(|text| of_backslashes(&text).1)
}

/// Resolves what XML itself defines.
fn of_xml(raw: &str) -> Result<String, Fault> {
    if raw.contains('<') {
        return Err(Fault::Malformed("`<` in the value of an attribute".to_owned()));
    }
    // XML reads line ends as one blank each.
    let raw = raw.replace("\r\n", " ").replace(['\r', '\t', '\n'], " ");
    let text = quick_xml::escape::unescape(&raw).map_err(|error| match error {
        EscapeError::UnterminatedEntity(_) => Fault::Malformed("`&` without its `;`".to_owned()),
        EscapeError::UnrecognizedEntity(_, name) => Fault::Entity(name),
        error => Fault::Malformed(error.to_string()),
    })?;
    match text.chars().find(|char| !is_xml(*char)) {
        None => Ok(text.into_owned()),
        Some(char) => Err(Fault::Malformed(format!(
            "the character U+{:04X}, which XML 1.0 does not have",
            u32::from(char)
        ))),
    }
}

/// Resolves our own escapes, and says whether all are such; a backslash that begins none stands for itself.
fn of_backslashes(text: &str) -> (String, bool) {
    let (mut plain, mut ours, mut rest) = (String::with_capacity(text.len()), true, text);
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let (char, after) = if let Some(after) = after.strip_prefix('\\') {
            ('\\', after)
        } else if let Some(found) = hidden(after) {
            found
        } else {
            ours = false;
            ('\\', after)
        };
        plain.push(char);
        rest = after;
    }
    plain.push_str(rest);
    (plain, ours)
}

/// The character of `u{HEX}` at the start of `text`, and what follows.
fn hidden(text: &str) -> Option<(char, &str)> {
    let (digits, after) = text.strip_prefix("u{")?.split_once('}')?;
    let lower = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let proper = (1..=6).contains(&digits.len()) && digits.bytes().all(lower);
    let number = u32::from_str_radix(digits, 16).ok().filter(|_| proper)?;
    Some((char::from_u32(number)?, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str) -> String {
        let mut line = String::new();
        escape(text, &mut line);
        line
    }

    #[test]
    fn every_character_comes_back_and_nothing_hidden_is_left() {
        let all = (0..=0x2ff)
            .chain(0x2000..0x2070)
            .chain(0xd700..0xe100)
            .chain(0xfff0..0x1_0010)
            .chain([0x1_fffe, 0x10_ffff]);
        for char in all.filter_map(char::from_u32) {
            let text = format!("a{char}b\\u{{41}}{char}");
            let line = escaped(&text);
            assert!(!line.contains(|char: char| is_hidden(char) || !is_xml(char)), "{char:?} in {line:?}");
            assert_eq!(unescape(&line).unwrap(), text, "{line}");
        }
    }

    #[test]
    fn hidden_characters_are_seen() {
        assert_eq!(escaped("\u{1b}[31m"), r"\u{1b}[31m");
        assert_eq!(escaped(r"a\b"), r"a\\b");
        assert_eq!(escaped("<a b=\"c\n\">&"), "&lt;a b=&quot;c&#10;&quot;&gt;&amp;");
        assert_eq!(escaped("\u{ffff}\u{85}\u{7f}"), r"\u{ffff}\u{85}\u{7f}");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        let line = escaped(&"ä".repeat(300));
        assert!(line.len() <= TEXT_BYTES_MAX && line.ends_with("ä…"), "{}", line.len());
        assert_eq!(escaped(&"x".repeat(TEXT_BYTES_MAX)).len(), TEXT_BYTES_MAX);
    }

    #[test]
    fn what_xml_does_not_know_is_refused() {
        assert!(matches!(unescape("&lol9;"), Err(Fault::Entity(name)) if name == "lol9"));
        for raw in ["&#1;", "&#xfffe;", "&#xd800;", "a & b", "\u{1}", "a<b", "\u{ffff}"] {
            assert!(matches!(unescape(raw), Err(Fault::Malformed(_))), "{raw:?}");
        }
        assert_eq!(unescape("&#x1F600;&apos;\r\n\t").unwrap(), "\u{1f600}'  ");
    }

    #[test]
    fn a_lone_backslash_stands_for_itself() {
        for raw in [r"a\b", r"\u{110000}", r"\u{}", r"\u{1B}", "\\"] {
            assert_eq!(unescape(raw).unwrap(), raw);
            assert!(!backslashes_are_ours(raw), "{raw}");
        }
        assert!(backslashes_are_ours(r"\\u{x}\u{1b}") && backslashes_are_ours("&#92;\\"));
    }
}
