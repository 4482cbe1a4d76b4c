//! What `--probe` says: what this machine has for a worker, and what of that a worker with the same flags would use.

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use starfarm_protocol::admin::SCHEMA_VERSION;
use starfarm_protocol::devices::DeviceFacts;

use crate::options::{ProbeFormat, cores};
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
    /// Cards that drivers name, whether or not OpenCL reaches them.
    accelerators: String,
    devices: Vec<ProbedDevice>,
    /// Why there are no devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_devices: Option<String>,
}

#[derive(Serialize)]
struct ProbedDevice {
    number: usize,
    used: bool,
    #[serde(flatten)]
    facts: DeviceFacts,
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
    let device = |(number, facts): (usize, DeviceFacts)| {
        let used = options.devices.has(number, &facts);
        ProbedDevice { number, used, facts }
    };
    let probe = Probe {
        schema: format!("starfarm/probe/{SCHEMA_VERSION}"),
        system: facts.system,
        cpu: facts.cpu,
        cores: facts.cores,
        slots: options.slots(),
        memory_bytes: facts.memory_bytes,
        memory_claimable_bytes: options.memory_bytes(facts.memory_bytes),
        accelerators: facts.accelerators,
        devices: found.into_iter().enumerate().map(device).collect(),
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
            format!("cards    {}", if self.accelerators.is_empty() { "none" } else { &self.accelerators }),
        ];
        if let Some(why) = &self.no_devices {
            lines.push(format!("devices  none: {why}"));
        }
        for ProbedDevice { number, used, facts } in &self.devices {
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
