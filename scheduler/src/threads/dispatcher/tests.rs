//! What the dispatcher hands to the sender, and in which order.

use crossbeam_channel::bounded;
use starfarm_protocol::ids::{Attempt, Boot, ContentHash, FarmId, JobId};
use starfarm_protocol::limits::PROTOCOL_VERSION;
use starfarm_protocol::seal::Session;
use starfarm_protocol::wire::{Hello, Message, Outcome, Packer, ResultEntry, messages};
use starfarm_scheduler_core::{Config, NewJob, NodeId, Place, Sizing, Terms, Trust};

use super::*;

const NODE: NodeId = NodeId(0);

/// What the result thread hands on when a worker has a new session and has said hello in it.
fn comes(boot: u64) -> Vec<Input> {
    let hello = Hello {
        version: PROTOCOL_VERSION,
        boot: Boot(boot),
        slots: 1,
        queue_tasks_max: 8,
        receive_datagrams_max: 92,
        known_epoch: Epoch(0),
        known_proof: [0; 16],
        died_running: Vec::new(),
    };
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], boot as u16));
    let sealer = Session::plain(1, boot as u32, 0).sealer;
    vec![
        Input::Session(NODE, "a".into()),
        Input::Outgoing(vec![Outgoing::Peer(NODE, sealer, address)]),
        said(|packer| packer.hello(&hello)),
    ]
}

fn said(say: impl FnOnce(&mut Packer)) -> Input {
    let mut packer = Packer::new();
    say(&mut packer);
    Input::Datagrams(packer.finish().into_iter().map(|datagram| (NODE, datagram)).collect())
}

/// A job of one unit, and its result.
fn job_and_result() -> (NewJob, Input) {
    let spec = ContentHash([1; 32]);
    let new = NewJob {
        name: "job".into(),
        user: "ada".into(),
        spec,
        units: 1,
        work: starfarm_protocol::job::WorkFacts::NOTHING,
        sizing: Sizing::Units(1),
        max_failures: starfarm_protocol::job::MaxFailures::Usual,
        speculative: false,
        trust: Trust::default(),
        terms: Terms::default(),
        place: Place::Tail,
    };
    let result = said(|packer| {
        packer.result(&ResultEntry {
            job: JobId(1),
            spec,
            sequence: 1,
            attempt: Attempt(1),
            lo: 0,
            units: 1,
            duration_us: 1,
            outcome: Outcome::Done,
            body: &[],
        });
    });
    (new, result)
}

/// What a node is told: by which session, and whether that welcomes or acknowledges.
fn told(batches: &Receiver<Vec<Outgoing>>) -> Vec<(u16, &'static str)> {
    let (mut port, mut told) = (0, Vec::new());
    for outgoing in batches.try_iter().flatten() {
        match outgoing {
            Outgoing::Peer(_, _, address) => port = address.port(),
            Outgoing::Datagrams(_, datagrams) => {
                for message in datagrams.iter().flat_map(|datagram| messages(datagram)) {
                    match message.unwrap() {
                        Message::Welcome(_) => told.push((port, "welcome")),
                        Message::ResultAck { .. } => told.push((port, "acknowledged")),
                        _ => {}
                    }
                }
            }
            Outgoing::Whole(..) | Outgoing::Size(..) => {}
        }
    }
    told
}

/// A dispatcher with a farm without jobs, and the far ends of its links.
struct Stage {
    dir: std::path::PathBuf,
    to_dispatcher: Sender<Input>,
    batches: Receiver<Vec<Outgoing>>,
    records: Receiver<ToJournal>,
    shared: Arc<Shared>,
    thread: std::thread::JoinHandle<()>,
}

fn stage(name: &str, first: Vec<Input>) -> Stage {
    let dir = std::env::temp_dir().join(format!("starfarm-dispatcher-{name}-{}", std::process::id()));
    let (state, _) = StateDir::open(&dir).unwrap();
    let (to_dispatcher, inputs) = bounded(64);
    let (sender, batches) = bounded(64);
    let (journal, records) = bounded(64);
    let (events, _told) = bounded(64);
    first.into_iter().for_each(|input| to_dispatcher.send(input).unwrap());
    let links =
        Links { inputs, sender, journal, state: Arc::new(state), events, log: None, bells: Arc::default() };
    let shared = Shared::new(1_000_000);
    let farm = Farm::new(Config::new(FarmId([1; 16]), Epoch(1)), shared.now_us());
    let theirs = Arc::clone(&shared);
    let thread = std::thread::spawn(move || run(farm, links, &theirs));
    Stage { dir, to_dispatcher, batches, records, shared, thread }
}

/// A thread that asks has an end of the channel itself: a question behind the last turn was in it for ever, and a
/// scheduler that should stop waited for that thread.
#[test]
fn a_question_behind_the_stop_is_refused_while_its_asker_holds_the_channel() {
    let (reply, answer) = oneshot::channel();
    let question = super::super::Question { act: Box::new(|_, _, _| Response::Done), reply };
    let Stage { dir, to_dispatcher, batches, records, thread, .. } =
        stage("late", vec![Input::Stop, Input::Ask(question)]);
    let (refused, is_refused) = bounded(1);
    std::thread::spawn(move || refused.send(answer.blocking_recv().is_err()));
    assert_eq!(is_refused.recv_timeout(Duration::from_secs(10)), Ok(true));
    // Those who hear from the dispatcher hear of its end before the last who sends to it has gone.
    assert!(batches.iter().next().is_none() && records.iter().next().is_none());
    drop(to_dispatcher);
    thread.join().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_was_meant_for_an_incarnation_that_has_gone_is_not_sealed_for_the_next_one() {
    let Stage { dir, to_dispatcher, batches, records, shared, thread } = stage("session", Vec::new());
    let (new, result) = job_and_result();
    let (reply, _answer) = oneshot::channel();
    let act = Box::new(move |farm: &mut Farm, now_us, deeds: &mut Deeds| {
        farm.submit(new, now_us, deeds).unwrap();
        Response::Done
    });
    to_dispatcher.send(Input::Ask(super::super::Question { act, reply })).unwrap();
    comes(1).into_iter().for_each(|input| to_dispatcher.send(input).unwrap());
    to_dispatcher.send(result).unwrap();
    // Once all of it is on the disk the result is acknowledged; the sender does nothing meanwhile.
    while batches.len() < 2 {
        for written in records.try_iter() {
            let ToJournal::Records(records) = written else { continue };
            shared.set_durable(records.last().unwrap().0);
        }
        to_dispatcher.send(Input::Durable).unwrap();
        std::thread::yield_now();
    }
    comes(2).into_iter().for_each(|input| to_dispatcher.send(input).unwrap());
    to_dispatcher.send(Input::Stop).unwrap();
    drop(to_dispatcher);
    thread.join().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(told(&batches), [(1, "welcome"), (1, "acknowledged"), (2, "welcome")]);
}
