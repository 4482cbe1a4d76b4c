//! How cards do: what the drivers of NVIDIA (by their library NVML), AMD and Intel (by files of the system) say of load,
//! memory, temperature and power. A library of a driver may crash or hang, so that a child process asks it, every few
//! seconds; while there is none, nothing is known.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{EccCounter, MemoryError, TemperatureSensor, TemperatureThreshold};
use nvml_wrapper::{Device, EventSet, Nvml};
use starfarm_protocol::gauges::Gauge;
use starfarm_protocol::wire::CardFigures;

use crate::cards::{self, Card, Vendor};
use crate::devices::{HostWork, Said, Watcher};
use crate::event::Event;
use crate::held_cards::HeldCards;
use crate::options::usual_cards;

/// How often the child looks, and says what it sees.
const PERIOD: Duration = Duration::from_secs(1);
/// A child that says nothing for so long hangs in a driver's library, and is ended.
const HANGS: Duration = Duration::from_secs(30);
/// After a child that ended the next one comes so much later.
const PAUSE: Duration = Duration::from_secs(60);

/// Starts to tell how the cards of the machine do, where there are some.
pub(crate) fn start(inbox: &Sender<Event>, held_cards: Arc<HeldCards>) -> io::Result<()> {
    let (cards, inbox) = (usual_cards(), inbox.clone());
    if cards.is_empty() {
        return Ok(());
    }
    let unknown = |card: Card| CardFigures { model: card.model, ..CardFigures::default() };
    let gauge = |figures| Gauge { figures, ..Gauge::default() };
    let unknown: Vec<_> = cards.into_iter().map(unknown).map(gauge).collect();
    let tell = move |gauges: Vec<Gauge>| {
        held_cards.see(gauges.clone());
        let figures = gauges.into_iter().map(|gauge| gauge.figures).collect();
        inbox.send(Event::Cards(figures)).ok()
    };
    let watch = move || while watch(&unknown, &tell).is_some() {};
    std::thread::Builder::new().name("gauges".into()).spawn(watch).map(drop)
}

/// Tells how the cards do, for the life of one child; nothing when nobody listens any more.
fn watch(unknown: &[Gauge], tell: &impl Fn(Vec<Gauge>) -> Option<()>) -> Option<()> {
    if let Ok(mut watcher) = Watcher::start(HostWork::Watch) {
        while let Said::Line(line) = watcher.next(HANGS) {
            let Ok(gauges) = serde_json::from_slice(&line) else { break };
            tell(gauges)?;
        }
    }
    // What was known is not known any more.
    tell(unknown.to_vec())?;
    std::thread::sleep(PAUSE);
    Some(())
}

/// The child's own life: it looks, and says so, until nobody listens.
///
/// # Errors
/// That of the pipe.
pub(crate) fn serve(mut output: File) -> io::Result<()> {
    let cards = usual_cards();
    let has_nvidia = cards.iter().any(|card| card.vendor == Vendor::Nvidia);
    let nvml = loop {
        let nvml = Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init();
        match nvml {
            Ok(nvml) => break nvml,
            Err(_) => without_nvml(&cards, &mut output, if has_nvidia { PAUSE } else { Duration::MAX })?,
        }
    };
    let nvidia = cards.iter().filter(|card| card.vendor == Vendor::Nvidia);
    let devices: Vec<_> = nvidia.filter_map(|card| device(&nvml, &card.name)).collect();
    let mut faults = Faults::of(&nvml, &devices);
    loop {
        let gauge = |card: &Card| gauge(Path::new("/"), card, Some((&nvml, &faults)));
        say(&mut output, &cards.iter().map(gauge).collect::<Vec<_>>())?;
        faults.wait();
    }
}

/// The same without NVIDIA's library, for so long: a driver may be loaded after us.
fn without_nvml(cards: &[Card], output: &mut File, patience: Duration) -> io::Result<()> {
    let began = Instant::now();
    while began.elapsed() < patience {
        say(output, &cards.iter().map(|card| gauge(Path::new("/"), card, None)).collect::<Vec<_>>())?;
        std::thread::sleep(PERIOD);
    }
    Ok(())
}

