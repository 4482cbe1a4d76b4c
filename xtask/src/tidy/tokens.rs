//! Rust code as one flat list of tokens. So a rule about words sees macro bodies as well, and is never misled
//! by strings and comments. What the rules are lives in `words` and `links`.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};

/// A word, a sign, a bracket, or `"` for any literal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Token {
    pub(super) text: String,
    /// Counted from 1.
    pub(super) line: usize,
}

/// Why code could not be read.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) line: usize,
    pub(super) what: String,
}

/// The tokens of `code` in order.
pub(super) fn read(code: &str) -> Result<Vec<Token>, Unreadable> {
    let stream: TokenStream = code.parse().map_err(|error: proc_macro2::LexError| Unreadable {
        line: error.span().start().line,
        what: format!("not Rust as tidy can read it ({error}): make it compile"),
    })?;
    let mut tokens = Vec::new();
    flatten(stream, &mut tokens);
    Ok(tokens)
}

/// Where the `words` stand one after another in `tokens`, as indices of the first.
pub(super) fn find(tokens: &[Token], words: &[&str]) -> Vec<usize> {
    let is_match = |window: &[Token]| window.iter().zip(words).all(|(token, word)| token.text == *word);
    let windows = tokens.windows(words.len()).enumerate();
    windows.filter(|(_, window)| is_match(window)).map(|(index, _)| index).collect()
}

/// The text at `index`; empty behind the end.
pub(super) fn at(tokens: &[Token], index: usize) -> &str {
    tokens.get(index).map_or("", |token| token.text.as_str())
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        match tree {
            TokenTree::Group(group) => flatten_group(&group, tokens),
            TokenTree::Ident(word) => tokens.push(token(&word.to_string(), word.span())),
            TokenTree::Punct(sign) => {
                tokens.push(token(sign.as_char().encode_utf8(&mut [0; 4]), sign.span()))
            }
            TokenTree::Literal(literal) => tokens.push(token("\"", literal.span())),
        }
    }
}

fn flatten_group(group: &Group, tokens: &mut Vec<Token>) {
    let (open, close) = match group.delimiter() {
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::None => ("", ""),
    };
    tokens.push(token(open, group.span_open()));
    flatten(group.stream(), tokens);
    tokens.push(token(close, group.span_close()));
}

fn token(text: &str, span: Span) -> Token {
    Token { text: text.to_owned(), line: span.start().line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_flat_and_know_their_lines() {
        let tokens = read("a::b(\n  \"c\", [1]\n)").unwrap();
        let flat: Vec<(&str, usize)> = tokens.iter().map(|token| (token.text.as_str(), token.line)).collect();
        let first_line = [("a", 1), (":", 1), (":", 1), ("b", 1), ("(", 1)];
        let rest = [("\"", 2), (",", 2), ("[", 2), ("\"", 2), ("]", 2), (")", 3)];
        assert_eq!(flat, [&first_line[..], &rest[..]].concat());
    }

    #[test]
    fn words_are_found_where_they_follow_each_other() {
        let tokens = read("x y x z x y").unwrap();
        assert_eq!(find(&tokens, &["x", "y"]), [0, 4]);
        assert_eq!((at(&tokens, 3), at(&tokens, 6)), ("z", ""));
    }

    #[test]
    fn an_open_bracket_is_unreadable() {
        assert!(read("fn a() {").is_err());
    }
}
