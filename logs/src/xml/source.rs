//! From bytes to elements, in flat memory: what is longer than any entry, or no part of a log, is refused here.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::{self, BufRead, Read};

use quick_xml::Reader;
use quick_xml::errors::{Error as XmlError, SyntaxError};
use quick_xml::events::{BytesDecl, BytesStart, Event as Xml};
use starfarm_events::Fields;

use super::ELEMENT_BYTES_MAX;
use super::error::{Fault, LogError, Place};
use super::text::unescape;

/// Deeper than any element of ours, or of a later version.
const DEPTH_MAX: u32 = 64;

/// Attributes of an element at most. Ours have a tenth of that, and each is compared with all before it.
const ATTRIBUTES_MAX: usize = 256;

/// What comes next in a log.
pub(super) enum Token<'a> {
    /// An element begins.
    Start(BytesStart<'a>),
    /// An element ends: also one that was written as one tag.
    End,
    /// Nothing that matters.
    Other,
    /// The file ends; in the middle of something if so.
    Eof { cut: bool },
}

/// The attributes of an element, as their values are meant.
pub(super) fn attributes<'a>(element: &'a BytesStart<'_>) -> Result<Attributes<'a>, Fault> {
    let mut list = Vec::with_capacity(24);
    for attribute in element.attributes() {
        let attribute = attribute.map_err(|e| Fault::Malformed(e.to_string()))?;
        if list.len() == ATTRIBUTES_MAX {
            return Err(Fault::Malformed(format!("more than {ATTRIBUTES_MAX} attributes of one element")));
        }
        let Cow::Borrowed(raw) = attribute.value else {
            return Err(Fault::Malformed("an attribute without its value".to_owned()));
        };
        list.push(Attribute { name: attribute.key.0, raw, text: unescape(raw)? });
    }
    Ok(Attributes { list, next: Cell::new(0) })
}

pub(super) struct Attribute<'a> {
    pub(super) name: &'a str,
    /// As it stands in the file.
    pub(super) raw: &'a str,
    /// As it is meant.
    pub(super) text: Cow<'a, str>,
}

pub(super) struct Attributes<'a> {
    pub(super) list: Vec<Attribute<'a>>,
    /// Where the next look-up begins: fields are asked for in the order that they are written in.
    next: Cell<usize>,
}

impl Fields for Attributes<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        let next = self.next.get();
        let at = match self.list.get(next) {
            Some(attribute) if attribute.name == name => next,
            _ => self.list.iter().position(|attribute| attribute.name == name)?,
        };
        self.next.set(at + 1);
        Some(&self.list[at].text)
    }
}

/// Elements of a file.
#[derive(Debug)]
pub(super) struct Source<R> {
    xml: Reader<Metered<R>>,
    file: String,
    /// Elements that have begun and not ended.
    pub(super) depth: u32,
    /// Whether any element has begun.
    begun: bool,
    /// Line and offset at which the token begins that was read last.
    place: (u64, u64),
}

impl<R: BufRead> Source<R> {
    pub(super) fn new(input: R, file: String) -> Self {
        let input = Metered { inner: input, lines: 1, left: 0, blank: true, head: Vec::new() };
        let mut xml = Reader::from_reader(input);
        // XML has no `--` within a comment.
        xml.config_mut().check_comments = true;
        xml.config_mut().expand_empty_elements = true;
        Self { xml, file, depth: 0, begun: false, place: (1, 0) }
    }

    /// Where the token begins that was read last.
    pub(super) fn place(&self) -> Place {
        Place { file: self.file.clone(), line: self.place.0, offset: self.place.1 }
    }

    /// Bytes up to the end of the token that was read last.
    pub(super) fn offset(&self) -> u64 {
        self.xml.buffer_position()
    }

    /// Whether the token that was read last goes on behind its line, with more than what a power cut leaves.
    pub(super) fn goes_on(&self) -> bool {
        let input = self.xml.get_ref();
        input.lines > self.place.0 && !input.blank
    }

    /// An error at the token that was read last.
    pub(super) fn error(&self, fault: Fault) -> LogError {
        let strange = matches!(fault, Fault::Malformed(_) | Fault::TooLong | Fault::Entity(_));
        LogError { place: self.place(), fault: if strange && !self.begun { Fault::NotALog } else { fault } }
    }

