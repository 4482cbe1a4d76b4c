//! The life of a slot host: lines come in by standard input, lines go out by what was standard output. What a driver or a
//! kernel prints goes nowhere. When the worker has gone, so has the host.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, unbounded};
use starfarm_kernels::{Hit, Search};
use starfarm_opencl::{Cache, Device, DeviceKernel, DeviceSearch, Keep, OpenClError};
use starfarm_protocol::ids::HexBytes;
use starfarm_protocol::spec::{JobSpec, KernelWork};
use starfarm_protocol::units::Units;

use super::host::FLAG;
use super::words::{HostWork, Left, Listed, Reply, Request};

/// How often a scan tells how far it is, or that it goes on: its silence is taken for a kernel that runs away.
const PART: Duration = Duration::from_millis(100);

/// How often a host says that it is busy with something that takes long.
const BUSY: Duration = Duration::from_millis(500);

/// So long the next job waits until what the one before compiled is kept: PoCL compiles it once more for that.
const KEEPS: Duration = Duration::from_secs(2);

/// What a device is to run.
pub(crate) enum ForDevice {
    /// A search.
    Search(Box<Search>),
    /// A user's kernel, over units that are counted by such digits.
    Kernel(Box<KernelWork>, Vec<u128>),
}

/// How a job's specification becomes that, or why it cannot.
pub(crate) type Prepare = fn(JobSpec) -> Result<ForDevice, String>;

/// Tells how cards do, for ever.
pub(crate) type Watch = fn(File) -> io::Result<()>;

/// It is set up.
enum Loaded {
    Search(Box<DeviceSearch>),
    Kernel(Box<DeviceKernel>),
}

/// What this process is a child for, where it is one of a worker.
pub(crate) fn asked_for() -> Option<HostWork> {
    HostWork::parse(std::env::args_os().nth(1)?.to_str()?.strip_prefix(FLAG)?)
}

/// Lives as a child that is there for `work`.
///
/// # Errors
/// Those of its pipes.
pub(crate) fn serve(work: HostWork, prepare: Prepare, watch: Watch) -> io::Result<()> {
    // What others print must not get between our lines.
    // Nor does anything that it starts hold it open when this process has ended.
    let mut output = File::from(rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?);
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    match work {
        HostWork::List => {
            let listed = starfarm_opencl::devices().map(|devices| listed(&devices));
            output.write_all(&serde_json::to_vec(&listed.map_err(|error| error.to_string()))?)
        }
        HostWork::Watch => watch(output),
        HostWork::Agent => starfarm_agent::serve(output),
        HostWork::AgentFile => starfarm_agent::check(output),
        HostWork::Device(number) => {
            let voice = Arc::new(Voice { output: Mutex::new(output), is_busy: AtomicBool::new(true) });
            let stopped = Arc::new(AtomicU64::new(0));
            let requests = read_lines(Arc::clone(&stopped));
            let busy = Arc::clone(&voice);
            std::thread::spawn(move || busy.says_busy());
            let Ok(Request::Open { device, cache }) = requests.recv() else { return Ok(()) };
            let device = open(number, &device, cache, &voice);
            voice.is_busy.store(false, Ordering::Release);
            let mut host = Serving { device, prepare, loaded: None, keeping: None, stopped, voice };
            requests.iter().try_for_each(|request| host.answer(request))
        }
    }
}

/// What the worker is told of the devices.
fn listed(devices: &[Device]) -> Vec<Listed> {
    let mut all: Vec<Listed> = Vec::new();
    for device in devices {
        let one = Listed { facts: device.facts().clone(), place: device.place(), before: 0 };
        let before = all.iter().filter(|other| is_like(other, &one)).count();
        all.push(Listed { before, ..one });
    }
    all
}

/// They could be taken for each other. What a driver says of memory and units may change.
fn is_like(one: &Listed, other: &Listed) -> bool {
    let (a, b) = (&one.facts, &other.facts);
    (&a.platform, &a.name, a.kind, &one.place) == (&b.platform, &b.name, b.kind, &other.place)
}

