//! The link to the scheduler: when to shake hands, to say hello, to beat. It knows nothing of tasks.

use starfarm_protocol::random::SplitMix64;
use starfarm_protocol::settings;
use starfarm_protocol::wire::Pace;

/// A hello is repeated this often until the welcome.
const HELLO_US: u64 = 1_000_000;
/// First wait between two handshakes; it doubles up to what the farm's pace says.
const BACK_OFF_MIN_US: u64 = 1_000_000;
/// Heartbeats in a row without anything heard that end the trust in a session.
const UNANSWERED_MAX: u32 = 3;
/// One hint is heeded in this time.
const HINT_US: u64 = 1_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// A session exists, perhaps one that nobody answers on any more.
    session: bool,
    welcomed: bool,
    /// When the next handshake is due, if one is wanted.
    handshake_at: Option<u64>,
    /// Handshakes since the last welcome.
    tries: u32,
    hello_at: u64,
    heartbeat_at: u64,
    heartbeat_us: u64,
    /// As the scheduler last said; the defaults until it does.
    pub(crate) pace: Pace,
    /// The number of the newest orders, as the scheduler last said; 0: none.
    pub(crate) newest_orders: u64,
    /// Number of the last heartbeat.
    pub(crate) number: u32,
    unanswered: u32,
    /// Hints are heeded from then on.
    hint_at: u64,
    heard_us: u64,
    random: SplitMix64,
}

impl Link {
    pub(crate) fn new(heartbeat_us: u64, seed: u64, now_us: u64) -> Self {
        Self {
            session: false,
            welcomed: false,
            handshake_at: Some(now_us),
            tries: 0,
            hello_at: u64::MAX,
            heartbeat_at: u64::MAX,
            heartbeat_us,
            pace: Pace::DEFAULT,
            newest_orders: 0,
            number: 0,
            unanswered: 0,
            hint_at: 0,
            heard_us: now_us,
            random: SplitMix64(seed),
        }
    }

    pub(crate) fn has_session(&self) -> bool {
        self.session
    }

    pub(crate) fn is_welcomed(&self) -> bool {
        self.welcomed
    }

    /// A new session is up: hello and a heartbeat are due.
    pub(crate) fn on_session(&mut self, now_us: u64) {
        self.session = true;
        self.welcomed = false;
        self.handshake_at = None;
        self.unanswered = 0;
        self.heard_us = now_us;
        self.hello_at = now_us;
        self.heartbeat_at = now_us;
        debug_assert!(self.deadline() <= now_us, "a new session begins at once");
    }

    pub(crate) fn on_heard(&mut self, now_us: u64) {
        self.heard_us = now_us;
        self.unanswered = 0;
    }

    /// The scheduler welcomed us; true the first time in this session.
    pub(crate) fn on_welcome(&mut self, heartbeat_ms: u32, now_us: u64) -> bool {
        assert!(self.session, "who is welcomed has a session to speak in");
        self.heartbeat_us = settings::heartbeat_us(heartbeat_ms);
        // The next one was planned at another pace, which may be too slow for this farm.
        self.heartbeat_at = self.heartbeat_at.min(now_us + self.heartbeat_us);
        self.hello_at = u64::MAX;
        self.tries = 0;
        self.handshake_at = None;
        !std::mem::replace(&mut self.welcomed, true)
    }

    /// The scheduler's incarnation changed under us: introduce ourselves again.
    pub(crate) fn unwelcome(&mut self, now_us: u64) {
        self.welcomed = false;
        self.hello_at = now_us;
    }

    /// The scheduler in this session is not the one to work for. Nothing more is said in it; handshakes look
    /// for the right one, and each brings a hello, which tells the wrong one what we know.
    pub(crate) fn on_refused(&mut self, now_us: u64) {
        self.session = false;
        self.welcomed = false;
        self.hello_at = u64::MAX;
        self.heartbeat_at = u64::MAX;
        if self.handshake_at.is_none() {
            self.handshake_at = Some(now_us + self.back_off_us());
        }
        assert!(self.handshake_at.is_some(), "without a session one is looked for");
    }

