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
use std::time::Duration;

use starfarm_protocol::devices::{DeviceFacts, DeviceKind};

use crate::WorkerError;

pub(crate) use serve::serve;
pub(crate) use slot::{DeviceSlot, Ended};
pub use words::HostWork;

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

/// The devices that a worker uses, each with its number.
///
/// # Errors
/// A device that is named is not there.
pub(crate) fn chosen(choice: &Choice) -> Result<Vec<DeviceSlot>, WorkerError> {
    if *choice == Choice::None {
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
    let numbered = devices.into_iter().enumerate().filter(|(number, facts)| choice.has(*number, facts));
    Ok(numbered.map(|(number, facts)| DeviceSlot::new(number, facts)).collect())
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
