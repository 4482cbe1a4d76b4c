//! The stage `program`: what programs of units say of themselves. The worker names a socket for each job in the environment of
//! its programs, `STARFARM_METRICS`, and leaves a file beside it, `JOB.wanted`, when a program needs it; the stage makes the
//! socket. A datagram is lines of `name value`, and the figure is called `job.name`. What was said of a job goes along with what
//! its units use: see `units`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use rustix::fs::inotify;
use starfarm_agent_core::named::{Amount, Named};
use starfarm_agent_core::{Context, Hook, Message, Module, Stage, Type, Word};
use starfarm_protocol::ids::JobId;

use crate::lines;
use crate::watched::{Next, Watched};

/// This stage.
pub(crate) const MODULE: Module =
    Module { name: TYPE, types: &[Type { name: TYPE, new: &|| Box::new(Program::default()) }] };
pub(crate) const TYPE: &str = "program";
/// What a file is called that asks for a job's socket.
const WANTED: &str = "wanted";
/// Sockets at one time, at most, and names of a job.
const JOBS_MAX: usize = 256;
const NAMES_MAX: usize = 256;
/// Bytes of a datagram, at most; what is longer is cut.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;
/// Datagrams of one socket that are taken in a row: others have their turn then.
const BATCH: usize = 256;
/// A figure that was not said again for so long is not known any more, in microseconds.
const FRESH_US: u64 = 60_000_000;
/// A job of which nothing was said for so long has no socket any more; its next program asks for another.
const QUIET_US: u64 = 3_600_000_000;

thread_local! {
    /// What was said of each job. The stages `units` say it on.
    static SAID: RefCell<BTreeMap<JobId, Said>> = const { RefCell::new(BTreeMap::new()) };
}

/// What the programs of a job have said.
#[derive(Default)]
struct Said {
    figures: BTreeMap<String, Figure>,
}

struct Figure {
    /// What was said since it was asked for last, and before that.
    coming: Option<Amount>,
    known: Option<Amount>,
    at_us: u64,
}

/// Puts what is known of a job's own figures into a message.
pub(crate) fn put(job: JobId, now_us: u64, message: &mut Message<'_>) {
    SAID.with_borrow_mut(|said| {
        let Some(of) = said.get_mut(&job) else { return };
        of.figures.retain(|_, figure| figure.at_us.saturating_add(FRESH_US) > now_us);
        for (name, figure) in &mut of.figures {
            figure.known = figure.coming.take().or(figure.known);
            if let Some(amount) = figure.known {
                Named { name, amount }.put(message);
            }
        }
    });
}

#[derive(Default)]
struct Program {
    folder: Option<PathBuf>,
    /// Tells of files that ask for sockets.
    watch: Option<(Watched, OwnedFd)>,
    sockets: BTreeMap<JobId, Socket>,
    /// Lines and jobs that were not taken.
    not_taken: u64,
    buffer: Vec<u8>,
}

struct Socket {
    watched: Watched,
    socket: UnixDatagram,
    said_us: u64,
}

impl Program {
    fn open(&mut self, folder: PathBuf, context: &Context<'_>) -> Result<(), String> {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", folder.display());
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK);
        let fd = fd.map_err(|error| wrong(&error))?;
        inotify::add_watch(&fd, &folder, inotify::WatchFlags::CREATE).map_err(|error| wrong(&error))?;
        let watched = Watched::new(fd.as_raw_fd(), context.number())?;
        (self.watch, self.folder) = (Some((watched, fd)), Some(folder));
        Ok(())
    }

    /// Makes the sockets that are asked for. Files tell what is wanted; that the folder has changed tells when to look.
    fn look(&mut self, context: &Context<'_>) {
        let Some((watched, fd)) = &self.watch else { return };
        let mut room = [MaybeUninit::uninit(); 4_096];
        let mut changes = inotify::Reader::new(fd, &mut room);
        while changes.next().is_ok() {}
        watched.next(Next::WhenReadable);
        let folder = self.folder.clone().expect("it is watched");
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let wanted = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.strip_suffix(WANTED)?.strip_suffix('.')?.parse().ok().map(JobId)
        });
        for job in wanted.collect::<Vec<_>>() {
            if !self.sockets.contains_key(&job) && self.bind(job, context).is_none() {
                self.not_taken += 1;
            }
        }
    }

    fn bind(&mut self, job: JobId, context: &Context<'_>) -> Option<()> {
        if self.sockets.len() == JOBS_MAX {
            return None;
        }
        let path = self.folder.as_ref()?.join(job.0.to_string());
        // One of an agent before this one.
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).ok()?;
        socket.set_nonblocking(true).ok()?;
        let watched = Watched::new(socket.as_raw_fd(), context.number()).ok()?;
        self.sockets.insert(job, Socket { watched, socket, said_us: context.now_us() });
        Some(())
    }

    fn read_all(&mut self, now_us: u64) {
        self.buffer.resize(DATAGRAM_BYTES_MAX, 0);
        for (job, of) in &mut self.sockets {
            for _ in 0..BATCH {
                let Ok(length) = of.socket.recv(&mut self.buffer) else { break };
                of.said_us = now_us;
                self.not_taken += take(*job, &self.buffer[..length], now_us);
            }
            of.watched.next(Next::WhenReadable);
        }
        let Some(folder) = &self.folder else { return };
        self.sockets.retain(|job, of| {
            let stays = of.said_us.saturating_add(QUIET_US) > now_us;
            if !stays {
                for name in [job.0.to_string(), format!("{}.{WANTED}", job.0)] {
                    let _ = std::fs::remove_file(folder.join(name));
                }
                SAID.with_borrow_mut(|said| drop(said.remove(job)));
            }
            stays
        });
    }
}

