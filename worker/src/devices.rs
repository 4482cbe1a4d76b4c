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

use std::io::Read;
use std::path::Path;
use std::process::ChildStdout;
use std::time::Duration;

use starfarm_protocol::devices::{DEVICE_KINDS_MAX, DeviceFacts, DeviceKind, DeviceNeeds};
use starfarm_protocol::resources::GPUS_MAX;
use starfarm_protocol::spec::JobSpec;
use starfarm_worker_core::AlikeDevices;

use self::host::{HANGS, Heard, Host};
use self::words::{Reply, Request};
use crate::WorkerError;
use crate::exec::Relative;

pub(crate) use serve::{ForDevice, serve};
pub(crate) use slot::{Ask, DeviceSlot, Ended, KernelEnded, Ran};
pub use words::HostWork;
pub(crate) use words::Left;

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

    /// Device number `number` is one of them.
    pub(crate) fn has(&self, number: usize, facts: &DeviceFacts) -> bool {
        match self {
            Self::Gpu => facts.kind != DeviceKind::Cpu,
            Self::All => true,
            Self::None => false,
            Self::Numbers(numbers) => numbers.contains(&number),
        }
    }
}

/// A child that only tells something, line by line. Dropping it kills it.
pub(crate) struct Watcher(Relative);

impl Watcher {
    pub(crate) fn start(work: HostWork) -> std::io::Result<Self> {
        host::start(work).map(Self)
    }

    /// What it says; asked for once.
    pub(crate) fn output(&mut self) -> ChildStdout {
        self.0.child.stdout.take().expect("it is a pipe")
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.child.kill();
        let _ = self.0.child.wait();
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

/// The devices that a worker uses, by kind. `cards` says which card each of all devices is.
///
/// # Errors
/// A device that is named is not there.
pub(crate) fn chosen(
    choice: &Choice,
    cards: impl FnOnce(&[DeviceFacts]) -> Vec<Option<u16>>,
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
    if let Choice::Numbers(numbers) = choice
        && let Some(missing) = numbers.iter().find(|number| **number >= devices.len())
    {
        return Err(WorkerError::Usage(format!(
            "--devices {missing}: this machine has {} devices, which `starfarm worker --probe` lists",
            devices.len()
        )));
    }
    let cards = cards(&devices);
    let numbered = devices.into_iter().zip(cards).enumerate();
    let used = numbered.filter(|(number, (facts, _))| choice.has(*number, facts));
    let mut kinds = Alike::sorted(used.map(|(number, (facts, card))| DeviceSlot::new(number, facts, card)));
    if kinds.len() > DEVICE_KINDS_MAX {
        starfarm_net::say(&format!(
            "starfarm-worker: devices of {} kinds are too many: those of the first {DEVICE_KINDS_MAX} are used",
            kinds.len()
        ));
        kinds.truncate(DEVICE_KINDS_MAX);
    }
    Ok(kinds)
}

/// All OpenCL drivers below `root`, which is `/`, make devices of the cores: to ask them takes time, and finds nothing.
fn only_the_cores(root: &Path) -> bool {
    if std::env::var_os("OCL_ICD_VENDORS").is_some() {
        return false;
    }
    let entries = std::fs::read_dir(root.join("etc/OpenCL/vendors")).into_iter().flatten().flatten();
    let mut drivers = entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).peekable();
    drivers.peek().is_some() && drivers.all(|driver| driver.contains("pocl"))
}

/// Whether a device of this machine can be made ready for a job: its name where one can, none where there is none that
/// suits.
///
/// # Errors
/// It cannot, since of the job; in words.
pub fn check(spec: &JobSpec, needs: &DeviceNeeds) -> Result<Option<String>, String> {
    let devices = list().unwrap_or_default();
    let Some((number, facts)) = devices.into_iter().enumerate().find(|(_, facts)| needs.suits(facts)) else {
        return Ok(None);
    };
    let Ok(mut host) = Host::start(number) else { return Ok(None) };
    let heard = host.ask(&Request::Prepare(Box::new(spec.clone())), HANGS).and_then(|()| host.hear(None));
    match heard {
        Ok(Heard::Reply(Reply::Prepared)) => Ok(Some(facts.name)),
        Ok(Heard::Reply(Reply::Refused(why))) => Err(why),
        Err(why) => Err(format!("the kernel cannot be compiled for {}: {why}", facts.name)),
        // That is the device's own trouble.
        Ok(_) => Ok(None),
    }
}

/// The devices of this machine, as a child process lists them.
///
/// # Errors
/// There are none, in words.
pub(crate) fn list() -> Result<Vec<DeviceFacts>, String> {
    let no = |error: std::io::Error| format!("devices cannot be listed: {error}");
    let mut child = host::start(HostWork::List).map_err(no)?;
    let mut output = child.child.stdout.take().expect("it is a pipe");
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        output.read_to_end(&mut bytes).map(|_| bytes)
    });
    let ended = host::end_within(&mut child, LIST).map_err(no)?;
    let bytes = reader.join().expect("a panic ends the process").map_err(no)?;
    match ended {
        None => Err(format!("the OpenCL driver did not say within {} s what there is", LIST.as_secs())),
        Some(status) if status.success() => {
            let listed: Result<Result<Vec<DeviceFacts>, String>, _> = serde_json::from_slice(&bytes);
            listed.unwrap_or_else(|_| Err("the OpenCL driver wrote into its list of devices".to_owned()))
        }
        Some(status) => {
            Err(format!("the OpenCL driver crashed when asked what there is ({})", host::ending(status)))
        }
    }
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
        std::fs::write(vendors.join("pocl.icd"), "/usr/lib/x86_64-linux-gnu/libpocl.so.2.11.0\n").unwrap();
        assert!(only_the_cores(&dir.0));
        std::fs::write(vendors.join("nvidia.icd"), "libnvidia-opencl.so.1\n").unwrap();
        assert!(!only_the_cores(&dir.0));
    }

    #[test]
    fn like_devices_are_of_one_kind() {
        let device = |number, name: &str| {
            let facts = DeviceFacts { name: name.into(), ..DeviceFacts::default() };
            DeviceSlot::new(number, facts, Some(number as u16))
        };
        let devices =
            ["a", "b", "a", "c", "a"].into_iter().enumerate().map(|(number, name)| device(number, name));
        let kinds = Alike::sorted(devices);
        let cards: Vec<_> = kinds.iter().map(|kind| kind.config().cards).collect();
        assert_eq!(cards, [vec![Some(0), Some(2), Some(4)], vec![Some(1)], vec![Some(3)]]);
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
