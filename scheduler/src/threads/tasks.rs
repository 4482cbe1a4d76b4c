//! Tasks as they go to nodes and come back, one by one, for who looks on a small farm: the paper's events "task sent" and
//! "task removed". Read off the datagrams, and only while somebody asks; on a large farm most are left out and counted.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use starfarm_protocol::admin::{EventLine, Response};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::interval::Interval;
use starfarm_protocol::wire::{Message, Outcome, messages};
use starfarm_scheduler_core::{Deed, Deeds, Farm, NodeId};

use crate::ring::Ring;

/// Lines of a second: more nobody reads. What is beyond is counted.
const LINES_A_SECOND: u32 = 200;
/// So long after a request lines are made for the next one.
const WANTED_US: u64 = 10_000_000;
const SECOND_US: u64 = 1_000_000;

/// The last lines.
#[derive(Default)]
pub(crate) struct TaskLines {
    wanted_until_us: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    ring: Ring,
    /// The second that is counted, and lines in it.
    second: u64,
    lines: u32,
}

impl TaskLines {
    /// Somebody asks: see [`Ring::page`].
    pub(crate) fn page(&self, after: u64, take: u64, now_us: u64) -> Response {
        self.wanted_until_us.store(now_us.saturating_add(WANTED_US), Ordering::Relaxed);
        self.kept.lock().expect("a panic under the lock ends the process").ring.page(after, take)
    }

    /// Somebody has asked lately.
    pub(crate) fn are_wanted(&self, now_us: u64) -> bool {
        now_us < self.wanted_until_us.load(Ordering::Relaxed)
    }

    /// Results among what came in: a line each.
    pub(crate) fn came(&self, farm: &Farm, batch: &[(NodeId, Vec<u8>)], now_us: u64) {
        for (node, datagram) in batch {
            for message in messages(datagram).map_while(Result::ok) {
                let Message::Results(results) = message else { continue };
                for entry in results.map_while(Result::ok) {
                    let seconds = entry.duration_us as f64 / 1e6;
                    let how = match entry.outcome {
                        Outcome::Done => format!("done after {seconds:.3} s"),
                        Outcome::Returned => "given back".to_owned(),
                        Outcome::Refused => "refused".to_owned(),
                    };
                    let what = ("task_back", "back from", Some(how));
                    self.tell(farm, *node, entry.job, entry.at(), what, now_us);
                }
            }
        }
    }

    /// Offers among what goes out: a line each.
    pub(crate) fn went(&self, farm: &Farm, deeds: &Deeds, now_us: u64) {
        let sent = deeds.0.iter().filter_map(|deed| match deed {
            Deed::Send(node, datagrams) => Some((node, datagrams)),
            _ => None,
        });
        for (node, datagrams) in sent {
            for message in datagrams.iter().flat_map(|datagram| messages(datagram)).map_while(Result::ok) {
                let Message::Offers(offers) = message else { continue };
                for offer in offers.map_while(Result::ok) {
                    let at = Interval::new(offer.lo, offer.hi());
                    self.tell(farm, *node, offer.job, at, ("task_sent", "sent to", None), now_us);
                }
            }
        }
    }

    fn tell(
        &self,
        farm: &Farm,
        node: NodeId,
        job: JobId,
        at: Interval,
        (kind, way, how): (&str, &str, Option<String>),
        now_us: u64,
    ) {
        // What a node sent before it was forgotten is told by nobody.
        let Some(name) = farm.node_name(node) else { return };
        let mut kept = self.kept.lock().expect("a panic under the lock ends the process");
        if kept.second != now_us / SECOND_US {
            (kept.second, kept.lines) = (now_us / SECOND_US, 0);
        }
        kept.lines += 1;
        if kept.lines > LINES_A_SECOND {
            return kept.ring.leave_out();
        }
        let how = how.map_or_else(String::new, |how| format!(": {how}"));
        kept.ring.keep(EventLine {
            number: 0,
            at_us: now_us,
            kind: kind.to_owned(),
            text: format!("task {at} of job {} {way} node {name}{how}", job.0),
            node: Some(name),
            job: Some(job),
        });
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::{Attempt, ContentHash, Epoch, FarmId};
    use starfarm_protocol::wire::{Offer, Packer, ResultEntry};
    use starfarm_scheduler_core::Config;

    use super::*;

    fn farm() -> Farm {
        let mut farm = Farm::new(Config::new(FarmId([1; 16]), Epoch(1)), 0);
        farm.on_session(NodeId(0), "n1", 0);
        farm
    }

    fn offers(lo: std::ops::Range<u128>) -> Deeds {
        let mut packer = Packer::new();
        for lo in lo {
            let (job, spec, attempt) = (JobId(7), ContentHash([1; 32]), Attempt(lo as u64));
            packer.offer(&Offer { job, spec, attempt, lo, units: 1 });
        }
        Deeds(vec![Deed::Send(NodeId(0), packer.finish())])
    }

    fn texts(page: Response) -> (Vec<String>, u64) {
        let Response::Events { events, missed } = page else { panic!("events") };
        (events.into_iter().map(|line| line.text).collect(), missed)
    }

    #[test]
    fn tasks_that_go_and_come_have_a_line_each_once_somebody_asks() {
        let (lines, farm) = (TaskLines::default(), farm());
        assert!(!lines.are_wanted(5));
        assert_eq!(texts(lines.page(0, 9, 5)), (vec![], 0));
        assert!(lines.are_wanted(5 + WANTED_US - 1) && !lines.are_wanted(5 + WANTED_US));
        lines.went(&farm, &offers(0..2), 6);
        let mut packer = Packer::new();
        let result = |lo, duration_us, outcome| ResultEntry {
            job: JobId(7),
            spec: ContentHash([1; 32]),
            sequence: 1,
            attempt: Attempt(1),
            lo,
            units: 1,
            duration_us,
            outcome,
            body: &[],
        };
        packer.result(&result(0, 1_500_000, Outcome::Done));
        packer.result(&result(1, 0, Outcome::Returned));
        let heard: Vec<_> = packer.finish().into_iter().map(|datagram| (NodeId(0), datagram)).collect();
        lines.came(&farm, &heard, 7);
        let (told, missed) = texts(lines.page(0, 9, 8));
        assert_eq!(missed, 0);
        assert_eq!(
            told,
            [
                "task [0, 1) of job 7 sent to node n1",
                "task [1, 2) of job 7 sent to node n1",
                "task [0, 1) of job 7 back from node n1: done after 1.500 s",
                "task [1, 2) of job 7 back from node n1: given back",
            ]
        );
    }

    #[test]
    fn what_is_too_much_to_read_is_left_out_and_counted() {
        let (lines, farm) = (TaskLines::default(), farm());
        lines.went(&farm, &offers(0..1_000), 1);
        lines.went(&farm, &offers(1_000..1_003), SECOND_US);
        let (told, missed) = texts(lines.page(0, u64::MAX, 2));
        assert_eq!((told.len(), missed), (LINES_A_SECOND as usize + 3, 1_000 - u64::from(LINES_A_SECOND)));
        // Who has the last number misses nothing.
        assert_eq!(texts(lines.page(1_003, u64::MAX, 2)), (vec![], 0));
        assert_eq!(texts(lines.page(900, u64::MAX, 2)).1, 100, "these were left out behind it");
    }
}
