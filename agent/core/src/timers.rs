//! When something happens: at a moment, after a while, or again and again. Timers have names and subscribers; all that
//! are due at one time reach a subscriber together.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::check_name;
use crate::refusal::{PERIOD_US_MIN, Refusal, TIMERS_MAX};
use crate::words::{Maker, StageNumber, TimerName, When};

struct Timer {
    /// When it fires next; none where it has fired, and does so once.
    due_us: Option<u64>,
    period_us: Option<u64>,
    subscribers: BTreeSet<StageNumber>,
    maker: Maker,
}

/// A timer, as others see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimerInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its period, in microseconds; none where it fires once.
    pub period_us: Option<u64>,
    /// Those that it fires for.
    pub subscribers: Vec<StageNumber>,
}

/// All timers of an agent.
#[derive(Default)]
pub(crate) struct Timers {
    by_name: BTreeMap<TimerName, Timer>,
}

impl Timers {
    /// Makes a timer, or gives one that is there another time; its subscribers stay.
    pub(crate) fn set(&mut self, name: &str, when: When, maker: Maker, now_us: u64) -> Result<(), Refusal> {
        let (due_us, period_us) = match when {
            When::At(at_us) => (at_us, None),
            When::After(us) => (now_us.saturating_add(us), None),
            When::Every(period_us) if period_us < PERIOD_US_MIN => return Err(Refusal::PeriodTooShort),
            When::Every(period_us) => (next_multiple(now_us, period_us), Some(period_us)),
        };
        if !self.by_name.contains_key(name) {
            check_name(name)?;
            // Whatever others have, there is room for those that the agent needs.
            let others = self.by_name.values().filter(|timer| timer.maker != Maker::Agent).count();
            if maker != Maker::Agent && others == TIMERS_MAX {
                return Err(Refusal::TooManyTimers);
            }
        }
        let timer = self.by_name.entry(name.to_owned());
        let timer = timer.or_insert_with(|| Timer {
            due_us: None,
            period_us: None,
            subscribers: BTreeSet::new(),
            maker,
        });
        (timer.due_us, timer.period_us) = (Some(due_us), period_us);
        Ok(())
    }

    /// Ends those that it has had made.
    pub(crate) fn end_those_of(&mut self, maker: Maker) {
        self.by_name.retain(|_, timer| timer.maker != maker);
    }

    /// There is such a timer, and it is the agent's own.
    pub(crate) fn is_own(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|timer| timer.maker == Maker::Agent)
    }

    pub(crate) fn end(&mut self, name: &str) -> Result<(), Refusal> {
        self.by_name.remove(name).map(drop).ok_or_else(|| Refusal::NoTimer(name.to_owned()))
    }

    pub(crate) fn subscribe(&mut self, name: &str, stage: StageNumber, on: bool) -> Result<(), Refusal> {
        let timer = self.by_name.get_mut(name).ok_or_else(|| Refusal::NoTimer(name.to_owned()))?;
        if on {
            timer.subscribers.insert(stage);
        } else {
            timer.subscribers.remove(&stage);
        }
        Ok(())
    }

    /// A stage has ended: it hears of no timer any more.
    pub(crate) fn forget(&mut self, stage: StageNumber) {
        for timer in self.by_name.values_mut() {
            timer.subscribers.remove(&stage);
        }
    }

    /// All of them, by name.
    pub(crate) fn all(&self) -> Vec<TimerInfo<'_>> {
        let all = self.by_name.iter();
        all.map(|(name, timer)| TimerInfo {
            name,
            period_us: timer.period_us,
            subscribers: timer.subscribers.iter().copied().collect(),
        })
        .collect()
    }

    /// When the next timer is due.
    pub(crate) fn next_due_us(&self) -> Option<u64> {
        self.by_name.values().filter_map(|timer| timer.due_us).min()
    }

    /// The clock went back: those that fire again and again do so by the new one. Those that fire once wait for their moment.
    pub(crate) fn begin_anew(&mut self, now_us: u64) {
        for timer in self.by_name.values_mut() {
            if let Some(period_us) = timer.period_us {
                timer.due_us = Some(next_multiple(now_us, period_us));
            }
        }
    }

    /// Fires all that are due: for each subscriber the names of its own. After a pause a periodic timer fires once.
    pub(crate) fn fire(&mut self, now_us: u64) -> BTreeMap<StageNumber, Vec<TimerName>> {
        let mut fired = BTreeMap::<_, Vec<TimerName>>::new();
        for (name, timer) in &mut self.by_name {
            if timer.due_us.is_none_or(|due_us| due_us > now_us) {
                continue;
            }
            timer.due_us = timer.period_us.map(|period_us| next_multiple(now_us, period_us));
            for stage in &timer.subscribers {
                fired.entry(*stage).or_default().push(name.clone());
            }
        }
        fired
    }
}

