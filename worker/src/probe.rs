//! What `--probe` says: what this machine has for a worker, and what of that a worker with the same flags would use.

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use starfarm_protocol::admin::SCHEMA_VERSION;
use starfarm_protocol::devices::DeviceFacts;

use crate::cards::Card;
use crate::devices::Listed;
use crate::options::{ProbeFormat, cores, usual_cards};
use crate::{Options, WorkerError, devices, facts};

const MIB: u64 = 1 << 20;

/// What there is.
#[derive(Serialize)]
struct Probe {
    schema: String,
    system: String,
    cpu: String,
    cores: u32,
    slots: u16,
    memory_bytes: u64,
    memory_claimable_bytes: u64,
    /// Cards that programs may be given.
    gpus: Vec<ProbedCard>,
    devices: Vec<ProbedDevice>,
    /// Why there are no devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_devices: Option<String>,
}

#[derive(Serialize)]
struct ProbedCard {
    number: usize,
    used: bool,
    model: String,
}

#[derive(Serialize)]
struct ProbedDevice {
    number: usize,
    used: bool,
    #[serde(flatten)]
    facts: DeviceFacts,
    /// Its address on the PCI bus.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
}

/// Looks, and prints to standard output.
///
/// # Errors
/// It cannot be written.
pub(crate) fn print(options: &Options, format: ProbeFormat) -> Result<(), WorkerError> {
    let facts = facts::read(Path::new("/"), cores());
    let (found, no_devices) = match devices::list() {
        Ok(devices) if devices.is_empty() => (devices, Some("the OpenCL driver has no device".to_owned())),
        Ok(devices) => (devices, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    // What a worker with these flags would refuse is refused here.
    options.devices.are_there("--devices", "this machine has", found.len(), "devices")?;
    options.cards()?;
    let used = devices::used(options.devices(), &found);
    let device = |(number, (listed, used)): (usize, (Listed, bool))| {
        let Listed { facts, place, .. } = listed;
        ProbedDevice { number, used, facts, place }
    };
    let card = |(number, card): (usize, Card)| {
        let used = options.uses_card(number);
        ProbedCard { number, used, model: card.model }
    };
    let probe = Probe {
        schema: format!("starfarm/probe/{SCHEMA_VERSION}"),
        system: facts.system,
        cpu: facts.cpu,
        cores: facts.cores,
        slots: options.slots(),
        memory_bytes: facts.memory_bytes,
        memory_claimable_bytes: options.memory_bytes(facts.memory_bytes),
        gpus: usual_cards().into_iter().enumerate().map(card).collect(),
        devices: found.into_iter().zip(used).enumerate().map(device).collect(),
        no_devices,
    };
    let text = match format {
        ProbeFormat::Table => probe.table(),
        ProbeFormat::Json => serde_json::to_string_pretty(&probe).expect("a probe has text keys only") + "\n",
    };
    let mut output = std::io::stdout().lock();
    let written = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    written.map_err(|error| WorkerError::System(format!("the probe cannot be written: {error}")))
}

impl Probe {
    fn table(&self) -> String {
        let mib = |bytes: u64| format!("{} MiB", bytes / MIB);
        let mut lines = vec![
            format!("system   {}", self.system),
            format!("cpu      {}", self.cpu),
            format!("cores    {}, for {} slots", self.cores, self.slots),
            format!(
                "memory   {}, of which units may claim {}",
                mib(self.memory_bytes),
                mib(self.memory_claimable_bytes)
            ),
        ];
        if self.gpus.is_empty() {
            lines.push("gpus     none that a driver lists".to_owned());
        }
        for ProbedCard { number, used, model } in &self.gpus {
            let used = if *used { "for programs" } else { "not used" };
            lines.push(format!("gpu {number}    {model}; {used}"));
        }
        if let Some(why) = &self.no_devices {
            lines.push(format!("devices  none: {why}"));
        }
        for ProbedDevice { number, used, facts, .. } in &self.devices {
            let (major, minor) = facts.version;
            let used = if *used { "used".to_owned() } else { format!("not used: --devices {number} would") };
            lines.push(format!(
                "device {number} {}, a {} of {}, OpenCL {major}.{minor}, {}, {} compute units; {used}",
                facts.name,
                facts.kind,
                facts.platform,
                mib(facts.memory_bytes),
                facts.compute_units
            ));
        }
        lines.push(String::new());
        lines.join("\n")
    }
}