/// Takes the device into use that was listed as number `number`: that one, wherever it stands in the list now.
fn open(
    number: usize,
    wanted: &Listed,
    cache: Option<PathBuf>,
    voice: &Arc<Voice>,
) -> Result<Device, String> {
    let devices = starfarm_opencl::devices().map_err(|error| error.to_string())?;
    let is_it = |now: &Listed| is_like(now, wanted) && now.before == wanted.before;
    let place = listed(&devices).iter().position(is_it);
    let device = place.and_then(|place| devices.into_iter().nth(place));
    let device = device.ok_or_else(|| format!("device {number} has gone"))?;
    let notes = Arc::clone(voice);
    let note = move |words: &str| drop(notes.say(&Reply::Note(words.to_owned())));
    let compiles = Arc::clone(voice);
    let tell = move |is_busy: bool| {
        compiles.is_busy.store(is_busy, Ordering::Release);
        if !is_busy {
            // That the worker has gone is seen elsewhere.
            let _ = compiles.say(&Reply::Runs);
        }
    };
    Ok(device.cached(cache.and_then(|folder| Cache::open(folder, note))).telling(tell))
}

/// Reads what the worker asks, on a thread of its own: a scan is stopped while it goes on.
fn read_lines(stopped: Arc<AtomicU64>) -> Receiver<Request> {
    let (to_do, requests) = unbounded();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            match line.ok().and_then(|line| serde_json::from_str(&line).ok()) {
                Some(Request::Stop(number)) => drop(stopped.fetch_max(number, Ordering::Release)),
                Some(request) => drop(to_do.send(request)),
                None => break,
            }
        }
        // Whatever the device does: nobody waits for it any more.
        std::process::exit(0);
    });
    requests
}

struct Serving {
    device: Result<Device, String>,
    prepare: Prepare,
    loaded: Option<Loaded>,
    /// It keeps what was compiled for a job.
    keeping: Option<JoinHandle<()>>,
    /// The latest scan that was stopped.
    stopped: Arc<AtomicU64>,
    voice: Arc<Voice>,
}

/// What the worker hears.
struct Voice {
    output: Mutex<File>,
    /// The host does what takes long.
    is_busy: AtomicBool,
}

impl Voice {
    fn say(&self, reply: &Reply) -> io::Result<()> {
        let mut line = serde_json::to_vec(reply)?;
        line.push(b'\n');
        self.output.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)
    }

    /// Does what may take long.
    fn busy<T>(&self, long: impl FnOnce() -> T) -> T {
        self.is_busy.store(true, Ordering::Release);
        let done = long();
        self.is_busy.store(false, Ordering::Release);
        done
    }

    /// Says for ever, while that is so, that the host is busy.
    fn says_busy(&self) {
        loop {
            std::thread::sleep(BUSY);
            if self.is_busy.load(Ordering::Acquire) && self.say(&Reply::Busy).is_err() {
                return;
            }
        }
    }
}

impl Serving {
    fn answer(&mut self, request: Request) -> io::Result<()> {
        let reply = match request {
            Request::Prepare(_) if !self.has_kept() => Reply::Occupied,
            Request::Prepare(spec) => Arc::clone(&self.voice).busy(|| self.prepare(*spec)),
            Request::Check => Arc::clone(&self.voice).busy(|| self.check()),
            Request::Scan { number, lo, hi, most } => {
                let scanned = match self.loaded {
                    Some(Loaded::Kernel(_)) => self.run(number, (lo.0, hi.0), most)?,
                    _ => self.scan(number, lo.0, hi.0)?,
                };
                scanned.map_or_else(Reply::Failed, |()| Reply::Over)
            }
            Request::Stop(_) | Request::Open { .. } => return Ok(()),
        };
        self.voice.say(&reply)?;
        let keep: Option<Keep> = match &mut self.loaded {
            // The task is done, and perhaps the device's next one waits.
            Some(Loaded::Search(search)) if reply == Reply::Over => search.take_unkept(),
            Some(Loaded::Kernel(kernel)) if reply == Reply::Over => kernel.take_unkept(),
            _ => None,
        };
        if let Some(keep) = keep {
            self.keeping = Some(std::thread::spawn(keep));
        }
        Ok(())
    }

    /// Nothing is being kept any more, or not for long.
    fn has_kept(&mut self) -> bool {
        let Some(keeping) = &self.keeping else { return true };
        let by = Instant::now() + KEEPS;
        while !keeping.is_finished() && Instant::now() < by {
            std::thread::sleep(KEEPS / 100);
        }
        keeping.is_finished()
    }

