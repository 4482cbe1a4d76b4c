//! Devices beside the processor's cores. A driver is other people's code that cannot be stopped from inside and may crash, so
//! that all of it runs in child processes of the same program, the *slot hosts*: one that lists what there is, and one
//! for each device that is in use.
//!
//! - `host`: a child, as the worker sees it: started, asked, ended.
//! - `serve`: the child's own life.
//! - `words`: what the two say to each other.
//! - `slot`: the device of a slot, over the lives of its hosts.

mod host;
mod serve;
mod slot;
mod words;

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use starfarm_protocol::devices::{DEVICE_KINDS_MAX, DeviceFacts, DeviceKind, DeviceNeeds};
use starfarm_protocol::resources::GPUS_MAX;
use starfarm_protocol::spec::JobSpec;
use starfarm_worker_core::AlikeDevices;

use self::host::{HANGS, Heard, Host, Lines, Piece};
use self::words::{Reply, Request};
use crate::WorkerError;
use starfarm_exec::{Relative, wait};

pub(crate) use serve::{ForDevice, asked_for, serve};
pub(crate) use slot::{Ask, DeviceSlot, Ended, KernelEnded, Ran};
pub(crate) use words::{HostWork, Left, Listed};

/// So long a driver may take to say what there is.
const LIST: Duration = Duration::from_secs(20);

/// Which devices a worker uses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Cards and other accelerators.
    Gpu,
    /// All of them, the processor as a device among them.
    All,
    /// None.
    None,
    /// Those of these numbers, as `--probe` shows them.
    Numbers(Vec<usize>),
}

impl Choice {
    /// `gpu`, `all`, `none`, or numbers: `0,2`.
    ///
    /// # Errors
    /// It is none of these.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "gpu" => Ok(Self::Gpu),
            "all" => Ok(Self::All),
            "none" => Ok(Self::None),
            _ => {
                let numbers: Result<Vec<usize>, _> =
                    text.split(',').map(|word| word.trim().parse()).collect();
                let mut numbers = numbers
                    .map_err(|_| "write gpu, all, none, or numbers of --probe such as 0,2".to_owned())?;
                numbers.sort_unstable();
                numbers.dedup();
                Ok(Self::Numbers(numbers))
            }
        }
    }

    /// All that are named are there: of `all`, which this is said of.
    ///
    /// # Errors
    /// One is not.
    pub(crate) fn are_there(&self, flag: &str, has: &str, all: usize, what: &str) -> Result<(), WorkerError> {
        let Self::Numbers(numbers) = self else { return Ok(()) };
        let Some(missing) = numbers.iter().find(|number| **number >= all) else { return Ok(()) };
        Err(WorkerError::Usage(format!(
            "{flag} {missing}: {has} {all} {what}, which `starfarm worker --probe` lists"
        )))
    }

    /// Device number `number` is one of them.
    fn has(&self, number: usize, facts: &DeviceFacts) -> bool {
        match self {
            Self::Gpu => facts.kind != DeviceKind::Cpu,
            Self::All => true,
            Self::None => false,
            Self::Numbers(numbers) => numbers.contains(&number),
        }
    }
}

/// What a child has said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Said {
    Line(Vec<u8>),
    /// It goes on, and said nothing for so long.
    Nothing,
    /// It will say no more.
    Ended,
}

/// A child that only tells something, line by line. Dropping it kills it.
pub(crate) struct Watcher {
    /// Until it is dropped.
    child: Option<Relative>,
    lines: Lines,
}

impl Watcher {
    pub(crate) fn start(work: HostWork) -> std::io::Result<Self> {
        let mut child = host::start(work)?;
        let lines = Lines::of(child.child.stdout.take().expect("it is a pipe"));
        Ok(Self { child: Some(child), lines })
    }

    /// What it is told by; once this is dropped it ends, if it heeds that.
    pub(crate) fn take_input(&mut self) -> std::process::ChildStdin {
        let child = self.child.as_mut().expect("it is there until it is dropped");
        child.child.stdin.take().expect("it is a pipe that is taken once")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("it is there until it is dropped").child.id()
    }

