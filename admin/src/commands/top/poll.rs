//! The thread that asks the scheduler what the screen needs. A scheduler that is away is tried again at each look.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use starfarm_protocol::admin::{Request, Subject, TreeInfo};

use super::app::{Ask, Input, Picture, Shows, Whole, dropped};
use crate::client::Client;
use crate::commands::explain::Said;
use crate::failure::{Exit, Failure};

/// Event lines of one look: more than a screen holds.
const LINES_MAX: u64 = 200;
/// What is shown in place of a tree.
const NO_TREE: &str =
    "this scheduler has no monitoring tree: it is of an older release, or was started with --no-monitor";

/// Answers each ask with an input, until nobody asks any more. `start` is that of the screen.
pub(super) fn run(farm: &Path, client: Client, asks: &Receiver<Ask>, to_app: &Sender<Input>, start: Instant) {
    let mut client = Some(client);
    for ask in asks {
        let connected = match client.take() {
            Some(client) => Ok(client),
            None => Client::connect(farm),
        };
        let answer = connected.and_then(|mut open| {
            let answer = match &ask {
                Ask::Look { after, shows } => {
                    picture(&mut open, *after, shows).map(|picture| Input::Picture(Box::new(picture)))
                }
                Ask::Do(request, until) => carry_out(&mut open, request, *until, to_app, start),
            };
            // A connection that broke, or that answers something else, is of no use any more.
            if answer.as_ref().err().is_none_or(|failure| failure.exit != Exit::Unreachable) {
                client = Some(open);
            }
            answer
        });
        let answer = answer.unwrap_or_else(|failure| match ask {
            Ask::Look { .. } => Input::Lost(failure.message),
            Ask::Do(..) => Input::Did(Err(failure)),
        });
        if to_app.send(answer).is_err() {
            return;
        }
    }
}

/// Carries out a command, unless it is too late for it.
fn carry_out(
    client: &mut Client,
    request: &Request,
    until: Duration,
    to_app: &Sender<Input>,
    start: Instant,
) -> Result<Input, Failure> {
    // A scheduler that hangs would find the command when it wakes up: first it has to show that it is awake.
    client.status()?;
    if start.elapsed() >= until {
        return Ok(Input::Did(Err(dropped())));
    }
    // Nobody to tell it to: the screen has ended.
    let _ = to_app.send(Input::Sent);
    client.command(request)?;
    Ok(Input::Did(Ok(())))
}

fn picture(client: &mut Client, after: u64, shows: &Shows) -> Result<Picture, Failure> {
    let status = client.status()?;
    let jobs = client.jobs(Vec::new())?;
    let (events, missed) = client.events(&Request::Events { after, take: LINES_MAX })?;
    let has_tree = status.tree.is_some();
    let (mut of_one, mut tree) = (None, None);
    match shows {
        Shows::Nothing => {}
        Shows::Whole(subject) => of_one = Some(whole(client, subject.clone(), has_tree)?),
        Shows::Tree if has_tree => tree = Some(the_tree(client)?),
        Shows::Tree => tree = Some(Err(NO_TREE.to_owned())),
    }
    Ok(Picture { status, jobs, events, missed, whole: of_one, tree })
}

/// The tree, or why there is none to show.
fn the_tree(client: &mut Client) -> Result<Result<TreeInfo, String>, Failure> {
    match client.tree() {
        Ok(tree) => Ok(Ok(tree)),
        Err(failure) if failure.exit == Exit::Unreachable => Err(failure),
        Err(failure) => Ok(Err(failure.message)),
    }
}

/// All that is known of one job or node. That it is gone is no failure of the look.
fn whole(client: &mut Client, subject: Subject, has_tree: bool) -> Result<Whole, Failure> {
    let job = match &subject {
        Subject::Job(id) => known(client.job(*id))?,
        Subject::Node(_) => None,
    };
    let why = known(client.explain(subject.clone()))?.map(Said::from);
    let why = match &job {
        Some(job) => why.map(|why| why.and_uses(job)),
        None => why,
    };
    // One of an older release would hang up.
    let line = if has_tree { known(client.usage_line(subject.clone()))? } else { None };
    Ok(Whole { subject, job, why, line })
}

fn known<T>(found: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.exit == Exit::Unreachable => Err(failure),
        Err(_) => Ok(None),
    }
}
