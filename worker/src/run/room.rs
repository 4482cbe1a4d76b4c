//! Room on a worker's disk, where units have their inputs and make their outputs. Where there is too little for all slots at
//! once, units take turns: one that finds none gives back what it has, and tries again when another has given back its own.
//! It is refused only where it finds none with the disk to itself.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::bulk::{FetchError, LOOK};
use starfarm_exec::CancelFlag;

/// A person is told at most so often that slots wait.
const TOLD_EVERY: Duration = Duration::from_secs(600);

/// The slots of a worker share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Who has room: units, and archives on their way to the scheduler.
    stakes: usize,
    /// Units among them that wait for more.
    waiting: usize,
    /// Units that have none and want some, by their tickets.
    queue: VecDeque<u64>,
    tickets: u64,
    /// How often room was taken, and given back, and a unit found the disk full or left it so.
    taken: u64,
    given: u64,
    full: u64,
    /// When a person was told last that slots wait.
    told: Option<Instant>,
}

/// Has room on the disk, which is given back with this. What lies there goes before.
#[derive(Debug)]
pub(super) struct Stake(Room);

impl Drop for Stake {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.stakes -= 1;
        state.given += 1;
        drop(state);
        self.0.0.changed.notify_all();
    }
}

impl Room {
    /// For what lies there already.
    pub(super) fn stake(&self) -> Stake {
        self.take(&mut self.lock())
    }

    fn take(&self, state: &mut State) -> Stake {
        state.stakes += 1;
        state.taken += 1;
        Stake(self.clone())
    }

    /// A unit that has room has found the disk full, if for a moment. Others may fail of that.
    pub(super) fn note_full(&self) {
        self.lock().full += 1;
    }

    /// For a unit that will want room.
    pub(super) fn place(&self) -> Place<'_> {
        Place {
            room: self,
            ticket: None,
            full: 0,
            given: 0,
            failed: false,
            all_since: None,
            wants_its_own: false,
            has_inputs: false,
            alone: false,
            cleared: false,
            has_more: false,
        }
    }

    /// A unit that has room needs more, for what it has computed: where there is none it waits until others give some back,
    /// and tries again. `meanwhile` is called now and then.
    ///
    /// # Errors
    /// The attempt's: [`FetchError::NoRoom`] where all others wait as well. Or that of `meanwhile`.
    pub(super) fn more<T>(
        &self,
        cancel: &CancelFlag,
        mut meanwhile: impl FnMut() -> Result<(), FetchError>,
        mut attempt: impl FnMut() -> Result<T, FetchError>,
    ) -> Result<T, FetchError> {
        loop {
            let given = self.lock().given;
            let came = attempt();
            let had_room = !matches!(came, Err(FetchError::NoRoom(_)));
            if !had_room {
                // What could be written of it has gone by now.
                self.note_full();
            }
            if had_room || !self.is_more_given(given, cancel, &mut meanwhile)? {
                return came;
            }
        }
    }

    /// Waits until room was given back since `given` was counted; false where nobody will, or it is not waited for: a task
    /// that is to end with the unit that runs waits, since that one has run.
    fn is_more_given(
        &self,
        given: u64,
        cancel: &CancelFlag,
        meanwhile: &mut dyn FnMut() -> Result<(), FetchError>,
    ) -> Result<bool, FetchError> {
        let mut went = Ok(());
        let mut state = self.lock();
        state.waiting += 1;
        while went.is_ok() && state.given == given && state.waiting < state.stakes && !cancel.is_forced() {
            // It may give back room itself.
            drop(state);
            went = meanwhile();
            state = self.lock();
            if went.is_ok() && state.given == given {
                state = self.wait(state);
            }
        }
        state.waiting -= 1;
        went.map(|()| state.given != given)
    }

    /// Slots have waited for long: how many units have room, and how many slots wait for some. None where that was said
    /// lately.
    pub(super) fn is_to_be_told(&self) -> Option<(usize, usize)> {
        let mut state = self.lock();
        if state.told.is_some_and(|at| at.elapsed() < TOLD_EVERY) {
            return None;
        }
        state.told = Some(Instant::now());
        Some((state.stakes - state.waiting, state.queue.len() + state.waiting))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("a panic ends the process")
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.0.changed.wait_timeout(state, LOOK).expect("a panic ends the process").0
    }
}

