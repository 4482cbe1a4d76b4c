//! Text from elsewhere as a person may be shown it: it neither steers a terminal nor hides or reorders what
//! stands beside it.

/// Most characters of a name of no known thing that are said again.
const NAME_CHARS_MAX: usize = 80;

/// Whether a terminal obeys this character, or shows nothing of it: a control character, of no width, or one
/// that turns the direction of writing (Unicode Standard Annex #9).
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
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

/// A name that a person or a peer gave, for an error that says it again: on one line, its first 80 characters.
pub fn name(text: &str) -> String {
    match text.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => escaped(&text[..end], |_| false) + "…",
        None => escaped(text, |_| false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_hides_or_turns_is_escaped() {
        for c in "\u{1b}\u{9b}\u{200b}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}\u{feff}".chars() {
            let (shown, code) = (escaped(&format!("a{c}b"), |_| false), u32::from(c));
            assert_eq!(shown, format!("a\\u{{{code:x}}}b"));
        }
        let plain = "é 漢 \u{2010}\u{2029}\u{202f}\u{2065}\u{206a}\\";
        assert_eq!(escaped(plain, |_| false), plain);
        assert_eq!(escaped("a\tb\n", |c| c == '\n'), "a\\tb\n");
    }

    #[test]
    fn a_name_is_cut() {
        let (fits, long) = ("é".repeat(80), "é".repeat(81));
        assert_eq!(name(&fits), fits);
        assert_eq!(name(&long), fits + "…");
        assert_eq!(name("w\n1"), "w\\n1");
    }
}
