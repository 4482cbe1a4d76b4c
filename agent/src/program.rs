//! The stage `program`: what programs of units say of themselves. The worker names a socket for each job in the environment of
//! its programs, `STARFARM_METRICS`, and leaves a file beside it, `JOB.wanted`, when a program needs it; the stage makes the
//! socket. A datagram is lines of `name value`, and the figure is called `job.name`. What was said of a job goes along with what
//! its units use: see `units`. A line `event text` is told as it is, one by one and in order, at the output `events`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use rustix::fs::inotify;
use starfarm_agent_core::named::{Amount, Named};
use starfarm_agent_core::trace::{self, Limit, Told};
use starfarm_agent_core::{Context, Hook, Message, Module, Side, Stage, Type, Word};
use starfarm_protocol::ids::JobId;

use crate::lines;
use crate::sender::{self, Units};
use crate::watched::{Next, Watched};

/// This stage.
pub(crate) const MODULE: Module =
    Module { name: TYPE, types: &[Type { name: TYPE, new: &|| Box::new(Program::default()) }] };
pub(crate) const TYPE: &str = "program";
/// Its output.
pub(crate) const EVENTS: &str = "events";
/// Times of events never go back; where the farm's clock went back by more than this, they begin anew.
const BACK_US: u64 = 10_000_000;
/// What a file is called that asks for a job's socket.
const WANTED: &str = "wanted";
/// Sockets at one time, at most, and names of a job.
const JOBS_MAX: usize = 256;
const NAMES_MAX: usize = 256;
/// Bytes of a datagram, at most; what is longer is cut.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;
/// Datagrams of one socket that are taken in a row: others have their turn then.
const BATCH: usize = 256;
/// And bytes of these: whoever says a lot costs the waves of others no time.
const BATCH_BYTES: usize = 64 << 10;
/// How often it is looked for names that are old, where there is no room for another, in microseconds.
const LOOK_US: u64 = 1_000_000;
/// A figure that was not said again for so long is not known any more, in microseconds.
const FRESH_US: u64 = 60_000_000;
/// A job of which nothing was said for so long has no socket any more; its next program asks for another.
const QUIET_US: u64 = 3_600_000_000;

thread_local! {
    /// What was said of each job. The stages `units` say it on.
    static SAID: RefCell<BTreeMap<JobId, Said>> = const { RefCell::new(BTreeMap::new()) };
    /// Events that were told and that nobody can be told, since this was asked last.
    static LOST: Cell<u32> = const { Cell::new(0) };
}

/// Events that were more than a node may tell, since this was asked last.
pub(crate) fn take_lost() -> u32 {
    LOST.take()
}

/// What the programs of a job have said.
#[derive(Default)]
struct Said {
    figures: BTreeMap<String, Figure>,
    /// When it was looked at last which of them are old, where there was no room for another.
    looked_us: u64,
}

impl Said {
    fn forget_old(&mut self, now_us: u64) {
        self.figures.retain(|_, figure| figure.at_us.saturating_add(FRESH_US) > now_us);
    }
}

/// Programs of a job have figures of their own.
pub(crate) fn tells(job: JobId, now_us: u64) -> bool {
    SAID.with_borrow_mut(|said| {
        said.get_mut(&job).is_some_and(|of| {
            of.forget_old(now_us);
            !of.figures.is_empty()
        })
    })
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
        of.forget_old(now_us);
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
    events: Events,
}

/// What was told one by one.
#[derive(Default)]
struct Events {
    output: Option<usize>,
    limit: Limit,
    told: u64,
    told_us: u64,
}