/// Where a unit stands that wants room. A unit that comes while others queue for some stands behind them.
pub(super) struct Place<'a> {
    room: &'a Room,
    /// Its own in the queue.
    ticket: Option<u64>,
    /// [`State::full`] when it entered.
    full: u64,
    /// [`State::given`] when it entered, and what it has given back itself since.
    given: u64,
    /// Its last try found no room.
    failed: bool,
    /// [`State::taken`] as it entered an empty disk: nobody has come since while that is the same.
    all_since: Option<u64>,
    /// It has what all units of its job need.
    wants_its_own: bool,
    has_inputs: bool,
    /// It had its inputs once and found no room later on: it has run for nothing, and next time it runs alone.
    alone: bool,
    /// There is more room than at its last try, which nobody else gave back.
    has_more: bool,
    /// That was so once.
    cleared: bool,
}

impl Place<'_> {
    /// Waits for its turn to try. `meanwhile` is called now and then.
    ///
    /// # Errors
    /// It is not wanted any more. Or that of `meanwhile`.
    pub(super) fn enter(
        &mut self,
        cancel: &CancelFlag,
        mut meanwhile: impl FnMut() -> Result<(), FetchError>,
    ) -> Result<Stake, FetchError> {
        let mut state = self.room.lock();
        if self.failed || !state.queue.is_empty() {
            self.queue_up(&mut state);
        }
        while !self.may_try(&state) {
            drop(state);
            if cancel.is_raised() {
                return Err(FetchError::Cancelled);
            }
            meanwhile()?;
            state = self.room.lock();
            if !self.may_try(&state) {
                state = self.room.wait(state);
            }
        }
        (self.full, self.given) = (state.full, state.given);
        (self.wants_its_own, self.has_inputs) = (false, false);
        let is_alone = state.stakes == 0;
        let stake = self.room.take(&mut state);
        self.all_since = is_alone.then_some(state.taken);
        Ok(stake)
    }

    /// The unit has the inputs of all units, and comes to its own.
    pub(super) fn wants_its_own(&mut self) {
        self.wants_its_own = true;
    }

    /// What it found no room for is its own: others of its job may find some.
    pub(super) fn lacks_own(&self) -> bool {
        self.wants_its_own || self.has_inputs
    }

    /// The unit has its inputs: whoever wants room next may try.
    pub(super) fn has_inputs(&mut self) {
        self.has_inputs = true;
        if !self.alone {
            self.leave();
        }
    }

    /// The disk is full with the unit: once, what is kept there for later ones goes by `give_way`, and where there was any it
    /// tries again.
    pub(super) fn clear(&mut self, give_way: impl FnOnce() -> bool) {
        self.has_more = !std::mem::replace(&mut self.cleared, true) && give_way();
    }

    /// The unit found no room and has given back what it had: whether it should try again.
    pub(super) fn again(&mut self) -> bool {
        if std::mem::take(&mut self.has_more) {
            self.failed = false;
            return true;
        }
        // What it gave back itself is not more than it had.
        self.given += 1;
        self.failed = true;
        self.alone |= self.has_inputs;
        self.all_since.is_none_or(|taken| taken != self.room.lock().taken)
    }

    /// A program has failed: whether others were there that may have filled the disk meanwhile. Those that found it full note
    /// that only after they gave room back, and a program that filled it for a moment never does: on a disk that is tight,
    /// any may have. So the program runs again alone, where nobody may.
    pub(super) fn shared_a_full_disk(&self, is_tight: bool) -> bool {
        let state = self.room.lock();
        self.all_since != Some(state.taken) && (is_tight || self.full != state.full)
    }

    /// It ran for nothing before, and now alone.
    pub(super) fn is_again_alone(&self) -> bool {
        self.alone && self.all_since == Some(self.room.lock().taken)
    }

    fn may_try(&self, state: &State) -> bool {
        let Some(ticket) = self.ticket else { return true };
        let in_vain = self.failed && self.given == state.given;
        state.queue.front() == Some(&ticket) && (state.stakes == 0 || !self.alone && !in_vain)
    }

    fn queue_up(&mut self, state: &mut State) {
        if self.ticket.is_none() {
            state.tickets += 1;
            state.queue.push_back(state.tickets);
            self.ticket = Some(state.tickets);
        }
    }

    fn leave(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.room.lock().queue.retain(|other| *other != ticket);
            self.room.0.changed.notify_all();
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
    use std::thread;

    use starfarm_protocol::wire::Cancel;

    use super::*;

    /// A disk of so many bytes, for units that take `inputs` of them, then run, then take `outputs`. Says for each how often
    /// it ran, or that it was refused.
    fn run(bytes: i64, units: &[(i64, i64)]) -> Vec<Option<u32>> {
        let (room, free) = (Room::default(), AtomicI64::new(bytes));
        let take = |bytes: i64| {
            let taken = free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |free| {
                Some(free - bytes).filter(|left| *left >= 0)
            });
            taken.map(drop).map_err(|_| FetchError::NoRoom("full".into()))
        };
        let unit = |inputs, outputs| {
            let (cancel, runs) = (CancelFlag::new().unwrap(), AtomicU32::new(0));
            let mut place = room.place();
            loop {
                let stake = place.enter(&cancel, || Ok(())).unwrap();
                let mut had = 0;
                let mut attempt = || {
                    take(inputs)?;
                    had += inputs;
                    place.has_inputs();
                    runs.fetch_add(1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(20));
                    room.more(&cancel, || Ok(()), || take(outputs))?;
                    had += outputs;
                    Ok(())
                };
                let came: Result<(), FetchError> = attempt();
                free.fetch_add(had, Ordering::SeqCst);
                drop(stake);
                match came {
                    Ok(()) => return Some(runs.into_inner()),
                    Err(FetchError::NoRoom(_)) if place.again() => {}
                    Err(_) => return None,
                }
            }
        };
        let runs = thread::scope(|scope| {
            let units: Vec<_> =
                units.iter().map(|(inputs, outputs)| scope.spawn(|| unit(*inputs, *outputs))).collect();
            units.into_iter().map(|unit| unit.join().unwrap()).collect()
        });
        assert_eq!(free.into_inner(), bytes);
        let state = room.lock();
        assert_eq!((state.stakes, state.waiting, state.queue.len()), (0, 0, 0));
        runs
    }

    #[test]
    fn units_that_the_disk_does_not_hold_at_once_take_turns() {
        assert_eq!(run(10, &[(6, 0); 5]), [Some(1); 5]);
        assert_eq!(run(10, &[(2, 0), (9, 1), (3, 3), (10, 0), (1, 0)]), [Some(1); 5]);
    }

    #[test]
    fn a_unit_that_has_the_disk_to_itself_and_finds_no_room_is_refused_and_no_other() {
        assert_eq!(run(10, &[(11, 0)]), [None]);
        assert_eq!(
            run(10, &[(6, 0), (6, 0), (11, 0), (6, 5), (6, 0)]),
            [Some(1), Some(1), None, None, Some(1)]
        );
    }

    /// Two that have half of the disk each and want more of it: neither would ever have it.
    #[test]
    fn units_that_all_wait_for_more_do_not_wait_for_ever_and_run_twice_at_most() {
        let runs = run(10, &[(5, 5); 6]);
        assert!(runs.iter().all(|runs| matches!(runs, Some(1 | 2))), "{runs:?}");
        assert!(runs.contains(&Some(1)), "{runs:?}");
    }

    /// A program failed for good where the disk had been full and was not any more, with nothing given back or noted yet.
    #[test]
    fn a_program_that_failed_beside_others_on_a_tight_disk_runs_again_alone() {
        let (room, cancel) = (Room::default(), CancelFlag::new().unwrap());
        let other = room.stake();
        let mut place = room.place();
        let stake = place.enter(&cancel, || Ok(())).unwrap();
        place.has_inputs();
        assert!(place.shared_a_full_disk(true));
        assert!(!place.shared_a_full_disk(false));
        room.note_full();
        assert!(place.shared_a_full_disk(false));
        drop((stake, other));
        assert!(place.again());
        let _stake = place.enter(&cancel, || Ok(())).unwrap();
        assert!(!place.shared_a_full_disk(true) && place.is_again_alone());
        // Somebody came meanwhile.
        drop(room.stake());
        assert!(place.shared_a_full_disk(true) && !place.is_again_alone());
    }

    /// A unit that waited for more on its own output's behalf never heard that this could not be stored.
    #[test]
    fn who_waits_hears_of_what_goes_wrong_meanwhile_and_has_run_for_nothing_where_it_is_told_to_end() {
        let (room, cancel) = (Room::default(), CancelFlag::new().unwrap());
        let _others = room.stake();
        let mut place = room.place();
        let _stake = place.enter(&cancel, || Ok(())).unwrap();
        let full = || Err::<(), _>(FetchError::NoRoom("full".into()));
        let mut looks = 0;
        let mut broken = || {
            looks += 1;
            cancel.raise(Cancel::Graceful);
            if looks < 3 { Ok(()) } else { Err(FetchError::Refused("broken".into())) }
        };
        // What has run waits on after the task's end was asked for.
        assert_eq!(room.more(&cancel, &mut broken, full), Err(FetchError::Refused("broken".into())));
        cancel.raise(Cancel::Forced);
        assert_eq!(room.more(&cancel, || Ok(()), full), Err(FetchError::NoRoom("full".into())));
        // Nobody was before it in the queue: now somebody is.
        let cancel = CancelFlag::new().unwrap();
        let mut second = room.place();
        second.failed = true;
        let broken = || Err(FetchError::Refused("broken".into()));
        assert_eq!(second.enter(&cancel, broken).unwrap_err(), FetchError::Refused("broken".into()));
    }
}
