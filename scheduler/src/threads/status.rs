//! The status thread: writes what happens to standard error, a line an event, and every period the farm's
//! online figures; keeps the last lines for screens. Nobody waits for it: events that it has no room for are dropped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use starfarm_events::{Event, NodeState};
use starfarm_protocol::admin::Response;
use starfarm_protocol::foreign;
use starfarm_scheduler_core::{Deeds, Farm};
use tokio::sync::oneshot;

use super::{Input, Question, Shared, Told};

/// Hits that have a line each ...
const HITS_SHOWN: u32 = 10;
/// ... within this time.
const HITS_SPAN: Duration = Duration::from_secs(1);

/// Runs until the dispatcher is gone. Figures come every `period`; `quiet` keeps everything to itself.
pub(crate) fn run(
    events: &Receiver<Arc<Told>>,
    dispatcher: &Sender<Input>,
    shared: &Arc<Shared>,
    (period, quiet): (Duration, bool),
) {
    let mut next = Instant::now() + period;
    let mut hits = Hits::default();
    loop {
        // Before the next event is taken: on a busy farm there is always one.
        if Instant::now() >= next {
            next = Instant::now() + period;
            if !quiet && let Some(line) = figures(dispatcher) {
                say(shared, &line);
            }
        }
        if let Some(more) = hits.rest(Instant::now()).filter(|_| !quiet) {
            say(shared, &format!("{more} more hits within a second: `starfarm results` prints them all"));
        }
        let wake = hits.due().map_or(next, |due| due.min(next));
        match events.recv_timeout(wake.saturating_duration_since(Instant::now())) {
            Ok(told) => {
                for event in told.events.iter().filter(|event| !event.dense()) {
                    if matches!(event, Event::Hit { .. }) && !hits.shows(Instant::now()) {
                        continue;
                    }
                    let line = foreign::line(&event.to_string());
                    let mut lines = shared.lines.lock().expect("a panic under the lock ends the process");
                    lines.push(told.at_us, event, &line);
                    drop(lines);
                    if !quiet {
                        say(shared, &line);
                    }
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// A search may have thousands of hits a second. Each has a line while they are few; the others are counted.
#[derive(Default)]
struct Hits {
    until: Option<Instant>,
    shown: u32,
    more: u64,
}

impl Hits {
    /// Whether the next hit has a line.
    fn shows(&mut self, now: Instant) -> bool {
        if self.more == 0 && self.until.is_none_or(|until| now >= until) {
            *self = Self { until: Some(now + HITS_SPAN), ..Self::default() };
        }
        if self.shown < HITS_SHOWN {
            self.shown += 1;
            return true;
        }
        self.more += 1;
        false
    }

    /// How many had none, once their second is over.
    fn rest(&mut self, now: Instant) -> Option<u64> {
        self.due().filter(|due| now >= *due)?;
        Some(std::mem::take(self).more)
    }

    /// When that is to be told.
    fn due(&self) -> Option<Instant> {
        self.until.filter(|_| self.more > 0)
    }
}

fn say(shared: &Shared, line: &str) {
    let seconds = shared.up_seconds();
    starfarm_net::say(&format!("[{seconds:>12.3}] {line}"));
}

/// The paper's online figures in a line; `None` where nothing goes on.
fn figures(dispatcher: &Sender<Input>) -> Option<String> {
    let (reply, answer) = oneshot::channel();
    let act = Box::new(|farm: &mut Farm, now_us, _: &mut Deeds| Response::Status(farm.status(now_us)));
    dispatcher.send(Input::Ask(Question { act, reply })).ok()?;
    let Response::Status(status) = answer.blocking_recv().ok()? else { return None };
    let up = status.nodes.iter().filter(|node| node.state == NodeState::Up).count();
    (status.jq > 0 || status.dq > 0).then(|| {
        format!(
            "nodes up {up}, power mean {:.2}, granularity {}, speed-ups {}, slow-downs {}, gq {}, dq {}, jq {}, resent {}, \
             decomposed {}, mean size {:.0}",
            status.power_mean,
            status.granularity_seconds.map_or_else(|| "fixed".to_owned(), |seconds| format!("{seconds} s")),
            status.speed_ups,
            status.slow_downs,
            status.gq,
            status.dq,
            status.jq,
            status.resent,
            status.tasks_decomposed,
            status.task_units_mean
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_hits_a_second_are_a_few_lines_and_a_count() {
        let start = Instant::now();
        let mut hits = Hits::default();
        let shown = (0..20_000).filter(|_| hits.shows(start)).count();
        assert_eq!((shown, hits.rest(start)), (10, None), "the second is not over");
        assert_eq!(hits.due(), Some(start + HITS_SPAN));
        assert_eq!(hits.rest(start + HITS_SPAN), Some(19_990));
        assert!(hits.shows(start + HITS_SPAN), "the next second begins anew");
        assert_eq!((hits.due(), hits.rest(start + 9 * HITS_SPAN)), (None, None), "none was left out");
    }

    /// A farm on which something happens all the time had no line of figures.
    #[test]
    fn figures_come_though_events_never_pause() {
        let (to_status, events) = crossbeam_channel::unbounded();
        let (dispatcher, asked) = crossbeam_channel::unbounded();
        let event = || Event::Stalled { for_us: 1 };
        for at_us in 0..5 {
            to_status.send(Arc::new(Told { at_us, events: vec![event()] })).unwrap();
        }
        // It hangs up once the last event is taken, so that it never waits for one.
        drop(to_status);
        let answers = std::thread::spawn(move || {
            let asked = asked.iter().filter(|input| matches!(input, Input::Ask(_)));
            asked.map(drop).count()
        });
        run(&events, &dispatcher, &Shared::new(0), (Duration::ZERO, false));
        drop(dispatcher);
        assert!(answers.join().unwrap() >= 5);
    }
}
