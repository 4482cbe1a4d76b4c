//! Files that stages wait for, such as sockets: the loop of the thread watches them, and tells a stage when there is something
//! to be read. A stage that finds a lot looks again after a moment by itself, without being woken for each datagram.
//!
//! Stages are made by their types, which know nothing of the loop; both are on one thread, and meet here.

use std::cell::RefCell;
use std::os::fd::RawFd;

use starfarm_agent_core::{Order, Runtime, StageNumber, Who, Word};
use starfarm_overlay::{Reactor, Watch};

/// Numbers of the reactor's watches that are these files'.
const FIRST: usize = 1;
/// Files at one time, at most.
const FILES_MAX: usize = 512;
/// One that cannot be watched is looked at so often.
const LOOK_US: u64 = 10_000;

thread_local! {
    static FILES: RefCell<Vec<Option<File>>> = const { RefCell::new(Vec::new()) };
}

struct File {
    fd: RawFd,
    stage: StageNumber,
    is_watched: bool,
    /// It can always be read, and tells what is urgent.
    is_urgent: bool,
    /// When the stage looks, by the clock of the process, if that is not when the file can be read.
    look_us: Option<u64>,
    /// What the stage wants next.
    next: Next,
}

/// When a stage wants to look at its file again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// When there is something; it has read all there was.
    WhenReadable,
    /// After so many microseconds.
    After(u64),
}

/// A file that is watched for a stage, until this is dropped. The file has to be closed with it.
#[derive(Debug)]
pub(crate) struct Watched(usize);

impl Watched {
    /// Has a file that does not block watched: the stage is told [`Word::Ready`], for the first time soon.
    ///
    /// # Errors
    /// There are too many, in words.
    pub(crate) fn new(fd: RawFd, stage: StageNumber) -> Result<Self, String> {
        Self::of(fd, stage, false)
    }

    /// The same of one that can always be read, and tells what is urgent.
    ///
    /// # Errors
    /// As [`Watched::new`].
    pub(crate) fn urgent(fd: RawFd, stage: StageNumber) -> Result<Self, String> {
        Self::of(fd, stage, true)
    }

    fn of(fd: RawFd, stage: StageNumber, is_urgent: bool) -> Result<Self, String> {
        let (look_us, next) = (Some(0), Next::WhenReadable);
        let file = File { fd, stage, is_watched: false, is_urgent, look_us, next };
        FILES.with_borrow_mut(|files| {
            let at = files.iter().position(Option::is_none).unwrap_or(files.len());
            if at == FILES_MAX {
                return Err(format!("an agent has {FILES_MAX} sockets at most"));
            }
            if at == files.len() {
                files.push(None);
            }
            files[at] = Some(file);
            Ok(Self(at))
        })
    }

    /// Says when the stage wants to look again, once it was told that it is ready.
    pub(crate) fn next(&self, next: Next) {
        FILES.with_borrow_mut(|files| {
            let file = files[self.0].as_mut().expect("it is there until this is dropped");
            file.next = next;
        });
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        FILES.with_borrow_mut(|files| files[self.0] = None);
    }
}

/// A watched file can be read.
pub(crate) fn readable(watch: Watch) {
    FILES.with_borrow_mut(|files| {
        let file = watch.0.checked_sub(FIRST).and_then(|at| files.get_mut(at)?.as_mut());
        file.into_iter().for_each(|file| file.look_us = Some(0));
    });
}

/// When a stage looks next, by the clock of the process.
pub(crate) fn due_us() -> Option<u64> {
    FILES.with_borrow(|files| files.iter().flatten().filter_map(|file| file.look_us).min())
}

/// Tells the stages that are to look now. `now_us` is the clock of the process, `farm_us` the farm's.
pub(crate) fn serve(runtime: &mut Runtime, reactor: &Reactor, now_us: u64, farm_us: u64) {
    let due: Vec<_> = FILES.with_borrow(|files| {
        let is_due = |file: &&File| file.look_us.is_some_and(|look_us| look_us <= now_us);
        let all = files.iter().enumerate();
        all.filter_map(|(at, file)| Some((at, file.as_ref().filter(is_due)?.stage))).collect()
    });
    for (at, stage) in due {
        // Whoever refuses it waits for something else.
        let _ = runtime.order(Order::Tell(Who::from(stage), Word::Ready), farm_us);
        FILES.with_borrow_mut(|files| {
            // It may have ended meanwhile, or opened another.
            if let Some(file) = files[at].as_mut().filter(|file| file.stage == stage) {
                file.settle(at, reactor, now_us);
            }
        });
    }
}

impl File {
    fn settle(&mut self, at: usize, reactor: &Reactor, now_us: u64) {
        match std::mem::replace(&mut self.next, Next::WhenReadable) {
            Next::WhenReadable => {
                let is_new = !std::mem::replace(&mut self.is_watched, true);
                self.look_us = None;
                let watch = if self.is_urgent { Reactor::watch_urgent } else { Reactor::watch };
                if is_new && watch(reactor, self.fd, Watch(FIRST + at)).is_err() {
                    (self.is_watched, self.look_us) = (false, Some(now_us + LOOK_US));
                }
            }
            Next::After(pause_us) => {
                if std::mem::take(&mut self.is_watched) {
                    reactor.unwatch(self.fd);
                }
                self.look_us = Some(now_us + pause_us);
            }
        }
    }
}
