//! The pipes between an agent and its worker: a line of JSON for each word.

use std::fs::File;
use std::io::{self, Read, Write};

use crate::words::{Begin, ToAgent, line};

/// Bytes of a line of the worker, at most.
const LINE_BYTES_MAX: usize = 64 << 20;

/// The worker's end of the pipes.
pub(crate) struct Worker {
    output: File,
    heard: Vec<u8>,
}

impl Worker {
    /// It is told by `output`, and heard by standard input.
    pub(crate) fn new(output: File) -> Self {
        Self { output, heard: Vec::new() }
    }

    pub(crate) fn tell(&mut self, word: &impl serde::Serialize) -> io::Result<()> {
        self.output.write_all(&line(word))
    }

    /// What it says first; none where it has gone.
    pub(crate) fn first(&mut self) -> io::Result<Option<Begin>> {
        let mut byte = [0];
        while !self.heard.ends_with(b"\n") {
            if io::stdin().read(&mut byte)? == 0 {
                return Ok(None);
            }
            self.heard.push(byte[0]);
        }
        match serde_json::from_slice(&std::mem::take(&mut self.heard)) {
            Ok(ToAgent::Begin(begin)) => Ok(Some(begin)),
            Ok(_) => Err(io::Error::other("the worker begins with something else")),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// What it has said since it was asked last; none where it has gone.
    pub(crate) fn hear(&mut self) -> io::Result<Option<Vec<ToAgent>>> {
        let mut piece = [0; 16 * 1024];
        loop {
            match io::stdin().read(&mut piece) {
                Ok(0) => return Ok(None),
                Ok(count) => self.heard.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let end = self.heard.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        if self.heard.len() - end > LINE_BYTES_MAX {
            return Err(io::Error::other("a line of the worker has no end"));
        }
        let lines: Vec<u8> = self.heard.drain(..end).collect();
        let words = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        words
            .map(|line| serde_json::from_slice(line).map_err(io::Error::other))
            .collect::<Result<_, _>>()
            .map(Some)
    }
}