/// The first multiple behind this time.
fn next_multiple(now_us: u64, period_us: u64) -> u64 {
    (now_us / period_us + 1).saturating_mul(period_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKER: Maker = Maker::File;

    fn fired(timers: &mut Timers, now_us: u64) -> Vec<String> {
        let all = timers.fire(now_us);
        all.into_iter().map(|(stage, names)| format!("{}: {}", stage.0, names.join(" "))).collect()
    }

    #[test]
    fn timers_that_are_due_together_reach_a_subscriber_together() {
        let mut timers = Timers::default();
        timers.set("second", When::Every(1_000_000), MAKER, 1_500_000).unwrap();
        timers.set("tenth", When::Every(100_000), MAKER, 1_500_000).unwrap();
        timers.set("once", When::After(400_000), MAKER, 1_500_000).unwrap();
        for (name, stage) in [("second", 1), ("tenth", 1), ("tenth", 2), ("once", 2)] {
            timers.subscribe(name, StageNumber(stage), true).unwrap();
        }
        assert_eq!(timers.next_due_us(), Some(1_600_000));
        assert_eq!(fired(&mut timers, 1_600_000), ["1: tenth", "2: tenth"]);
        assert_eq!(fired(&mut timers, 2_000_000), ["1: second tenth", "2: once tenth"]);
        assert_eq!(fired(&mut timers, 2_050_000), [] as [&str; 0]);
        timers.forget(StageNumber(2));
        assert_eq!(fired(&mut timers, 2_100_000), ["1: tenth"]);
    }

    #[test]
    fn after_a_pause_a_timer_fires_once_and_goes_on_at_its_own_moments() {
        let mut timers = Timers::default();
        timers.set("tenth", When::Every(100_000), MAKER, 0).unwrap();
        timers.subscribe("tenth", StageNumber(1), true).unwrap();
        assert_eq!(fired(&mut timers, 5_030_000), ["1: tenth"]);
        assert_eq!(timers.next_due_us(), Some(5_100_000));
    }

    #[test]
    fn timers_that_fire_again_and_again_go_by_a_clock_that_went_back() {
        let mut timers = Timers::default();
        timers.set("second", When::Every(1_000_000), MAKER, 3_600_000_000).unwrap();
        timers.set("once", When::At(3_601_000_000), MAKER, 3_600_000_000).unwrap();
        timers.begin_anew(5_500_000);
        assert_eq!(timers.next_due_us(), Some(6_000_000));
        timers.subscribe("second", StageNumber(1), true).unwrap();
        assert_eq!(fired(&mut timers, 6_000_000), ["1: second"]);
    }

    #[test]
    fn a_timer_is_set_anew_with_the_same_subscribers_and_can_be_ended() {
        let mut timers = Timers::default();
        timers.set("t", When::At(7), MAKER, 0).unwrap();
        timers.subscribe("t", StageNumber(1), true).unwrap();
        assert_eq!(fired(&mut timers, 9), ["1: t"]);
        assert_eq!(timers.next_due_us(), None);
        timers.set("t", When::At(3), MAKER, 9).unwrap();
        assert_eq!(fired(&mut timers, 9), ["1: t"], "it is over already");
        timers.set("t", When::At(20), MAKER, 9).unwrap();
        timers.subscribe("t", StageNumber(1), false).unwrap();
        assert_eq!(fired(&mut timers, 20), [] as [&str; 0]);
        assert_eq!((timers.end("t"), timers.end("t")), (Ok(()), Err(Refusal::NoTimer("t".into()))));
        assert_eq!(timers.set("t", When::Every(9_999), MAKER, 0), Err(Refusal::PeriodTooShort));
    }

    #[test]
    fn there_are_so_many_timers_at_most() {
        let mut timers = Timers::default();
        (0..TIMERS_MAX).for_each(|n| timers.set(&n.to_string(), When::At(1), MAKER, 0).unwrap());
        assert_eq!(timers.set("one-more", When::At(1), MAKER, 0), Err(Refusal::TooManyTimers));
        assert_eq!(
            timers.set("one more", When::At(1), MAKER, 0),
            Err(Refusal::BadName("one more".to_owned()))
        );
        assert_eq!(timers.set("7", When::At(2), MAKER, 0), Ok(()));
        assert_eq!(timers.set("own", When::At(2), Maker::Agent, 0), Ok(()), "the agent needs it");
    }
}
