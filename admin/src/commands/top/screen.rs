//! The terminal: taken at the start, given back however this ends. Only what has changed is sent to it.

use std::io;

use ratatui::layout::Size;
use ratatui::{DefaultTerminal, Frame};

use crate::failure::Failure;

/// The terminal in raw mode, on its second screen. Dropping it brings back what was there before.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Takes the terminal. A panic gives it back too, before its words are printed.
    ///
    /// # Errors
    /// It cannot be had.
    pub(super) fn take() -> Result<Self, Failure> {
        ratatui::try_init().map(Self).map_err(|error| {
            ratatui::restore();
            failure(&error)
        })
    }

    /// Columns and lines.
    pub(super) fn size(&self) -> (u16, u16) {
        let Size { width, height } = self.0.size().unwrap_or_default();
        (width, height)
    }

    /// Draws a picture.
    ///
    /// # Errors
    /// The terminal takes no more.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame)) -> Result<(), Failure> {
        self.0.draw(draw).map(drop).map_err(|error| failure(&error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn failure(error: &io::Error) -> Failure {
    Failure::usage(format!(
        "the terminal cannot be used: {error}; use `starfarm status`, `starfarm jobs` or `starfarm nodes`"
    ))
}
