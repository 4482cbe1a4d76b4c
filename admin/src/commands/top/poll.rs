//! The thread that asks the scheduler what the screen needs. A scheduler that is away is tried again at each look.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender};

use starfarm_protocol::admin::{Explanation, Request, Response, Subject};

use super::app::{Ask, Input, Look, Picture, Whole};
use crate::client::Client;
use crate::failure::{Exit, Failure};

/// Event lines of one look: more than a screen holds.
const LINES_MAX: u64 = 200;

/// Answers each ask with an input, until nobody asks any more.
pub(super) fn run(farm: &Path, client: Client, asks: &Receiver<Ask>, to_app: &Sender<Input>) {
    let mut client = Some(client);
    for ask in asks {
        let answer = answer(farm, &mut client, ask);
        if to_app.send(answer).is_err() {
            return;
        }
    }
}

fn answer(farm: &Path, client: &mut Option<Client>, ask: Ask) -> Input {
    let connected = match client.take() {
        Some(client) => Ok(client),
        None => Client::connect(farm),
    };
    let mut open = match (connected, &ask) {
        (Ok(open), _) => open,
        (Err(failure), Ask::Look(_)) => return Input::Lost(failure.message),
        (Err(failure), Ask::Do(_)) => return Input::Did(Err(failure)),
    };
    let (input, failed) = match ask {
        Ask::Look(look) => match picture(&mut open, &look) {
            Ok(picture) => (Input::Picture(Box::new(picture)), None),
            Err(failure) => (Input::Lost(failure.message.clone()), Some(failure)),
        },
        Ask::Do(request) => match open.command(&request) {
            Ok(()) => (Input::Did(Ok(())), None),
            Err(failure) => (Input::Did(Err(failure.clone())), Some(failure)),
        },
    };
    // A connection that broke, or that answers something else, is of no use any more.
    if failed.is_none_or(|failure| failure.exit != Exit::Unreachable) {
        *client = Some(open);
    }
    input
}

fn picture(client: &mut Client, look: &Look) -> Result<Picture, Failure> {
    let answer = client.ask(&Request::Status)?;
    let status = client.expect(answer, |answer| match answer {
        Response::Status(status) => Some(status),
        _ => None,
    })?;
    let jobs = client.jobs(Vec::new())?;
    let answer = client.ask(&Request::Events { after: look.after, take: LINES_MAX })?;
    let (events, missed) = client.expect(answer, |answer| match answer {
        Response::Events { events, missed } => Some((events, missed)),
        _ => None,
    })?;
    let whole = look.whole.clone().map(|subject| whole(client, subject)).transpose()?;
    Ok(Picture { status, jobs, events, missed, whole })
}

/// All that is known of one job or node. That it is gone is no failure of the look.
fn whole(client: &mut Client, subject: Subject) -> Result<Whole, Failure> {
    let job = match &subject {
        Subject::Job(id) => known(client.job(*id))?,
        Subject::Node(_) => None,
    };
    let why = known(explain(client, subject.clone()))?;
    Ok(Whole { subject, job, why })
}

fn explain(client: &mut Client, subject: Subject) -> Result<Explanation, Failure> {
    let answer = client.ask(&Request::Explain(subject))?;
    client.expect(answer, |answer| match answer {
        Response::Explanation(explanation) => Some(explanation),
        _ => None,
    })
}

fn known<T>(found: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.exit == Exit::Unreachable => Err(failure),
        Err(_) => Ok(None),
    }
}
