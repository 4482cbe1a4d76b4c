//! Requests of admin commands, one after another on a connection. The caller's role decides what it may
//! ask; what it asks of the farm becomes a question to the dispatcher.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use starfarm_events::Event;
use starfarm_protocol::admin::frames::{FRAME_BYTES_MAX, FrameReader, WATCH_BYTES_MAX};
use starfarm_protocol::admin::{
    ErrorCode, KeyInfo, KeyKind, NodeCommand, NodeInfo, Request, Response, Subject,
};
use starfarm_protocol::foreign;
use starfarm_protocol::ids::{JoinKeyId, PublicKey};
use starfarm_protocol::seal::{Action, EnrolledKey, JoinKey, Meant, Role};
use starfarm_scheduler_core as core;

use super::channel::Channel;
use super::desk::Desk;
use super::{hits, jobs, lost, put, submit, trees};
use crate::answers::{command_error, error};
use crate::pages::{self, Asked, Look, Reading};
use crate::store::state::new_secret;

/// Answers one caller until it hangs up.
pub(crate) async fn serve(desk: &Arc<Desk>, channel: &mut Channel, role: Role, user: &str) -> io::Result<()> {
    let bytes_max = if role.may(Action::Steer) { FRAME_BYTES_MAX } else { WATCH_BYTES_MAX };
    let (mut reader, mut reading) = (FrameReader::limited(bytes_max), Reading::default());
    while let Some(request) = channel.read_message::<Request>(&mut reader).await? {
        // An error ends the connection: what follows cannot be understood.
        let response = match request {
            Err(e) => {
                let message = format!("the request cannot be read: {e}; update the older side");
                Err(error(ErrorCode::Usage, message))
            }
            Ok(request) if !role.may(action(&request)) => {
                let message = format!("the role {role} may not do that: use an admin's join file");
                let refused = error(ErrorCode::Refused, message);
                if matches!(request, Request::Put { .. }) { Err(refused) } else { Ok(refused) }
            }
            Ok(Request::Put { hash, bytes }) => {
                put::put(&desk.house, channel, &mut reader, (hash, bytes)).await
            }
            Ok(request) => Ok(answer(desk, request, (role, user), &mut reading).await),
        };
        match response {
            Ok(response) => channel.write_answer(&response).await?,
            Err(last) => return channel.part(&last).await,
        }
    }
    Ok(())
}

fn action(request: &Request) -> Action {
    match request {
        Request::Jobs { .. }
        | Request::Wait { .. }
        | Request::Nodes
        | Request::Explain(_)
        | Request::Results { .. }
        | Request::LostOutputs { .. }
        | Request::Status
        | Request::Tree
        | Request::Alarms
        | Request::AlarmsAfter { .. }
        | Request::Trace { .. }
        | Request::Graph { .. }
        | Request::UsageLine(_)
        | Request::Events { .. }
        | Request::TaskEvents { .. }
        | Request::Merged { .. }
        | Request::Fetch { .. } => Action::Watch,
        Request::Lacking { .. }
        | Request::Put { .. }
        | Request::Submit(_)
        | Request::Job { .. }
        | Request::Merge { .. }
        | Request::Rerun { .. }
        | Request::FormTree { .. }
        | Request::Monitor(_)
        | Request::LoadStages { .. }
        | Request::OrderStages { .. }
        | Request::Node { .. } => Action::Steer,
        Request::Keys | Request::AddKey { .. } | Request::RevokeKey { .. } => Action::Govern,
    }
}

