//! The status thread: writes what happens to standard error, a line an event, and every period the farm's
//! online figures; keeps the last lines for screens. Nobody waits for it: events that it has no room for are dropped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use starfarm_protocol::admin::Response;
use starfarm_scheduler_core::{Deeds, Farm};
use tokio::sync::oneshot;

use super::{Input, Question, Shared, Told};
use crate::answers;

/// The paper's period.
const PERIOD: Duration = Duration::from_secs(10);

/// Runs until the dispatcher is gone. `quiet` keeps everything to itself.
pub(crate) fn run(
    events: &Receiver<Arc<Told>>,
    dispatcher: &Sender<Input>,
    shared: &Arc<Shared>,
    quiet: bool,
) {
    let mut next = Instant::now() + PERIOD;
    loop {
        match events.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(told) => {
                for event in told.events.iter().filter(|event| !event.dense()) {
                    let line = event.to_string();
                    let mut lines = shared.lines.lock().expect("a panic under the lock ends the process");
                    lines.push(told.at_us, event, &line);
                    drop(lines);
                    if !quiet {
                        say(shared, &line);
                    }
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                next = Instant::now() + PERIOD;
                if !quiet && let Some(line) = figures(dispatcher) {
                    say(shared, &line);
                }
            }
        }
    }
}

fn say(shared: &Shared, line: &str) {
    let seconds = shared.up_seconds();
    starfarm_net::say(&format!("[{seconds:>12.3}] {line}"));
}

/// The paper's online figures in a line; `None` where nothing goes on.
fn figures(dispatcher: &Sender<Input>) -> Option<String> {
    let (reply, answer) = oneshot::channel();
    let act =
        Box::new(|farm: &mut Farm, now_us, _: &mut Deeds| Response::Status(answers::status(farm, now_us)));
    dispatcher.send(Input::Ask(Question { act, reply })).ok()?;
    let Response::Status(status) = answer.blocking_recv().ok()? else { return None };
    let up = status.nodes.iter().filter(|node| node.state == "up").count();
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
