//! `starfarm top`: the farm on a screen, looked at again and again. Here is the rim: the terminal, the thread that
//! reads keys, the thread that asks the scheduler. What the screen holds is in `app`, what a key does in
//! `keys`, what it looks like in `draw`; none of them knows clock or socket.

mod app;
mod columns;
mod detail;
mod draw;
mod keys;
mod layout;
mod list;
mod poll;
mod screen;

use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use signal_hook::consts::SIGCONT;

use super::Context;
use crate::cli::Top;
use crate::client::Client;
use crate::failure::Failure;
use crate::interrupt::Signals;
use app::{App, Input};
use screen::Screen;

/// How often signals and the age of the last picture are looked at.
const TICK: Duration = Duration::from_millis(250);
/// Inputs between two pictures, so that a held key does not draw each of its steps.
const INPUTS_MAX: usize = 64;

/// Shows the farm until a person has seen enough. A scheduler that goes away after the start is waited for.
pub(crate) fn run(context: &Context, top: &Top) -> Result<(), Failure> {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    if is_dumb || !std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "starfarm top needs a terminal: use `starfarm status`, `starfarm jobs` or `starfarm nodes`, with \
             --output json for programs",
        ));
    }
    let farm = context.named_farm()?.to_owned();
    // Before the screen is taken: whoever named a wrong farm reads so where they typed it.
    let client = Client::connect(&farm)?;
    let signals = Signals::count()?;
    let start = Instant::now();
    let (to_app, inputs) = mpsc::channel();
    let (asks, to_poll) = mpsc::channel();
    let mut screen = Screen::take()?;
    let size = screen.size();
    let mut continued = signal_hook::iterator::Signals::new([SIGCONT])
        .map_err(|error| Failure::usage(format!("cannot watch for SIGCONT: {error}")))?;
    spawn(to_app.clone(), read_keys)?;
    spawn(to_app.clone(), move |to_app| poll::run(&farm, client, &to_poll, to_app, start))?;
    spawn(to_app, move |to_app| {
        continued.forever().take_while(|_| to_app.send(Input::Continued).is_ok()).for_each(drop);
    })?;

    let interval = Duration::from_secs_f64(top.interval);
    let mut app = App::new(interval, top.read_only, context.printer.style.color, size);
    while !app.has_quit {
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
                    take_in(input, &mut app, &mut screen, start.elapsed())?;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(())
}

/// What has to do with the terminal is done here, all else by the screen's state.
fn take_in(input: Input, app: &mut App, screen: &mut Screen, now: Duration) -> Result<(), Failure> {
    match input {
        Input::Clear => return screen.clear(),
        Input::Stop => screen.stop()?,
        Input::Continued => screen.take_again()?,
        Input::Gone => {
            let why = "the terminal is gone; use `starfarm status`, `starfarm jobs` or `starfarm nodes`";
            return Err(Failure::usage(why));
        }
        input => {
            app.on(input, now);
            return Ok(());
        }
    }
    // The window may have another size than before.
    let (width, height) = screen.size();
    app.on(Input::Resize(width, height), now);
    Ok(())
}

/// Starts a thread; it ends with the process. Should it end before, the screen ends too: half of it would deceive.
fn spawn(
    to_app: mpsc::Sender<Input>,
    run: impl FnOnce(&mpsc::Sender<Input>) + Send + 'static,
) -> Result<(), Failure> {
    let last = Last(to_app);
    let thread = std::thread::Builder::new().spawn(move || run(&last.0));
    thread.map(drop).map_err(|error| Failure::usage(format!("the system gives no thread: {error}")))
}

/// Says that a thread has ended, also where it panics.
struct Last(mpsc::Sender<Input>);

impl Drop for Last {
    fn drop(&mut self) {
        let _ = self.0.send(Input::Gone);
    }
}

/// Reads keys until the terminal is gone.
fn read_keys(to_app: &mpsc::Sender<Input>) {
    while let Ok(event) = event::read() {
        let input = match event {
            Event::Key(key) if key.is_press() => of_key(key),
            Event::Resize(width, height) => Input::Resize(width, height),
            _ => continue,
        };
        if to_app.send(input).is_err() {
            return;
        }
    }
}

/// Keys that are about the terminal are none for the farm.
fn of_key(key: KeyEvent) -> Input {
    match key.code {
        KeyCode::Char('l') if key.modifiers.contains(KeyModifiers::CONTROL) => Input::Clear,
        KeyCode::Char('z') if key.modifiers.contains(KeyModifiers::CONTROL) => Input::Stop,
        _ => Input::Key(key),
    }
}

#[cfg(test)]
mod tests;