async fn answer(
    desk: &Arc<Desk>,
    request: Request,
    (role, user): (Role, &str),
    reading: &mut Reading,
) -> Response {
    match request {
        Request::Lacking { hashes } => submit::lacking(desk, hashes).await,
        Request::Put { .. } => unreachable!("its pieces are taken in before"),
        Request::Submit(submit) => submit::submit(desk, submit, (role, user)).await,
        Request::Jobs { ids } if ids.is_empty() => jobs::all(desk).await,
        Request::Jobs { ids } => jobs::whole(desk, ids).await,
        Request::Job { id, command } => jobs::command(desk, id, command).await,
        Request::Wait { id, timeout_ms } => jobs::wait(desk, id, Duration::from_millis(timeout_ms)).await,
        Request::Nodes => {
            let mut response = desk.ask(|farm, now_us, _| Response::Nodes(farm.nodes(now_us))).await;
            if let Response::Nodes(nodes) = &mut response {
                fill(desk, nodes);
            }
            response
        }
        Request::Node { name, command } => node_command(desk, name, command).await,
        Request::Explain(subject) => explain(desk, subject).await,
        Request::Results { id, skip, take } => {
            results(desk, Asked::new(id, skip, take), reading).await.unwrap_or_else(|response| response)
        }
        Request::LostOutputs { id, all, skip, take } => {
            let lost = lost::outputs(desk, id, Look { anew: false, all }).await;
            lost.map_or_else(|response| response, |lost| pages::lost_page(&lost, skip, take))
        }
        Request::Merge { id } => jobs::merge(desk, id).await,
        Request::Merged { id, file, offset } => {
            pages::merged(&desk.house.merges, id, file.as_deref(), offset)
        }
        Request::Rerun { id } => lost::rerun(desk, id).await.unwrap_or_else(|response| response),
        Request::Status => status(desk).await,
        Request::Tree => trees::whole(desk),
        Request::Alarms => trees::alarms(desk),
        Request::AlarmsAfter { after } => trees::alarms_after(desk, after),
        Request::Trace { after, take, about } => {
            trees::trace(desk, after, take, about.map(|of| known_by_name(desk, of)).as_ref())
        }
        Request::LoadStages { text } => trees::load(desk, text),
        Request::OrderStages { node, order } => trees::order(desk, &node, &order).await,
        Request::Graph { node } => trees::graph(desk, &node).await,
        Request::UsageLine(subject) => trees::line(desk, &known_by_name(desk, subject)),
        Request::FormTree { strategy, fanout, topology } => trees::form(desk, (strategy, fanout), topology),
        Request::Monitor(wish) => trees::wish(desk, wish).await,
        Request::Events { after, take } => {
            let lines = desk.house.shared.lines.lock().expect("a panic under the lock ends the process");
            lines.page(after, take)
        }
        Request::TaskEvents { after, take } => {
            desk.house.shared.tasks.page(after, take, desk.house.shared.now_us())
        }
        Request::Keys => keys(desk),
        Request::AddKey { role } => add_key(desk, role),
        Request::RevokeKey { key } => revoke_key(desk, &key),
        Request::Fetch { hash, offset } => pages::fetch(&desk.house.blobs, &hash, offset),
    }
}

/// The name of the node that a person gave by its name or by its key.
fn node_name(desk: &Desk, given: String) -> String {
    let keys = desk.house.keys.lock().expect("a panic under the lock ends the process");
    let entry = given.parse::<PublicKey>().ok().and_then(|key| keys.key(&key));
    // The name of a revoked key may be another's.
    entry.filter(|entry| !entry.revoked).map_or(given, |entry| entry.name.clone())
}

/// The same of what is asked about.
fn known_by_name(desk: &Desk, subject: Subject) -> Subject {
    match subject {
        Subject::Node(given) => Subject::Node(node_name(desk, given)),
        job => job,
    }
}

/// A key that is not revoked has this name.
fn is_held(desk: &Desk, name: &str) -> bool {
    desk.house.keys.lock().expect("a panic under the lock ends the process").holder(name).is_some()
}

async fn node_command(desk: &Desk, given: String, command: NodeCommand) -> Response {
    let name = node_name(desk, given);
    let is_keyless = command == NodeCommand::Forget && !is_held(desk, &name);
    desk.ask(move |farm, _, deeds| {
        if is_keyless {
            // The farm may not know that yet, or the scheduler before died before it did.
            farm.on_revoked_name(&name, deeds);
        }
        match farm.command_node(&name, command, deeds) {
            Ok(_) => Response::Done,
            Err(e) => command_error(e, &Subject::Node(name)),
        }
    })
    .await
}

async fn explain(desk: &Desk, subject: Subject) -> Response {
    let subject = known_by_name(desk, subject);
    desk.ask(move |farm, now_us, _| {
        let explained = farm.explain(&subject, now_us);
        let missing = || command_error(core::CommandError::NotFound, &subject);
        explained.map_or_else(missing, Response::Explanation)
    })
    .await
}

async fn results(desk: &Desk, asked: Asked, reading: &mut Reading) -> Result<Response, Response> {
    let mark = reading.mark(asked);
    let find = move |farm: &core::Farm| Ok((pages::find(farm, asked, mark)?, farm.last_sequence()));
    let (found, last) = desk.find(find).await?;
    if found.paged.is_some_and(|hits| !reading.lists(asked, hits)) {
        reading.list(asked.id, hits::list(desk, asked.id, last).await?);
    }
    let outputs = pages::outputs(asked, &desk.house.outputs)?;
    lost::say_notes(desk);
    let ids = pages::writers(&outputs);
    let names = if ids.is_empty() {
        Ok(pages::Names::new())
    } else {
        desk.find(move |farm| Ok(pages::names(farm, ids))).await
    };
    // A scheduler that stops names none.
    let names = names.unwrap_or_default();
    Ok(pages::page(asked, (found, outputs), &names, &desk.house.blobs, reading))
}

