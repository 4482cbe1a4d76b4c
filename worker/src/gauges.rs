//! How cards do: what the drivers of NVIDIA (by their library NVML), AMD and Intel (by files of the system) say of load,
//! memory, temperature and power. A library of a driver may crash or hang, so that a child process asks it, every few
//! seconds; while there is none, nothing is known.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use starfarm_protocol::wire::CardFigures;

use crate::cards::{self, Card, Vendor};
use crate::devices::{HostWork, Watcher};
use crate::event::Event;
use crate::options::usual_cards;

/// How often the child looks.
const PERIOD: Duration = Duration::from_secs(3);
/// A child that says nothing for so long hangs in a driver's library, and is ended.
const HANGS: Duration = Duration::from_secs(30);
/// After a child that ended the next one comes so much later.
const PAUSE: Duration = Duration::from_secs(60);

/// Starts to tell how the cards of the machine do, where there are some.
pub(crate) fn start(inbox: &Sender<Event>) -> io::Result<()> {
    let (cards, inbox) = (usual_cards(), inbox.clone());
    if cards.is_empty() {
        return Ok(());
    }
    let models = cards.into_iter().map(|card| CardFigures { model: card.model, ..CardFigures::default() });
    let models: Vec<_> = models.collect();
    let watch = move || while watch(&models, &inbox).is_some() {};
    std::thread::Builder::new().name("gauges".into()).spawn(watch).map(drop)
}

/// Tells how the cards do, for the life of one child; nothing when nobody listens any more.
fn watch(models: &[CardFigures], inbox: &Sender<Event>) -> Option<()> {
    if let Ok(mut watcher) = Watcher::start(HostWork::Watch) {
        while let Some(line) = watcher.next(HANGS) {
            let Ok(figures) = serde_json::from_slice(&line) else { break };
            inbox.send(Event::Cards(figures)).ok()?;
        }
    }
    // What was known is not known any more.
    inbox.send(Event::Cards(models.to_vec())).ok()?;
    std::thread::sleep(PAUSE);
    Some(())
}

/// The child's own life: it looks, and says so, until nobody listens.
///
/// # Errors
/// That of the pipe.
pub(crate) fn serve(mut output: File) -> io::Result<()> {
    let cards = usual_cards();
    let open = || Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init().ok();
    let (mut nvml, mut opened) = (open(), Instant::now());
    loop {
        // A driver may be loaded after us.
        if nvml.is_none()
            && opened.elapsed() > PAUSE
            && cards.iter().any(|card| card.vendor == Vendor::Nvidia)
        {
            (nvml, opened) = (open(), Instant::now());
        }
        let figures: Vec<CardFigures> =
            cards.iter().map(|card| figures(Path::new("/"), card, nvml.as_ref())).collect();
        let mut line = serde_json::to_vec(&figures)?;
        line.push(b'\n');
        output.write_all(&line)?;
        output.flush()?;
        std::thread::sleep(PERIOD);
    }
}

fn figures(root: &Path, card: &Card, nvml: Option<&Nvml>) -> CardFigures {
    let known = match card.vendor {
        Vendor::Nvidia => nvml.map(|nvml| of_nvml(nvml, &card.name)),
        Vendor::Amd => cards::amd_folder(root, &card.name).map(|folder| of_files(&folder)),
        Vendor::Intel => cards::intel_folder(root, &card.name).map(|folder| of_files(&folder)),
    };
    CardFigures { model: card.model.clone(), ..known.unwrap_or_default() }
}

fn of_nvml(nvml: &Nvml, name: &str) -> CardFigures {
    let device = match name.parse() {
        Ok(number) => nvml.device_by_index(number),
        Err(_) => nvml.device_by_uuid(name),
    };
    let Ok(device) = device else { return CardFigures::default() };
    let memory = device.memory_info().ok();
    CardFigures {
        model: String::new(),
        load: device.utilization_rates().ok().map(|rates| (rates.gpu * 10).min(1_000) as u16),
        memory_used_bytes: memory.as_ref().map(|memory| memory.used),
        memory_bytes: memory.map(|memory| memory.total),
        temperature_c: device.temperature(TemperatureSensor::Gpu).ok().and_then(|of| of.try_into().ok()),
        power_mw: device.power_usage().ok(),
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
        let loads: Vec<_> = cards::read(&dir.0).iter().map(|card| figures(&dir.0, card, None).load).collect();
        assert_eq!(loads, [Some(100), Some(800)]);
    }
}