    fn check(&self) -> Reply {
        let checked = self.device.as_ref().map_err(Clone::clone);
        let checked =
            checked.and_then(|device| starfarm_opencl::check(device).map_err(|error| error.to_string()));
        checked.map_or_else(Reply::Failed, |()| Reply::Works)
    }

    fn prepare(&mut self, spec: JobSpec) -> Reply {
        // What the job before had on the device goes first.
        self.loaded = None;
        let device = match &self.device {
            Ok(device) => device,
            Err(why) => return Reply::Failed(why.clone()),
        };
        let loaded = match (self.prepare)(spec) {
            Ok(ForDevice::Search(search)) => {
                DeviceSearch::new(device, *search).map(Box::new).map(Loaded::Search)
            }
            Ok(ForDevice::Kernel(work, digits)) => {
                DeviceKernel::new(device, *work, digits).map(Box::new).map(Loaded::Kernel)
            }
            Err(why) => return Reply::Refused(why),
        };
        match loaded {
            Ok(loaded) => self.loaded = Some(loaded),
            // A text that cannot be compiled is no fault of the device.
            Err(error @ OpenClError::Build(_)) => return Reply::Refused(error.to_string()),
            Err(error) => return Reply::Failed(error.to_string()),
        }
        Reply::Prepared
    }

    /// Scans `[lo, hi)`. The outer error is that of the pipe, the inner one the device's.
    fn scan(&mut self, number: u64, lo: u128, hi: u128) -> io::Result<Result<(), String>> {
        let Self { loaded, stopped, voice, .. } = self;
        let Some(Loaded::Search(search)) = loaded else { return Ok(Err("there is no job".to_owned())) };
        let is_stopped = || stopped.load(Ordering::Acquire) >= number;
        let (mut next, mut hits) = (lo, Vec::<Hit>::new());
        while next < hi && !is_stopped() {
            let end = match voice.busy(|| search.prepare(next, hi)) {
                Ok(end) => end,
                Err(error) => return Ok(Err(error.to_string())),
            };
            let start = Instant::now();
            let mut alive = start;
            let mut keep_going = |at: Option<u128>| {
                // What is half done is done first, but for a stop. Meanwhile the worker hears that all is well.
                let goes_on = match at {
                    Some(_) => start.elapsed() < PART,
                    None if alive.elapsed() < PART => true,
                    None => {
                        alive = Instant::now();
                        voice.say(&Reply::Runs).is_ok()
                    }
                };
                goes_on && !is_stopped()
            };
            let scanned = search.scan(next, end, &mut hits, &mut keep_going);
            let reached = match scanned {
                Ok(reached) => reached,
                Err(error) => return Ok(Err(error.to_string())),
            };
            if reached == next {
                // It was stopped before anything was done.
                break;
            }
            let us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
            let hits = hits.drain(..).map(Into::into).collect();
            voice.say(&Reply::Part { reached: Units(reached), hits, us })?;
            next = reached;
        }
        Ok(Ok(()))
    }

    /// Runs a user's kernel over `[lo, hi)`, launch by launch; likewise. Of each launch it is said that it begins: the host may
    /// not live to tell more.
    fn run(
        &mut self,
        number: u64,
        (lo, hi): (u128, u128),
        most: Option<u64>,
    ) -> io::Result<Result<(), String>> {
        let Self { loaded, stopped, voice, .. } = self;
        let Some(Loaded::Kernel(kernel)) = loaded else { return Ok(Err("there is no job".to_owned())) };
        let mut next = lo;
        while next < hi && stopped.load(Ordering::Acquire) < number {
            let units = kernel.next_units(hi - next, most);
            voice.say(&Reply::Begins(Units(next + u128::from(units))))?;
            let start = Instant::now();
            let (units, left) = match kernel.launch(next, units) {
                Ok(ran) => ran,
                Err(error) => return Ok(Err(error.to_string())),
            };
            let us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
            next += u128::from(units);
            let left = match left {
                starfarm_opencl::Left::Blocks(bytes) => Left::Blocks(HexBytes(bytes)),
                starfarm_opencl::Left::Report(report) => Left::Report(report),
            };
            // Blocks of MiBs take their time to be said.
            voice.busy(|| voice.say(&Reply::Ran { reached: Units(next), us, left }))?;
        }
        Ok(Ok(()))
    }
}