    /// The scheduler may have forgotten this session: a handshake is due now, whatever the back-off says. The
    /// hint may be forged, so that no more than one in a while is heeded, and the session stays.
    pub(crate) fn on_no_session(&mut self, now_us: u64) {
        if now_us >= self.hint_at {
            self.hint_at = now_us + HINT_US;
            self.handshake_at = Some(now_us);
        }
    }

    pub(crate) fn beat_soon(&mut self, now_us: u64) {
        if self.session {
            self.heartbeat_at = self.heartbeat_at.min(now_us);
        }
    }

    /// A handshake is due now. The next one comes after a back-off with jitter: between half of and the
    /// whole of 1 s, 2 s, 4 s ... up to the pace's reconnect.
    pub(crate) fn handshake_due(&mut self, now_us: u64) -> bool {
        if self.handshake_at.is_none_or(|at| at > now_us) {
            return false;
        }
        self.handshake_at = Some(now_us + self.back_off_us());
        self.tries = self.tries.saturating_add(1);
        assert!(self.handshake_at > Some(now_us), "handshakes pause between each other");
        true
    }

    fn back_off_us(&mut self) -> u64 {
        let longest = BACK_OFF_MIN_US.saturating_mul(1 << self.tries.min(10)).min(self.pace.reconnect_us());
        longest / 2 + self.random.below(longest / 2)
    }

    pub(crate) fn hello_due(&mut self, now_us: u64) -> bool {
        let due = self.session && !self.welcomed && self.hello_at <= now_us;
        if due {
            self.hello_at = now_us + HELLO_US;
        }
        due
    }

    /// A heartbeat is due now, and takes the next number. Where too many went unanswered, a handshake is
    /// planned, within a heartbeat period for a first one so that not all workers knock at once.
    pub(crate) fn heartbeat_due(&mut self, now_us: u64, idle: bool) -> bool {
        if !self.session || self.heartbeat_at > now_us {
            return false;
        }
        let silent = idle && now_us.saturating_sub(self.heard_us) >= self.pace.idle_us();
        if (self.unanswered >= UNANSWERED_MAX || silent) && self.handshake_at.is_none() {
            self.handshake_at = Some(now_us + 1 + self.random.below(self.heartbeat_us.min(BACK_OFF_MIN_US)));
        }
        self.number = self.number.wrapping_add(1);
        self.unanswered = self.unanswered.saturating_add(1);
        // From now, not from the plan: a paused process must not catch up with a burst.
        self.heartbeat_at = now_us + self.heartbeat_us;
        assert!(self.heartbeat_at > now_us, "a heartbeat's period is more than nothing");
        true
    }