    /// Says nothing more: how it has ended, in words, unless all was well with it. One that goes on for a moment longer is killed.
    pub(crate) fn fault(mut self) -> Option<String> {
        let mut child = self.child.take().expect("it is there until it is dropped");
        match host::end_within(&mut child, host::STOPS) {
            Ok(Some(status)) if status.success() => None,
            Ok(Some(status)) => Some(host::ending(status)),
            Ok(None) => {
                host::kill(child);
                Some("it said no more, and was killed".to_owned())
            }
            Err(error) => Some(error.to_string()),
        }
    }

    /// What it says next, if that is within so long.
    pub(crate) fn next(&mut self, patience: Duration) -> Said {
        let until = Instant::now() + patience;
        loop {
            if let Some(line) = self.lines.next() {
                return Said::Line(line);
            }
            let [ready] = wait([Some(self.lines.pipe.as_fd())], Some(until));
            if ready.is_empty() {
                if Instant::now() >= until {
                    return Said::Nothing;
                }
            } else if matches!(self.lines.read(), Ok(Piece::End) | Err(_)) {
                return Said::Ended;
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.child.take().into_iter().for_each(host::kill);
    }
}

/// Devices that are alike.
pub(crate) struct Alike {
    pub(crate) devices: Vec<DeviceSlot>,
}

impl Alike {
    /// What the core knows of them.
    pub(crate) fn config(&self) -> AlikeDevices {
        let facts = self.devices.first().expect("none is alike to nothing").facts().clone();
        AlikeDevices { facts, cards: self.devices.iter().map(DeviceSlot::card).collect() }
    }

    /// All of them, by kind in the order of the first of each.
    fn sorted(devices: impl Iterator<Item = DeviceSlot>) -> Vec<Self> {
        let mut kinds: Vec<Self> = Vec::new();
        for device in devices {
            let is_alike = |kind: &&mut Self| {
                kind.devices.len() < GPUS_MAX as usize && kind.devices[0].facts() == device.facts()
            };
            match kinds.iter_mut().find(is_alike) {
                Some(kind) => kind.devices.push(device),
                None => kinds.push(Self { devices: vec![device] }),
            }
        }
        kinds
    }
}

/// The devices that a worker uses, by kind. `cards` says which card each of all devices is; compiled programs are kept in
/// `cache`.
///
/// # Errors
/// A device that is named is not there.
pub(crate) fn chosen(
    choice: &Choice,
    cards: impl FnOnce(&[Listed]) -> Vec<Option<u16>>,
    cache: Option<PathBuf>,
) -> Result<Vec<Alike>, WorkerError> {
    if *choice == Choice::None || *choice == Choice::Gpu && only_the_cores(Path::new("/")) {
        return Ok(Vec::new());
    }
    let devices = match (list(), choice) {
        (Ok(devices), _) => devices,
        (Err(why), Choice::Numbers(_)) => return Err(WorkerError::Usage(format!("--devices: {why}"))),
        (Err(why), _) => {
            starfarm_net::say(&format!("starfarm-worker: no devices beside the cores: {why}"));
            Vec::new()
        }
    };
    choice.are_there("--devices", "this machine has", devices.len(), "devices")?;
    let (used, cards) = (used(choice, &devices), cards(&devices));
    let numbered = devices.into_iter().zip(cards).enumerate();
    let used = numbered.filter(|(number, _)| used[*number]);
    let slot = |(number, (device, card))| DeviceSlot::new(number, device, card, cache.clone());
    let mut kinds = Alike::sorted(used.map(slot));
    if kinds.len() > DEVICE_KINDS_MAX {
        starfarm_net::say(&format!(
            "starfarm-worker: devices of {} kinds are too many: those of the first {DEVICE_KINDS_MAX} are used",
            kinds.len()
        ));
        kinds.truncate(DEVICE_KINDS_MAX);
    }
    Ok(kinds)
}

/// Which of the devices are used. A card that two platforms list is used by the first of them, unless numbers are named.
pub(crate) fn used(choice: &Choice, devices: &[Listed]) -> Vec<bool> {
    let is_seen = |number: usize, device: &Listed| {
        let is_it =
            |other: &Listed| other.place == device.place && other.facts.platform != device.facts.platform;
        device.place.is_some() && devices[..number].iter().any(is_it)
    };
    let is_used = |(number, device): (usize, &Listed)| {
        let again = !matches!(choice, Choice::Numbers(_)) && is_seen(number, device);
        choice.has(number, &device.facts) && !again
    };
    devices.iter().enumerate().map(is_used).collect()
}

/// What makes a driver of OpenCL list other devices than its files say.
const DRIVER_VARIABLES: [&str; 4] =
    ["OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH", "POCL_DEVICES"];

/// All OpenCL drivers below `root`, which is `/`, make devices of the cores: to ask them takes time, and finds nothing.
fn only_the_cores(root: &Path) -> bool {
    if DRIVER_VARIABLES.into_iter().any(|name| std::env::var_os(name).is_some()) {
        return false;
    }
    let entries = |dir: &str| std::fs::read_dir(root.join(dir)).into_iter().flatten().flatten();
    let mut drivers = entries("etc/OpenCL/vendors")
        .filter_map(|entry| std::fs::read_to_string(entry.path()).ok())
        .peekable();
    // PoCL has a file for each kind of its devices, of cards as well.
    let folders = entries("usr/lib").map(|entry| entry.path().join("pocl"));
    let mut kinds = folders.flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten()).peekable();
    let is_of_cores =
        |name: &OsStr| name == "libpocl-devices-basic.so" || name == "libpocl-devices-pthread.so";
    drivers.peek().is_some()
        && drivers.all(|driver| driver.contains("pocl"))
        && kinds.peek().is_some()
        && kinds.all(|file| is_of_cores(&file.file_name()))
}

/// What came of making a kernel ready on this machine.
pub enum Compiled {
    /// It compiles for the device of that name.
    For(String),
    /// Nobody can tell here: why, in words.
    Unknown(String),
}

/// As [`crate::check`], and compiled programs are kept in `cache`.
pub(crate) fn check(spec: &JobSpec, needs: &DeviceNeeds, cache: Option<PathBuf>) -> Result<Compiled, String> {
    let devices = match list() {
        Ok(devices) => devices,
        Err(why) => return Ok(Compiled::Unknown(why)),
    };
    let mut numbered = devices.into_iter().enumerate();
    let Some((number, device)) = numbered.find(|(_, device)| needs.suits(&device.facts)) else {
        let why = "this machine has no such device; `starfarm worker --probe` lists what it has";
        return Ok(Compiled::Unknown(why.to_owned()));
    };
    let name = device.facts.name.clone();
    let failed = |why: &str| Ok(Compiled::Unknown(format!("{name} of this machine failed: {why}")));
    let mut host = match Host::start(number, device, cache) {
        Ok(host) => host,
        Err(lost) => return failed(&lost.why()),
    };
    let asked = host.ask(&Request::Prepare(Box::new(spec.clone())), HANGS);
    match asked.and_then(|()| host.hear(None)) {
        Ok(Heard::Reply(Reply::Prepared)) => Ok(Compiled::For(name)),
        Ok(Heard::Reply(Reply::Refused(why))) => Err(why),
        Ok(Heard::Reply(Reply::Failed(why))) => failed(&why),
        Ok(_) => failed("it says something that it was not asked"),
        Err(lost) => Err(format!("the kernel cannot be compiled for {name}: {}", lost.why())),
    }
}

/// The devices of this machine, as a child process lists them.
///
/// # Errors
/// There are none, in words.
pub(crate) fn list() -> Result<Vec<Listed>, String> {
    let no = |error: std::io::Error| format!("devices cannot be listed: {error}");
    let mut child = host::start(HostWork::List).map_err(no)?;
    let mut output = child.child.stdout.take().expect("it is a pipe");
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        output.read_to_end(&mut bytes).map(|_| bytes)
    });
    let Some(status) = host::end_within(&mut child, LIST).map_err(no)? else {
        host::kill(child);
        return Err(format!("the OpenCL driver did not say within {} s what there is", LIST.as_secs()));
    };
    if !status.success() {
        return Err(format!("the OpenCL driver crashed when asked what there is ({})", host::ending(status)));
    }
    let bytes = reader.join().expect("a panic ends the process").map_err(no)?;
    let listed: Result<Result<Vec<Listed>, String>, _> = serde_json::from_slice(&bytes);
    listed.unwrap_or_else(|_| Err("the OpenCL driver wrote into its list of devices".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_only_driver_is_that_of_the_cores_nobody_is_asked() {
        let dir = crate::testing::TempDir::new();
        let vendors = dir.0.join("etc/OpenCL/vendors");
        assert!(!only_the_cores(&dir.0), "that there is no driver is said");
        std::fs::create_dir_all(&vendors).unwrap();
        std::fs::write(vendors.join("pocl.icd"), "libpocl.so.2.11.0\n").unwrap();
        assert!(!only_the_cores(&dir.0), "who knows what its devices are");
        let kinds = dir.0.join("usr/lib/x86_64-linux-gnu/pocl");
        std::fs::create_dir_all(&kinds).unwrap();
        std::fs::write(kinds.join("libpocl-devices-pthread.so"), "").unwrap();
        assert!(only_the_cores(&dir.0));
        std::fs::write(kinds.join("libpocl-devices-cuda.so"), "").unwrap();
        assert!(!only_the_cores(&dir.0));
        std::fs::remove_file(kinds.join("libpocl-devices-cuda.so")).unwrap();
        std::fs::write(vendors.join("nvidia.icd"), "libnvidia-opencl.so.1\n").unwrap();
        assert!(!only_the_cores(&dir.0));
    }

    #[test]
    fn like_devices_are_of_one_kind() {
        let device = |number, name: &str| {
            let facts = DeviceFacts { name: name.into(), ..DeviceFacts::default() };
            let listed = Listed { facts, ..Listed::default() };
            DeviceSlot::new(number, listed, Some(number as u16), None)
        };
        let devices =
            ["a", "b", "a", "c", "a"].into_iter().enumerate().map(|(number, name)| device(number, name));
        let kinds = Alike::sorted(devices);
        let cards: Vec<_> = kinds.iter().map(|kind| kind.config().cards).collect();
        assert_eq!(cards, [vec![Some(0), Some(2), Some(4)], vec![Some(1)], vec![Some(3)]]);
    }

    #[test]
    fn a_card_of_two_platforms_is_one_device() {
        let device = |platform: &str, place: Option<&str>| Listed {
            facts: DeviceFacts { platform: platform.into(), kind: DeviceKind::Gpu, ..DeviceFacts::default() },
            place: place.map(str::to_owned),
            before: 0,
        };
        let (one, other) = (Some("0000:41:00.0"), Some("0000:42:00.0"));
        let devices = [
            device("NVIDIA CUDA", one),
            device("rusticl", one),
            device("rusticl", other),
            // Parts of a card are where it is.
            device("rusticl", other),
            device("NVIDIA CUDA", None),
            device("rusticl", None),
        ];
        assert_eq!(used(&Choice::Gpu, &devices), [true, false, true, true, true, true]);
        assert_eq!(used(&Choice::Numbers(vec![0, 1]), &devices)[..3], [true, true, false]);
    }

    #[test]
    fn devices_are_chosen_by_kind_or_by_number() {
        let cpu = DeviceFacts { kind: DeviceKind::Cpu, ..DeviceFacts::default() };
        let gpu = DeviceFacts { kind: DeviceKind::Gpu, ..DeviceFacts::default() };
        for (text, has) in
            [("gpu", [false, true]), ("all", [true; 2]), ("none", [false; 2]), ("0, 3,0", [true, false])]
        {
            let choice = Choice::parse(text).unwrap();
            assert_eq!([choice.has(0, &cpu), choice.has(1, &gpu)], has, "{text}");
        }
        for nonsense in ["", "cpu", "1-2", "-1", "1,"] {
            assert!(Choice::parse(nonsense).is_err_and(|why| why.contains("--probe")), "{nonsense}");
        }
    }
}
