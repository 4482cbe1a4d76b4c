//! Text from elsewhere as a person may be shown it: it neither steers a terminal nor hides or reorders what
//! stands beside it.

/// Most characters of a name of no known thing that are said again.
const NAME_CHARS_MAX: usize = 80;

/// Whether a terminal obeys this character, or shows nothing of it: a control character, one that turns the direction of
/// writing or ends a line (Unicode Standard Annexes #9 and #14), an annotation, or one that has the property
/// `Default_Ignorable_Code_Point` (Unicode 17).
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}')
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}')
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}')
        || matches!(c, '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}')
        || matches!(c, '\u{e0000}'..='\u{e0fff}')
}

/// `text` with what is hidden escaped, but for the characters that `keep` is true of.
pub fn escaped(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) && !keep(c) {
            true => clean.extend(c.escape_default()),
            false => clean.push(c),
        }
    }
    clean
}

/// `text` on one line.
pub fn line(text: &str) -> String {
    escaped(text, |_| false)
}

/// JSON with what is hidden in its strings escaped as JSON has it. Between them there are blanks and line ends at most.
pub fn json(text: String) -> String {
    let shows = |c: char| c == '\n' || !is_hidden(c);
    // Most of what there is, and looked through many bytes at a time.
    let is_plain = |byte: u8| matches!(byte, b'\n' | b' '..=b'~');
    if text.bytes().fold(true, |all, byte| all & is_plain(byte)) || text.chars().all(shows) {
        return text;
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match shows(c) {
            true => clean.push(c),
            false => clean.extend(c.encode_utf16(&mut [0; 2]).iter().map(|half| format!("\\u{half:04x}"))),
        }
    }
    clean
}

/// A name that a person or a peer gave, for an error that says it again: on one line, its first 80 characters.
pub fn name(text: &str) -> String {
    match text.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => line(&text[..end]) + "…",
        None => line(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_hides_or_turns_is_escaped() {
        let hidden = "\u{1b}\u{9b}\u{61c}\u{200b}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}\u{feff}\u{e0041}\u{34f}\u{115f}\u{3164}\u{fe0f}";
        for c in hidden.chars() {
            let (shown, code) = (line(&format!("a{c}b")), u32::from(c));
            assert_eq!(shown, format!("a\\u{{{code:x}}}b"));
        }
        let plain = "é 漢 \u{2010}\u{2027}\u{202f}\u{2070}\\";
        assert_eq!(line(plain), plain);
        assert_eq!(escaped("a\tb\n", |c| c == '\n'), "a\\tb\n");
    }

    #[test]
    fn json_says_the_same_without_anything_hidden() {
        let said = "a\u{1b}[2J\u{9b}\u{7f}\u{202e}\u{e0041}é\n\"";
        let text = json(serde_json::to_string_pretty(&[said, "b"]).unwrap());
        assert!(text.chars().all(|c| c == '\n' || !is_hidden(c)), "{text}");
        assert_eq!(serde_json::from_str::<[String; 2]>(&text).unwrap(), [said, "b"]);
        assert!(text.contains("\\u009b\\u007f\\u202e\\udb40\\udc41é"), "{text}");
    }

    #[test]
    fn a_name_is_cut() {
        let (fits, long) = ("é".repeat(80), "é".repeat(81));
        assert_eq!(name(&fits), fits);
        assert_eq!(name(&long), fits + "…");
        assert_eq!(name("w\n1"), "w\\n1");
    }
}
