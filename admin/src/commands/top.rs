//! `starfarm top`: the farm on a screen, looked at again and again. Here is the rim: the terminal, the thread that
//! reads keys, the thread that asks the scheduler. What the screen holds and what a key does is in `app`, what it
//! looks like in `draw`; both know neither clock nor socket.

mod app;
mod columns;
mod detail;
mod draw;
mod keys;
mod list;
mod poll;
mod screen;

use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use ratatui::crossterm::event;

use super::Context;
use crate::cli::Top;
use crate::failure::{Exit, Failure};
use crate::interrupt::Signals;
use app::{App, Input};
use screen::Screen;

/// How often signals and the age of the last picture are looked at.
const TICK: Duration = Duration::from_millis(250);
/// Inputs between two pictures, so that a held key does not draw each of its steps.
const INPUTS_MAX: usize = 64;

/// Shows the farm until a person has seen enough.
///
/// # Errors
/// No terminal, or as the client at the start; a scheduler that goes away later is waited for.
pub(crate) fn run(context: &Context, top: &Top) -> Result<Exit, Failure> {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    if is_dumb || !std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "starfarm top needs a terminal: use `starfarm status`, `starfarm jobs` or `starfarm nodes`, with \
             --output json for programs",
        ));
    }
    let farm = context.named_farm()?.to_owned();
    // Before the screen is taken: whoever named a wrong farm reads so where they typed it.
    let client = context.connect()?;
    let signals = Signals::count()?;
    let (to_app, inputs) = mpsc::channel();
    let (asks, to_poll) = mpsc::channel();
    let mut screen = Screen::take()?;
    let size = screen.size();
    spawn(to_app.clone(), read_keys)?;
    spawn(to_app, move |to_app| poll::run(&farm, client, &to_poll, to_app))?;

    let (start, interval) = (Instant::now(), Duration::from_secs_f64(top.interval));
    let mut app = App::new(interval, top.read_only, context.printer.color(), size);
    while !app.has_quit() {
        signals.check()?;
        for ask in app.tick(start.elapsed()) {
            // The other end lives as long as this process.
            let _ = asks.send(ask);
        }
        screen.draw(|frame| draw::draw(&app, frame))?;
        let wait = app.next_look(start.elapsed()).min(TICK);
        match inputs.recv_timeout(wait) {
            Ok(input) => {
                let more = inputs.try_iter().take(INPUTS_MAX);
                for input in std::iter::once(input).chain(more) {
                    app.on(input, start.elapsed());
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(Exit::Ok)
}

/// Starts a thread; it ends with the process.
fn spawn(
    to_app: mpsc::Sender<Input>,
    run: impl FnOnce(&mpsc::Sender<Input>) + Send + 'static,
) -> Result<(), Failure> {
    let thread = std::thread::Builder::new().spawn(move || run(&to_app));
    thread.map(drop).map_err(|error| Failure::usage(format!("the system gives no thread: {error}")))
}

fn read_keys(to_app: &mpsc::Sender<Input>) {
    loop {
        let input = match event::read() {
            Ok(event::Event::Key(key)) if key.is_press() => Input::Key(key),
            Ok(event::Event::Resize(width, height)) => Input::Resize(width, height),
            Ok(_) => continue,
            // The terminal is gone.
            Err(_) => Input::Gone,
        };
        let is_last = matches!(input, Input::Gone);
        if to_app.send(input).is_err() || is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