    pub(crate) fn deadline(&self) -> u64 {
        let beats = if self.session { self.heartbeat_at.min(self.hello_at) } else { u64::MAX };
        beats.min(self.handshake_at.unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_back_off_with_jitter_and_never_stop() {
        let mut link = Link::new(1_000_000, 1, 0);
        let (mut now, mut waits) = (0, Vec::new());
        for _ in 0..40 {
            assert!(link.handshake_due(now) && !link.handshake_due(now));
            waits.push(link.deadline() - now);
            now = link.deadline();
        }
        assert!((500_000..=1_000_000).contains(&waits[0]), "{waits:?}");
        assert!((1_000_000..=2_000_000).contains(&waits[1]), "{waits:?}");
        assert!(waits[6..].iter().all(|w| (15_000_000..=30_000_000).contains(w)), "{waits:?}");
        assert!(waits[6..].windows(2).any(|w| w[0] != w[1]), "jitter: {waits:?}");
    }

    #[test]
    fn three_unanswered_heartbeats_want_a_handshake_and_an_answer_prevents_it() {
        let beat = |answered: bool| {
            let mut link = Link::new(1_000_000, 1, 0);
            link.on_session(0);
            link.on_welcome(1_000, 0);
            for n in 0..10 {
                assert!(link.heartbeat_due(n * 1_000_000, false));
                if answered {
                    link.on_heard(n * 1_000_000);
                }
            }
            link.handshake_at
        };
        assert_eq!(beat(true), None);
        let at = beat(false).unwrap();
        assert!((3_000_000..4_000_000).contains(&at), "{at}");
    }

    /// One plan in a million was for the very moment in which it was made, when its tick had done all handshakes.
    #[test]
    fn a_handshake_is_planned_for_later_whatever_chance_says() {
        for seed in 0..4_096 {
            let mut link = Link::new(1, seed, 0);
            link.on_session(0);
            for now in 0..=u64::from(UNANSWERED_MAX) {
                assert!(link.handshake_at.is_none() && link.heartbeat_due(now, false));
            }
            assert!(link.handshake_at > Some(u64::from(UNANSWERED_MAX)), "seed {seed}");
        }
    }

    #[test]
    fn a_hint_cuts_the_back_off_short() {
        let mut link = Link::new(1_000_000, 1, 0);
        link.on_session(0);
        link.on_welcome(1_000, 0);
        let mut now = 0;
        while now < 60_000_000 {
            now += 1_000;
            link.heartbeat_due(now, false);
            link.handshake_due(now);
        }
        assert!(link.handshake_at.unwrap() > now);
        link.on_no_session(now);
        assert!(link.handshake_due(now) && !link.handshake_due(now));
    }

    #[test]
    fn a_flood_of_hints_costs_a_handshake_a_second_and_no_session() {
        let mut link = Link::new(1_000_000, 1, 0);
        link.on_session(0);
        link.on_welcome(1_000, 0);
        let mut handshakes = 0;
        for now in (0..60_000_000).step_by(1_000) {
            link.on_no_session(now);
            if link.handshake_due(now) {
                handshakes += 1;
                assert!(link.has_session() && link.is_welcomed());
                link.on_session(now);
                link.on_welcome(1_000, 0);
            }
        }
        assert_eq!(handshakes, 60);
    }

    #[test]
    fn an_idle_worker_that_beats_slowly_does_not_wait_for_three_beats() {
        let handshake = |idle| {
            let mut link = Link::new(60_000_000, 1, 0);
            link.on_session(0);
            link.on_welcome(60_000, 0);
            (0..2).for_each(|n| assert!(link.heartbeat_due(n * 60_000_000, idle)));
            link.handshake_at.is_some()
        };
        assert!(handshake(true));
        assert!(!handshake(false));
    }

    #[test]
    fn the_pace_sets_when_silence_is_a_cut_and_the_longest_back_off() {
        let (pace, second) = (Pace { idle_ms: 2_000, reconnect_ms: 4_000, period_ms: 1_000 }, 1_000_000);
        let mut link = Link::new(second, 1, 0);
        link.on_session(0);
        link.on_welcome(1_000, 0);
        link.pace = pace;
        assert!(link.heartbeat_due(0, true) && link.heartbeat_due(second, true));
        assert_eq!(link.handshake_at, None, "it is silent for a second only");
        assert!(link.heartbeat_due(2 * second, true));
        let mut now = link.handshake_at.expect("two heartbeats without an answer, but 2 s of silence");
        let mut longest = 0;
        for _ in 0..20 {
            assert!(link.handshake_due(now));
            longest = longest.max(link.handshake_at.unwrap() - now);
            now = link.handshake_at.unwrap();
        }
        assert!((2 * second..=4 * second).contains(&longest), "{longest}");
    }

    /// Else a node is lost at each join of a farm that is faster than the usual.
    #[test]
    fn a_faster_farms_pace_holds_from_the_welcome_on() {
        let mut link = Link::new(10_000_000, 1, 0);
        link.on_session(0);
        assert!(link.heartbeat_due(0, false));
        link.on_welcome(200, 1_000);
        assert!(!link.heartbeat_due(200_000, false) && link.heartbeat_due(201_000, false));
        // A slower one does not put off what was planned.
        link.on_welcome(60_000, 202_000);
        assert!(link.heartbeat_due(401_000, false) && !link.heartbeat_due(60_400_000, false));
    }
}