fn say(output: &mut File, gauges: &[Gauge]) -> io::Result<()> {
    let mut line = serde_json::to_vec(gauges)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

/// Faults of NVIDIA's cards, of which the driver tells as they happen where it can.
struct Faults<'a> {
    events: Option<EventSet<'a>>,
    /// By the card's number in the driver.
    seen: BTreeMap<u32, u64>,
}

impl<'a> Faults<'a> {
    fn of(nvml: &'a Nvml, devices: &[Device<'a>]) -> Self {
        let wanted = EventTypes::CRITICAL_XID_ERROR | EventTypes::DOUBLE_BIT_ECC_ERROR;
        let register = |set, device: &Device<'a>| {
            let can = device.supported_event_types().map_or(EventTypes::empty(), |can| can & wanted);
            if can.is_empty() { Some(set) } else { device.register_events(can, set).ok() }
        };
        let events = nvml.create_event_set().ok().filter(|_| !devices.is_empty());
        let events = events.and_then(|set| devices.iter().try_fold(set, register));
        Self { events, seen: BTreeMap::new() }
    }

    /// Waits until it is time to look again, or until a card has a fault.
    fn wait(&mut self) {
        let began = Instant::now();
        let ms = PERIOD.as_millis() as u32;
        if let Some(event) = self.events.as_ref().and_then(|events| events.wait(ms).ok()) {
            let seen = event.device.index().map(|number| self.seen.entry(number).or_default());
            seen.into_iter().for_each(|seen| *seen += 1);
            // One that tells of thousands is not shown each.
            std::thread::sleep(PERIOD / 10);
        } else {
            // A driver that cannot wait says so at once.
            std::thread::sleep(PERIOD.saturating_sub(began.elapsed()));
        }
    }

    /// How many faults of a card it has told of; none where it tells of none at all.
    fn of_device(&self, device: &Device<'_>) -> Option<u64> {
        let number = self.events.as_ref().and_then(|_| device.index().ok())?;
        Some(self.seen.get(&number).copied().unwrap_or_default())
    }
}

fn gauge(root: &Path, card: &Card, nvml: Option<(&Nvml, &Faults<'_>)>) -> Gauge {
    let of_files = |folder: PathBuf| Gauge { figures: of_files(&folder), ..Gauge::default() };
    let known = match card.vendor {
        Vendor::Nvidia => nvml.and_then(|(nvml, faults)| Some(of_nvml(&device(nvml, &card.name)?, faults))),
        Vendor::Amd => cards::amd_folder(root, &card.name).map(of_files),
        Vendor::Intel => cards::intel_folder(root, &card.name).map(of_files),
    };
    let mut gauge = known.unwrap_or_default();
    gauge.figures.model.clone_from(&card.model);
    gauge
}

fn device<'a>(nvml: &'a Nvml, name: &str) -> Option<Device<'a>> {
    match name.parse() {
        Ok(number) => nvml.device_by_index(number).ok(),
        Err(_) => nvml.device_by_uuid(name).ok(),
    }
}

fn of_nvml(device: &Device<'_>, faults: &Faults<'_>) -> Gauge {
    let memory = device.memory_info().ok();
    let figures = CardFigures {
        model: String::new(),
        load: device.utilization_rates().ok().map(|rates| (rates.gpu * 10).min(1_000) as u16),
        memory_used_bytes: memory.as_ref().map(|memory| memory.used),
        memory_bytes: memory.map(|memory| memory.total),
        temperature_c: device.temperature(TemperatureSensor::Gpu).ok().and_then(|of| of.try_into().ok()),
        power_mw: device.power_usage().ok(),
    };
    let errors = |of| device.total_ecc_errors(of, EccCounter::Volatile).ok();
    Gauge {
        figures,
        slow_c: device.temperature_threshold(TemperatureThreshold::Slowdown).ok(),
        stop_c: device.temperature_threshold(TemperatureThreshold::Shutdown).ok(),
        corrected: errors(MemoryError::Corrected),
        // A driver that tells of faults has told of none at first.
        uncorrected: match (errors(MemoryError::Uncorrected), faults.of_device(device)) {
            (Some(errors), Some(seen)) => Some(errors.saturating_add(seen)),
            (errors, seen) => errors.or(seen),
        },
    }
}