/// A datagram of a job's; lines in it that were not taken.
fn take(job: JobId, datagram: &[u8], now_us: u64) -> u64 {
    let mut not_taken = 0;
    SAID.with_borrow_mut(|said| {
        let figures = &mut said.entry(job).or_default().figures;
        for line in datagram.split(|byte| *byte == b'\n') {
            let (name, number) = match lines::value(line) {
                Ok(Some(value)) => value,
                Ok(None) => continue,
                Err(()) => {
                    not_taken += 1;
                    continue;
                }
            };
            let name = format!("job.{name}");
            if figures.len() >= NAMES_MAX && !figures.contains_key(&name) {
                figures.retain(|_, figure| figure.at_us.saturating_add(FRESH_US) > now_us);
                if figures.len() >= NAMES_MAX {
                    not_taken += 1;
                    continue;
                }
            }
            let amount = Amount::of(number);
            let figure = figures.entry(name).or_insert(Figure { coming: None, known: None, at_us: now_us });
            figure.coming = Some(figure.coming.map_or(amount, |before| before.and(amount)));
            figure.at_us = now_us;
        }
    });
    not_taken
}

impl Stage for Program {
    fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
        Err(format!("`{TYPE}` has no inputs and no outputs: what it hears goes along with what units use"))
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::Ready => {
                self.look(context);
                self.read_all(context.now_us());
                context.not_taken(std::mem::take(&mut self.not_taken));
                Ok(())
            }
            Word::Set { key, value } if key == "folder" && self.folder.is_none() => {
                self.open(PathBuf::from(value), context)
            }
            Word::Set { key, .. } => Err(format!("`{TYPE}` has no setting `{key}` any more")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use starfarm_agent_core::{Triples, Who};

    use super::*;

    const SECOND_US: u64 = 1_000_000;

    fn known(job: u64, now_us: u64) -> Vec<(String, u64, f64)> {
        use starfarm_agent_core::{Order, Runtime};
        /// Says what is known, when it is asked.
        struct Teller(JobId);
        impl Stage for Teller {
            fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
                Ok(())
            }
            fn told(&mut self, _: &Word, context: &mut Context<'_>) -> Result<(), String> {
                let now_us = context.now_us();
                context.emit(0, |message| put(self.0, now_us, message));
                Ok(())
            }
        }
        struct Heard(std::rc::Rc<RefCell<Vec<(String, u64, f64)>>>);
        impl Stage for Heard {
            fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
                Ok(())
            }
            fn data(&mut self, _: usize, values: Triples<'_>, _: &mut Context<'_>) {
                let named = values.into_iter().filter_map(|triple| {
                    Named::read(&triple).map(|of| (of.name.to_owned(), of.amount.count, of.amount.sum))
                });
                self.0.borrow_mut().extend(named);
            }
        }
        let (mut runtime, heard) = (Runtime::new(&[]), std::rc::Rc::default());
        runtime.add("teller", Box::new(Teller(JobId(job))), Some("teller")).unwrap();
        runtime.add("heard", Box::new(Heard(std::rc::Rc::clone(&heard))), Some("heard")).unwrap();
        let link = Order::Link(("teller".into(), "out".into()), ("heard".into(), "in".into()));
        runtime.order(link, 0).unwrap();
        runtime.order(Order::Tell(Who::from("teller"), Word::Ready), now_us).unwrap();
        heard.take()
    }

    #[test]
    fn what_was_said_in_a_wave_is_summed_up_and_kept_for_a_minute() {
        assert_eq!(take(JobId(7), b"temperature 3\nspeed 10\n", SECOND_US), 0);
        assert_eq!(take(JobId(7), b"temperature 5", SECOND_US), 0);
        assert_eq!(take(JobId(8), b"temperature 90\n\n", SECOND_US), 0);
        let both = [("job.speed".to_owned(), 1, 10.0), ("job.temperature".to_owned(), 2, 8.0)];
        assert_eq!(known(7, 2 * SECOND_US), both);
        assert_eq!(known(7, 9 * SECOND_US), both, "nothing else was said");
        take(JobId(7), b"temperature 4", 10 * SECOND_US);
        assert_eq!(known(7, 11 * SECOND_US)[1], ("job.temperature".to_owned(), 1, 4.0));
        assert_eq!(known(7, 62 * SECOND_US), [("job.temperature".to_owned(), 1, 4.0)]);
        assert_eq!(known(7, 90 * SECOND_US), []);
        assert_eq!(known(9, SECOND_US), []);
    }

    #[test]
    fn what_is_no_figure_is_counted_and_names_are_bounded() {
        let long = format!("{} 1", "x".repeat(1 << 20));
        for bad in ["temperature", "a b c", "a/b 1", "a nan", "\u{7f} 1", &long] {
            assert_eq!(take(JobId(1), bad.as_bytes(), SECOND_US), 1, "{}", &bad[..5.min(bad.len())]);
        }
        assert_eq!(take(JobId(1), b"\xff\xfe 1\n", SECOND_US), 1);
        let many: String = (0..1_000).map(|n| format!("n{n} 1\n")).collect();
        assert_eq!(take(JobId(2), many.as_bytes(), SECOND_US), 1_000 - NAMES_MAX as u64);
        assert_eq!(known(2, 2 * SECOND_US).len(), NAMES_MAX);
        // Those that are not said any more make room.
        assert_eq!(take(JobId(2), b"another 1", 100 * SECOND_US), 0);
    }
}
