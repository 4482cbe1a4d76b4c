//! Commands and a scheduler that is slow to answer: sent in time, or dropped and told to be.

use std::io::Write;
use std::sync::mpsc::channel;
use std::time::Instant;

use starfarm_protocol::admin::frames::{FrameReader, frame};
use starfarm_protocol::admin::{JobCommand, Request, Response};

use super::*;
use crate::client::Client;
use crate::client::testing::{Folder, try_next_request};
use crate::commands::top::app::dropped;
use crate::commands::top::poll;

fn pause_4() -> Request {
    Request::Job { id: JobId(4), command: JobCommand::Pause }
}

#[test]
fn a_silent_scheduler_is_given_no_command() {
    let mut seat = Seat::new(false, 80, 24);
    seat.passes(SECOND);
    seat.press("p");
    seat.passes(SECOND * 3);
    seat.press("y").shows("no answer for 4 s: nothing was sent");
    seat.press("c").shows("no answer for 4 s: nothing was sent");
    seat.press("y<tab>dy");
    assert_eq!(seat.asks(), []);
    seat.sees(picture());
    seat.asks();
    seat.press("d").shows("drain node lab-1? y/n");
}

#[test]
fn a_command_that_waits_behind_a_look_is_dropped_in_time_and_told_once() {
    let mut seat = Seat::new(false, 80, 24);
    seat.passes(SECOND);
    seat.press("py");
    assert_eq!(seat.asks(), vec![Ask::Do(pause_4(), SECOND * 4)]);
    seat.passes(SECOND * 2);
    seat.shows_not("was dropped");
    seat.passes(SECOND);
    seat.shows("the command was dropped, nothing was sent");
    // The thread that asks says so too, as soon as its look has been answered: that is no news.
    seat.passes(SECOND * 50);
    seat.sees(picture());
    seat.press("n");
    seat.hears(Input::Did(Err(dropped())));
    seat.shows_not("was dropped");
    seat.press("py");
    seat.hears(Input::Did(Err(dropped())));
    seat.shows("was dropped");
}

#[test]
fn a_command_that_was_sent_and_is_not_answered_is_not_called_dropped() {
    let mut seat = Seat::new(false, 80, 24);
    seat.press("py");
    seat.hears(Input::Sent);
    seat.passes(SECOND * 3);
    seat.shows("the command was sent, but has no answer yet: it may still be carried out");
    seat.hears(Input::Did(Ok(())));
    seat.shows("done");
}

/// Does a command against a scheduler that answers twice; what the scheduler was asked, what the screen hears.
fn carried_out(name: &str, until: Duration) -> (Vec<Request>, Vec<Input>) {
    let folder = Folder::new(name);
    let server = folder.serve(|mut socket| {
        let mut reader = FrameReader::default();
        let mut asked = Vec::new();
        for answer in [Response::Status(status(3)), Response::Done] {
            let Some(request) = try_next_request(&mut socket, &mut reader) else { break };
            asked.push(request);
            socket.write_all(&frame(&answer).unwrap()).unwrap();
        }
        asked
    });
    let ((asks, to_poll), (to_app, inputs)) = (channel(), channel());
    asks.send(Ask::Do(pause_4(), until)).unwrap();
    drop(asks);
    let client = Client::connect(folder.path()).unwrap();
    poll::run(folder.path(), client, &to_poll, &to_app, Instant::now());
    drop(to_app);
    (server.join().unwrap(), inputs.iter().collect())
}

#[test]
fn a_command_is_sent_in_time_or_not_at_all() {
    let (asked, inputs) = carried_out("in-time", SECOND * 1_000_000);
    assert_eq!(asked, [Request::Status, pause_4()]);
    assert!(matches!(inputs[..], [Input::Sent, Input::Did(Ok(()))]), "{inputs:?}");
    let (asked, inputs) = carried_out("too-late", Duration::ZERO);
    assert_eq!(asked, [Request::Status]);
    assert!(
        matches!(&inputs[..], [Input::Did(Err(why))] if why.message.contains("was dropped")),
        "{inputs:?}"
    );
}