impl Events {
    /// Tells it, unless too much was told in this second: that is counted.
    fn tell(&mut self, (job, unit): (JobId, Option<u128>), text: &str, context: &mut Context<'_>) {
        let Some(output) = self.output else { return context.not_taken(1) };
        let now_us = context.now_us();
        self.told_us = if now_us + BACK_US < self.told_us { now_us } else { now_us.max(self.told_us) };
        let told = Told { at_us: self.told_us, job, unit, sequence: self.told, text };
        self.told += 1;
        if !self.limit.admits(now_us) || !context.emit(output, |message| told.put(message)) {
            LOST.set(LOST.get().saturating_add(1));
        }
    }
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
        self.make_room(context.now_us())?;
        let path = self.folder.as_ref()?.join(job.0.to_string());
        // One of an agent before this one.
        let _ = std::fs::remove_file(&path);
        let socket = sender::socket(&path).ok()?;
        let watched = Watched::new(socket.as_raw_fd(), context.number()).ok()?;
        self.sockets.insert(job, Socket { watched, socket, said_us: context.now_us() });
        Some(())
    }

    fn read_all(&mut self, context: &mut Context<'_>) {
        let (now_us, mut units) = (context.now_us(), Units::default());
        self.buffer.resize(DATAGRAM_BYTES_MAX, 0);
        for (job, of) in &mut self.sockets {
            // Nobody is woken again for what was there before: a whole batch leaves more to be looked for.
            let mut next = Next::After(0);
            let mut bytes = 0;
            for _ in 0..BATCH {
                if bytes >= BATCH_BYTES {
                    break;
                }
                let Ok((length, sender)) = sender::receive(&of.socket, &mut self.buffer) else {
                    next = Next::WhenReadable;
                    break;
                };
                bytes += length;
                of.said_us = now_us;
                self.not_taken += take(*job, &self.buffer[..length], now_us, |text| {
                    self.events.tell((*job, units.of(sender, *job)), text, context);
                });
            }
            of.watched.next(next);
        }
        let is_quiet = |of: &Socket| of.said_us.saturating_add(QUIET_US) <= now_us;
        let quiet: Vec<_> = self.sockets.iter().filter(|(_, of)| is_quiet(of)).map(|(job, _)| *job).collect();
        quiet.into_iter().for_each(|job| self.end(job));
    }

    /// A job has no socket any more.
    fn end(&mut self, job: JobId) {
        let folder = self.folder.as_ref().expect("whoever has sockets has their folder");
        for name in [job.0.to_string(), format!("{}.{WANTED}", job.0)] {
            let _ = std::fs::remove_file(folder.join(name));
        }
        SAID.with_borrow_mut(|said| drop(said.remove(&job)));
        self.sockets.remove(&job);
    }

    /// Makes room for one more socket, if a job has said nothing for a while.
    fn make_room(&mut self, now_us: u64) -> Option<()> {
        if self.sockets.len() < JOBS_MAX {
            return Some(());
        }
        let (job, of) = self.sockets.iter().min_by_key(|(_, of)| of.said_us)?;
        let job = Some(*job).filter(|_| of.said_us.saturating_add(FRESH_US) <= now_us)?;
        self.end(job);
        Some(())
    }
}

/// A datagram of a job's; lines in it that were not taken. `tell` hears what is told one by one.
fn take(job: JobId, datagram: &[u8], now_us: u64, mut tell: impl FnMut(&str)) -> u64 {
    let mut not_taken = 0;
    SAID.with_borrow_mut(|said| {
        let of = said.entry(job).or_default();
        for line in datagram.split(|byte| *byte == b'\n') {
            match trace::text(line) {
                Some(Ok(text)) => {
                    tell(&text);
                    continue;
                }
                Some(Err(())) => {
                    not_taken += 1;
                    continue;
                }
                None => {}
            }
            let (name, number) = match lines::value(line) {
                Ok(Some(value)) => value,
                Ok(None) => continue,
                Err(()) => {
                    not_taken += 1;
                    continue;
                }
            };
            let name = format!("job.{name}");
            if of.figures.len() >= NAMES_MAX && !of.figures.contains_key(&name) {
                // Not for each of a million names.
                if now_us.abs_diff(of.looked_us) >= LOOK_US {
                    of.looked_us = now_us;
                    of.forget_old(now_us);
                }
                if of.figures.len() >= NAMES_MAX {
                    not_taken += 1;
                    continue;
                }
            }
            let amount = Amount::of(number);
            let figure =
                of.figures.entry(name).or_insert(Figure { coming: None, known: None, at_us: now_us });
            figure.coming = Some(figure.coming.map_or(amount, |before| before.and(amount)));
            figure.at_us = now_us;
        }
    });
    not_taken
}