/// What the kernel's files of a card say: `folder` is that of the device.
fn of_files(folder: &Path) -> CardFigures {
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let hwmon =
        fs::read_dir(folder.join("hwmon")).ok().and_then(|mut all| all.next()?.ok()).map(|of| of.path());
    let sensor = |names: &[&str]| {
        let folder = hwmon.as_ref()?;
        names.iter().find_map(|name| number(folder.join(name)))
    };
    let percent = number(folder.join("gpu_busy_percent")).filter(|percent| *percent <= 100);
    CardFigures {
        model: String::new(),
        load: percent.map(|percent| percent as u16 * 10),
        memory_used_bytes: number(folder.join("mem_info_vram_used")),
        memory_bytes: number(folder.join("mem_info_vram_total"))
            .or_else(|| number(folder.parent()?.join("lmem_total_bytes"))),
        // Thousandths of a degree.
        temperature_c: sensor(&["temp1_input"]).and_then(|of| i32::try_from(of / 1_000).ok()),
        // Microwatts.
        power_mw: sensor(&["power1_average", "power1_input"]).and_then(|of| u32::try_from(of / 1_000).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    fn write(dir: &TempDir, path: &str, text: &str) {
        let path = dir.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn what_the_files_of_a_card_say_is_known_and_the_rest_is_absent() {
        let dir = TempDir::new();
        for (file, text) in [
            ("gpu_busy_percent", "37\n"),
            ("mem_info_vram_used", "1073741824\n"),
            ("mem_info_vram_total", "17163091968\n"),
            ("hwmon/hwmon3/temp1_input", "61000\n"),
            ("hwmon/hwmon3/power1_average", "123000000\n"),
        ] {
            write(&dir, &format!("amd/device/{file}"), text);
        }
        let figures = of_files(&dir.0.join("amd/device"));
        let wanted = CardFigures {
            model: String::new(),
            load: Some(370),
            memory_used_bytes: Some(1 << 30),
            memory_bytes: Some(17_163_091_968),
            temperature_c: Some(61),
            power_mw: Some(123_000),
        };
        assert_eq!(figures, wanted);
        write(&dir, "intel/lmem_total_bytes", "17179869184\n");
        write(&dir, "intel/device/hwmon/hwmon0/power1_input", "45000000\n");
        write(&dir, "intel/device/gpu_busy_percent", "not a number\n");
        let figures = of_files(&dir.0.join("intel/device"));
        let wanted =
            CardFigures { memory_bytes: Some(1 << 34), power_mw: Some(45_000), ..CardFigures::default() };
        assert_eq!(figures, wanted);
        assert_eq!(of_files(&dir.0.join("none")), CardFigures::default());
    }

    #[test]
    fn a_card_of_amd_is_found_by_the_number_of_its_render_node() {
        let dir = TempDir::new();
        for (node, id, minor) in [(0, 0, 0), (1, 51_234, 129), (2, 51_235, 128)] {
            let node = format!("sys/class/kfd/kfd/topology/nodes/{node}");
            write(&dir, &format!("{node}/gpu_id"), &format!("{id}\n"));
            write(&dir, &format!("{node}/properties"), &format!("simd_count 4\ndrm_render_minor {minor}\n"));
        }
        for (minor, percent) in [(128, 80), (129, 10)] {
            let file = format!("sys/class/drm/renderD{minor}/device/gpu_busy_percent");
            write(&dir, &file, &format!("{percent}\n"));
        }
        let loads: Vec<_> =
            cards::read(&dir.0).iter().map(|card| gauge(&dir.0, card, None).figures.load).collect();
        assert_eq!(loads, [Some(100), Some(800)]);
    }
}
