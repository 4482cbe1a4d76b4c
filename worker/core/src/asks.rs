//! Whether a worker wants more tasks for slots of one kind or fewer.

use starfarm_protocol::wire::Feedback;

use crate::queue::Queue;

/// The scheduler's sliding windows are seconds long, so it learns nothing from requests that come faster
/// than this.
const FEEDBACK_US: u64 = 100_000;
/// Who asks for more and gets none asks half as often each time, down to once in this: there is none.
const FEEDBACK_MAX_US: u64 = 60_000_000;
/// A queue that lasts longer than this is too long: twice the prefetch of 60 s (DESIGN, section 6).
const QUEUE_LASTS_MAX_US: u64 = 2 * 60_000_000;

/// What was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asks {
    pub(crate) feedback: Feedback,
    /// When it asked for more last, and how long it waits before it asks again.
    speed_up_us: u64,
    speed_up_pause_us: u64,
    slow_down_at: u64,
}

impl Asks {
    /// A new task came: the next request may follow the last one as soon as any.
    pub(crate) fn fed(&mut self) {
        self.speed_up_pause_us = self.speed_up_pause_us.min(FEEDBACK_US);
    }

    /// Asks for more when what waits takes fewer slots than there are, less and less often until a task comes; for
    /// less when the queue is nearly full or lasts too long. Each at most once in `FEEDBACK_US`. An idle worker
    /// asks at its heartbeats only, since nothing else happens there.
    pub(crate) fn weigh(&mut self, queue: &Queue, queue_tasks_max: u32, slots: u16, now_us: u64) {
        let waiting = queue.len();
        if queue.slots() < u64::from(slots) {
            if now_us >= self.speed_up_us.saturating_add(self.speed_up_pause_us) {
                self.speed_up_us = now_us;
                self.speed_up_pause_us = (2 * self.speed_up_pause_us).clamp(FEEDBACK_US, FEEDBACK_MAX_US);
                self.feedback.speed_ups = self.feedback.speed_ups.wrapping_add(1);
            }
        } else if now_us >= self.slow_down_at {
            self.slow_down_at = now_us + FEEDBACK_US;
            let nearly_full = waiting * 4 > queue_tasks_max as usize * 3;
            if nearly_full || queue.lasts_us(slots) > QUEUE_LASTS_MAX_US {
                self.feedback.slow_downs = self.feedback.slow_downs.wrapping_add(1);
            }
        }
    }
}