impl Stage for Program {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        if hook.side == Side::Input || hook.name != EVENTS {
            let why =
                format!("`{TYPE}` has one hook, the output `{EVENTS}`: figures go along with what units use");
            return Err(why);
        }
        self.events.output = Some(hook.port);
        Ok(())
    }

    fn edge_gone(&mut self, _: Hook<'_>) {
        self.events.output = None;
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::Ready => {
                self.look(context);
                self.read_all(context);
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

    fn no_event(text: &str) {
        panic!("{text}");
    }

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
        assert_eq!(take(JobId(7), b"temperature 3\nspeed 10\n", SECOND_US, no_event), 0);
        assert_eq!(take(JobId(7), b"temperature 5", SECOND_US, no_event), 0);
        assert_eq!(take(JobId(8), b"temperature 90\n\n", SECOND_US, no_event), 0);
        let both = [("job.speed".to_owned(), 1, 10.0), ("job.temperature".to_owned(), 2, 8.0)];
        assert_eq!(known(7, 2 * SECOND_US), both);
        assert_eq!(known(7, 9 * SECOND_US), both, "nothing else was said");
        take(JobId(7), b"temperature 4", 10 * SECOND_US, no_event);
        assert_eq!(known(7, 11 * SECOND_US)[1], ("job.temperature".to_owned(), 1, 4.0));
        assert_eq!(known(7, 62 * SECOND_US), [("job.temperature".to_owned(), 1, 4.0)]);
        assert_eq!(known(7, 90 * SECOND_US), []);
        assert_eq!(known(9, SECOND_US), []);
    }

    #[test]
    fn what_is_no_figure_is_counted_and_names_are_bounded() {
        let long = format!("{} 1", "x".repeat(1 << 20));
        for bad in ["temperature", "a b c", "a/b 1", "a nan", "\u{7f} 1", &long] {
            assert_eq!(
                take(JobId(1), bad.as_bytes(), SECOND_US, no_event),
                1,
                "{}",
                &bad[..5.min(bad.len())]
            );
        }
        assert_eq!(take(JobId(1), b"\xff\xfe 1\n", SECOND_US, no_event), 1);
        let many: String = (0..1_000).map(|n| format!("n{n} 1\n")).collect();
        assert_eq!(take(JobId(2), many.as_bytes(), SECOND_US, no_event), 1_000 - NAMES_MAX as u64);
        assert_eq!(known(2, 2 * SECOND_US).len(), NAMES_MAX);
        // Those that are not said any more make room.
        assert_eq!(take(JobId(2), b"another 1", 100 * SECOND_US, no_event), 0);
    }

    #[test]
    fn what_is_told_one_by_one_is_no_figure() {
        let mut told = Vec::new();
        let datagram = b"event started\ntemperature 3\nevent\nevent 3.2\n";
        let not_taken = take(JobId(3), datagram, SECOND_US, |text| told.push(text.to_owned()));
        assert_eq!((told, not_taken), (vec!["started".to_owned(), "3.2".to_owned()], 1));
        assert_eq!(known(3, 2 * SECOND_US), [("job.temperature".to_owned(), 1, 3.0)]);
    }

    /// What programs told reaches whoever is linked, in order, as far as a node may tell it; the rest is counted.
    #[test]
    fn a_flood_of_events_is_cut_off_and_counted() {
        use starfarm_agent_core::{Order, Runtime, ids};
        type Heard = std::rc::Rc<RefCell<Vec<(u64, u64, String)>>>;
        struct Sink(Heard);
        impl Stage for Sink {
            fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
                Ok(())
            }
            fn data(&mut self, _: usize, values: Triples<'_>, _: &mut Context<'_>) {
                let number = |id| values.find(id).unwrap().number().unwrap();
                let text = String::from_utf8(values.find(ids::EVENT).unwrap().value.to_vec()).unwrap();
                self.0.borrow_mut().push((number(ids::AT), number(ids::SEQUENCE), text));
            }
        }
        let folder = std::env::temp_dir().join(format!("starfarm-events-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("7.wanted"), "").unwrap();
        let (mut runtime, heard) = (Runtime::new(&[MODULE]), Heard::default());
        runtime.add(TYPE, Box::new(Program::default()), Some(TYPE)).unwrap();
        runtime.add("sink", Box::new(Sink(std::rc::Rc::clone(&heard))), Some("sink")).unwrap();
        let link = Order::Link((TYPE.into(), EVENTS.to_owned()), ("sink".into(), "in".to_owned()));
        runtime.order(link, 0).unwrap();
        let bad = Order::Link((TYPE.into(), "out".to_owned()), ("sink".into(), "in".to_owned()));
        assert!(runtime.order(bad, 0).is_err());
        let set = Word::Set { key: "folder".to_owned(), value: folder.display().to_string() };
        runtime.order(Order::Tell(Who::from(TYPE), set), 0).unwrap();
        let ready = |runtime: &mut Runtime, now_us| {
            runtime.order(Order::Tell(Who::from(TYPE), Word::Ready), now_us).unwrap();
        };
        ready(&mut runtime, SECOND_US);
        let socket = UnixDatagram::unbound().unwrap();
        let send = |text: &str| socket.send_to(text.as_bytes(), folder.join("7")).unwrap();
        let flood: String = (0..3_000).map(|n| format!("event {n}\n")).collect();
        send(&flood);
        ready(&mut runtime, 5 * SECOND_US);
        send("event later");
        // The clock of the farm is set back a little.
        ready(&mut runtime, 4 * SECOND_US);
        let heard = heard.take();
        let most = u64::from(trace::A_SECOND);
        assert_eq!(heard.len() as u64, most + 1);
        assert!(heard[..1_000].iter().zip(0..).all(|(of, n)| *of == (5 * SECOND_US, n, n.to_string())));
        assert_eq!(heard[1_000], (5 * SECOND_US, 3_000, "later".to_owned()));
        assert_eq!((u64::from(take_lost()), take_lost()), (3_000 - most, 0));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
