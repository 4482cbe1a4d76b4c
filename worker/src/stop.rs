//! Everything that asks a worker to end: signals, and the end of stdin where a parent holds it.

use std::io::Read;

use crossbeam_channel::Sender;

use crate::WorkerError;
use crate::event::Event;

/// Turns SIGINT, SIGTERM and SIGHUP into events.
pub(crate) fn on_signals(inbox: Sender<Event>) -> Result<(), WorkerError> {
    ctrlc::set_handler(move || {
        let _ = inbox.send(Event::Stop);
    })
    .map_err(|e| WorkerError::System(format!("cannot watch for signals: {e}")))
}

/// Turns the end of stdin into an event: the parent has gone, however it went.
pub(crate) fn on_parents_end(inbox: Sender<Event>) -> Result<(), WorkerError> {
    let watch = move || {
        let mut stdin = std::io::stdin().lock();
        let mut bytes = [0; 256];
        while matches!(stdin.read(&mut bytes), Ok(1..)) {}
        let _ = inbox.send(Event::ParentGone);
    };
    std::thread::Builder::new()
        .name("parent".into())
        .spawn(watch)
        .map(drop)
        .map_err(|e| WorkerError::System(format!("cannot start a thread: {e}")))
}