/// What the core does not know of nodes: how large a datagram each is sent, and whose key it has.
fn fill(desk: &Desk, nodes: &mut [NodeInfo]) {
    desk.house.shared.fill_sizes(nodes);
    let keys = desk.house.keys.lock().expect("a panic under the lock ends the process");
    nodes.iter_mut().for_each(|node| node.key = keys.holder(&node.name));
    drop(keys);
    let tree = desk.house.tree.iter();
    tree.for_each(|tree| tree.fill_nodes(nodes, desk.house.shared.now_us()));
}

async fn status(desk: &Arc<Desk>) -> Response {
    let mut response = desk.ask(|farm, now_us, _| Response::Status(farm.status(now_us))).await;
    if let Response::Status(status) = &mut response {
        fill(desk, &mut status.nodes);
        status.tree = desk.house.tree.as_ref().map(|tree| tree.summary());
        let alarms = desk.house.tree.as_ref().map(|tree| tree.alarms(desk.house.shared.now_us()).alarms);
        status.alarms = alarms.unwrap_or_default();
        status.up_seconds = desk.house.shared.up_seconds();
        status.datagrams_dropped = desk.house.shared.dropped.load(Ordering::Relaxed);
        status.log_events_dropped = desk.house.shared.unlogged();
        status.stderr_lines_dropped = starfarm_net::lines_dropped();
        status.datagrams_refused = desk.house.shared.refused.load(Ordering::Relaxed);
        status.notes.clone_from(&desk.house.state.notes);
        let low_water = &desk.house.low_water;
        (status.stored_bytes, status.storage_limit) = (low_water.stored(), low_water.limit());
        status.notes.extend(low_water.lack().map(|lack| lack.to_string()));
    }
    response
}

fn keys(desk: &Desk) -> Response {
    let keys = desk.house.keys.lock().expect("a panic under the lock ends the process");
    let join = keys.join_keys().map(|(id, key)| join_info(id, key));
    let enrolled = keys.keys().map(|(id, key)| enrolled_info(id, key));
    Response::Keys(join.chain(enrolled).collect())
}

fn join_info(id: &JoinKeyId, key: &JoinKey) -> KeyInfo {
    let (kind, id, name) = (KeyKind::Join, id.to_string(), String::new());
    KeyInfo { kind, id, name, role: key.role, revoked: key.revoked }
}

fn enrolled_info(id: &PublicKey, key: &EnrolledKey) -> KeyInfo {
    let (kind, id, name) = (KeyKind::Enrolled, id.to_string(), key.name.clone());
    KeyInfo { kind, id, name, role: key.role, revoked: key.revoked }
}

fn add_key(desk: &Desk, role: Role) -> Response {
    let made = new_secret().and_then(|secret| {
        let mut keys = desk.house.keys.lock().expect("a panic under the lock ends the process");
        let id = keys.add_join_key(secret.clone(), role);
        desk.house.state.save_keys(&keys)?;
        desk.tell(Event::KeyAdded { key_kind: KeyKind::Join, key: id.to_string(), role, name: None });
        Ok(desk.house.state.join_text(secret, role, &desk.addresses))
    });
    made.map_or_else(|e| error(ErrorCode::Conflict, e.to_string()), Response::JoinFile)
}

fn revoke_key(desk: &Desk, key: &str) -> Response {
    let mut keys = desk.house.keys.lock().expect("a panic under the lock ends the process");
    let meant = keys.meant(key);
    if let [Meant::Enrolled(..), _] = meant[..] {
        let named = keys.holder(key).map_or_else(String::new, |holder| holder.to_string());
        let message = format!(
            "`{0}` is a key, and another key's holder calls itself so: revoke that first, as it is written, then this one: \
             `starfarm key revoke {named}`, `starfarm key revoke {0}`",
            foreign::name(key)
        );
        return error(ErrorCode::Conflict, message);
    }
    let revoked = match meant.first() {
        Some(Meant::Enrolled(public)) => keys.revoke_key(public).map(|key| enrolled_info(public, key)),
        Some(Meant::Join(join)) => keys.revoke_join_key(join).map(|key| join_info(join, key)),
        None => None,
    };
    let Some(revoked) = revoked else {
        let message = format!("`{}`: no such key: `starfarm key list` shows them", foreign::name(key));
        return error(ErrorCode::NotFound, message);
    };
    if let Err(e) = desk.house.state.save_keys(&keys) {
        return error(ErrorCode::Conflict, e.to_string());
    }
    drop(keys);
    desk.tell(Event::KeyRevoked { key: key.to_owned() });
    desk.revocations.notify_waiters();
    if let Some(Meant::Enrolled(public)) = meant.first() {
        let _ = desk.revoked.send(*public);
    }
    Response::Keys(vec![revoked])
}
