//! The terminal: taken at the start, given back however this ends. Only what has changed is sent to it.

use std::io;

use ratatui::backend::Backend;
use ratatui::crossterm::ExecutableCommand;
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};
use ratatui::{DefaultTerminal, Frame};
use rustix::process::{Signal, kill_current_process_group};

use crate::failure::Failure;

/// The terminal in raw mode, on its second screen. Dropping it brings back what was there before.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Takes the terminal. A panic gives it back too, before its words are printed.
    pub(super) fn take() -> Result<Self, Failure> {
        ratatui::try_init().map(Self).map_err(|error| {
            ratatui::restore();
            failure(&error)
        })
    }

    /// Columns and lines.
    pub(super) fn size(&self) -> (u16, u16) {
        self.0.size().unwrap_or_default().into()
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame)) -> Result<(), Failure> {
        self.0.draw(draw).map(drop).map_err(|error| failure(&error))
    }

    /// Forgets what the terminal shows, so that the next picture is sent whole.
    pub(super) fn clear(&mut self) -> Result<(), Failure> {
        // The library's own way asks the terminal where its cursor is, and the thread that reads keys gets the answer.
        self.0.backend_mut().clear().map_err(|error| failure(&error))?;
        self.0.swap_buffers();
        Ok(())
    }

    /// Gives the terminal back and stops, with the other programs of the shell's command, until the shell goes on
    /// with it. Where no shell could do that, the system stops nobody.
    pub(super) fn stop(&mut self) -> Result<(), Failure> {
        ratatui::restore();
        let stopped = self.0.show_cursor().and_then(|()| Ok(kill_current_process_group(Signal::TSTP)?));
        stopped.map_err(|error| failure(&error))?;
        self.take_again()
    }

    /// Takes the terminal once more, whatever others have made of it in the meantime.
    pub(super) fn take_again(&mut self) -> Result<(), Failure> {
        // Its settings count as raw until they are given back.
        ratatui::restore();
        let taken = enable_raw_mode().and_then(|()| io::stdout().execute(EnterAlternateScreen).map(drop));
        taken.map_err(|error| failure(&error))?;
        self.clear()
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
