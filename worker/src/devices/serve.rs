//! The life of a slot host: lines come in by standard input, lines go out by what was standard output. What a driver or a
//! kernel prints goes nowhere. When the worker has gone, so has the host.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, unbounded};
use starfarm_kernels::{Hit, Search};
use starfarm_opencl::{Cache, Device, DeviceKernel, DeviceSearch, OpenClError};
use starfarm_protocol::devices::DeviceFacts;
use starfarm_protocol::ids::HexBytes;
use starfarm_protocol::spec::{JobSpec, KernelWork};
use starfarm_protocol::units::Units;

use super::words::{HostWork, Left, Reply, Request};

/// How often a scan tells how far it is: its silence is taken for a kernel that runs away.
const PART: Duration = Duration::from_millis(100);

/// How often a host says that it is busy with something that takes long.
const BUSY: Duration = Duration::from_millis(500);

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
    Search(DeviceSearch),
    Kernel(DeviceKernel),
}

/// Lives as a child that is there for `work`, and keeps compiled programs in `cache`.
///
/// # Errors
/// Those of its pipes.
pub(crate) fn serve(
    work: HostWork,
    cache: Option<PathBuf>,
    prepare: Prepare,
    watch: Watch,
) -> io::Result<()> {
    // What others print must not get between our lines.
    let mut output = File::from(rustix::io::dup(io::stdout())?);
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    match work {
        HostWork::List => {
            let devices = starfarm_opencl::devices();
            let facts = |devices: Vec<Device>| devices.iter().map(|d| d.facts().clone()).collect();
            let listed: Result<Vec<DeviceFacts>, String> = devices.map(facts).map_err(|e| e.to_string());
            output.write_all(&serde_json::to_vec(&listed)?)
        }
        HostWork::Watch => watch(output),
        HostWork::Device(number) => {
            let voice = Arc::new(Voice { output: Mutex::new(output), is_busy: AtomicBool::new(true) });
            let stopped = Arc::new(AtomicU64::new(0));
            let requests = read_lines(Arc::clone(&stopped));
            let busy = Arc::clone(&voice);
            std::thread::spawn(move || busy.says_busy());
            let device = starfarm_opencl::devices().map_err(|e| e.to_string());
            let device = device.and_then(|devices| {
                devices.into_iter().nth(number).ok_or_else(|| format!("device {number} has gone"))
            });
            let notes = Arc::clone(&voice);
            let note = move |words: &str| drop(notes.say(&Reply::Note(words.to_owned())));
            let cache = cache.and_then(|folder| Cache::open(folder, note));
            let device = device.map(|device| device.cached(cache));
            voice.is_busy.store(false, Ordering::Release);
            let mut host = Serving { device, prepare, loaded: None, stopped, voice };
            requests.iter().try_for_each(|request| host.answer(request))
        }
    }
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
            Request::Prepare(spec) => Arc::clone(&self.voice).busy(|| self.prepare(*spec)),
            Request::Scan { number, lo, hi, most } => {
                let scanned = match self.loaded {
                    Some(Loaded::Kernel(_)) => self.run(number, (lo.0, hi.0), most)?,
                    _ => self.scan(number, lo.0, hi.0)?,
                };
                scanned.map_or_else(Reply::Failed, |()| Reply::Over)
            }
            Request::Stop(_) => return Ok(()),
        };
        self.voice.say(&reply)?;
        if reply == Reply::Over {
            // The task is done: nobody waits for this.
            let Self { voice, loaded, .. } = self;
            voice.busy(|| match loaded {
                Some(Loaded::Search(search)) => search.keep(),
                Some(Loaded::Kernel(kernel)) => kernel.keep(),
                None => {}
            });
        }
        Ok(())
    }

    fn prepare(&mut self, spec: JobSpec) -> Reply {
        // What the job before had on the device goes first.
        self.loaded = None;
        let device = match &self.device {
            Ok(device) => device,
            Err(why) => return Reply::Failed(why.clone()),
        };
        let loaded = match (self.prepare)(spec) {
            Ok(ForDevice::Search(search)) => DeviceSearch::new(device, *search).map(Loaded::Search),
            Ok(ForDevice::Kernel(work, digits)) => {
                DeviceKernel::new(device, *work, digits).map(Loaded::Kernel)
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
            let end = match voice.busy(|| search.prepare(next)) {
                Ok(end) => end.min(hi),
                Err(error) => return Ok(Err(error.to_string())),
            };
            let start = Instant::now();
            let scanned = search.scan(next, end, &mut hits, &mut |_| start.elapsed() < PART && !is_stopped());
            let reached = match scanned {
                Ok(reached) => reached,
                Err(error) => return Ok(Err(error.to_string())),
            };
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
            voice.say(&Reply::Ran { reached: Units(next), us, left })?;
        }
        Ok(Ok(()))
    }
}