    /// The next token. `buf` holds what it borrows.
    pub(super) fn next<'b>(&mut self, buf: &'b mut Vec<u8>) -> Result<Token<'b>, LogError> {
        buf.clear();
        let at = self.xml.buffer_position();
        let input = self.xml.get_mut();
        (input.left, input.blank) = (ELEMENT_BYTES_MAX, true);
        self.place = (input.lines, at);
        let token = match self.xml.read_event_into(buf) {
            Ok(Xml::Start(tag)) if self.depth < DEPTH_MAX => {
                (self.begun, self.depth) = (true, self.depth + 1);
                Token::Start(tag)
            }
            // Of an empty element quick-xml is told to make a start and an end.
            Ok(Xml::Start(_) | Xml::Empty(_)) => return Err(self.error(Fault::TooDeep)),
            Ok(Xml::End(_)) => {
                self.depth -= 1;
                Token::End
            }
            Ok(Xml::Text(text)) => self.text(&text)?,
            Ok(Xml::Comment(_) | Xml::PI(_)) => Token::Other,
            Ok(Xml::Decl(declaration)) => {
                check_encoding(&declaration).map_err(|fault| self.error(fault))?;
                Token::Other
            }
            Ok(Xml::Eof) => Token::Eof { cut: false },
            Ok(Xml::DocType(_)) => return Err(self.error(Fault::Doctype)),
            Ok(Xml::GeneralRef(name)) => return Err(self.error(Fault::Entity(name.to_string()))),
            Ok(Xml::CData(_)) => return Err(self.error(Fault::Malformed("text between entries".to_owned()))),
            Err(e) => self.failed(e)?,
        };
        Ok(token)
    }

    /// Text between elements: blanks, or what a power cut left of the end of the file.
    fn text(&mut self, text: &str) -> Result<Token<'static>, LogError> {
        if text.bytes().all(|byte| byte.is_ascii_whitespace()) {
            return Ok(Token::Other);
        }
        let blank = self.xml.get_ref().blank;
        self.xml.get_mut().left = 1;
        if blank && self.xml.get_mut().fill_buf().is_ok_and(<[u8]>::is_empty) {
            return Ok(Token::Eof { cut: true });
        }
        Err(self.error(Fault::Malformed("text between entries".to_owned())))
    }

    /// A file that ends in the middle is no error.
    fn failed(&self, e: XmlError) -> Result<Token<'static>, LogError> {
        let input = self.xml.get_ref();
        let fault = match e {
            XmlError::Io(_) if input.left == 0 && input.blank => return Ok(Token::Eof { cut: true }),
            XmlError::Io(_) if input.left == 0 => Fault::TooLong,
            XmlError::Io(e) => Fault::Io(io::Error::new(e.kind(), e.to_string())),
            XmlError::Syntax(SyntaxError::InvalidBangMarkup) => Fault::Malformed("`<!`".to_owned()),
            XmlError::Syntax(_) if self.begun || input.begins_like_a_log() => {
                return Ok(Token::Eof { cut: true });
            }
            e => Fault::Malformed(e.to_string()),
        };
        Err(self.error(fault))
    }
}

fn check_encoding(declaration: &BytesDecl<'_>) -> Result<(), Fault> {
    match declaration.encoding() {
        Some(Ok(encoding))
            if !encoding.eq_ignore_ascii_case("UTF-8") && !encoding.eq_ignore_ascii_case("US-ASCII") =>
        {
            Err(Fault::Encoding(encoding.into_owned()))
        }
        _ => Ok(()),
    }
}

/// Counts lines, and ends a token that is too long.
#[derive(Debug)]
struct Metered<R> {
    inner: R,
    /// The line in which the next byte is, from 1.
    lines: u64,
    /// Bytes that this token may still have.
    left: usize,
    /// Nothing but zeros and line ends was read of this token.
    blank: bool,
    /// The first bytes of all.
    head: Vec<u8>,
}

/// How a log begins, with its declaration or without.
const BEGINNINGS: [&[u8]; 2] = [b"<?xml", b"<log "];

impl<R> Metered<R> {
    fn begins_like_a_log(&self) -> bool {
        BEGINNINGS.iter().any(|beginning| beginning.starts_with(&self.head))
    }
}

impl<R: BufRead> Read for Metered<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(to)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Metered<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.left == 0 {
            return Err(io::Error::other("longer than any entry"));
        }
        let seen = self.inner.fill_buf()?;
        Ok(&seen[..seen.len().min(self.left)])
    }

    fn consume(&mut self, amount: usize) {
        // What was shown is still there, so this reads nothing.
        if let Ok(seen) = self.inner.fill_buf() {
            let seen = &seen[..amount.min(seen.len())];
            self.lines += seen.iter().filter(|byte| **byte == b'\n').count() as u64;
            self.blank &= seen.iter().all(|byte| matches!(byte, 0 | b'\n'));
            let room = BEGINNINGS[0].len() - self.head.len();
            self.head.extend(seen.iter().take(room));
        }
        self.left -= amount;
        self.inner.consume(amount);
    }
}
