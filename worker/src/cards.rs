//! Cards of this machine that programs may be given, as the drivers' files name them, and the variables by which a program
//! sees its own cards and no others.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use starfarm_protocol::devices::{DeviceFacts, DeviceKind};
use starfarm_protocol::resources::GPUS_MAX;

use crate::devices::Listed;
use crate::system_files::value;

/// Whose card it is, and so which variable shows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Vendor {
    Nvidia,
    Amd,
    Intel,
}

impl Vendor {
    const ALL: [Self; 3] = [Self::Nvidia, Self::Amd, Self::Intel];

    /// What its OpenCL platform has in its name.
    fn platform(self) -> &'static str {
        match self {
            Self::Nvidia => "NVIDIA",
            Self::Amd => "AMD",
            Self::Intel => "Intel",
        }
    }

    /// The variable that names the cards which a process sees.
    fn variable(self) -> &'static str {
        match self {
            Self::Nvidia => "CUDA_VISIBLE_DEVICES",
            Self::Amd => "ROCR_VISIBLE_DEVICES",
            Self::Intel => "ZE_AFFINITY_MASK",
        }
    }
}

/// A card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Card {
    /// Its model, as a person knows it.
    pub(crate) model: String,
    pub(crate) vendor: Vendor,
    /// What the vendor's variable has for it: a number or a name.
    pub(crate) name: String,
    /// Its address on the PCI bus, as the system writes it; none where that is not known.
    pub(crate) place: Option<String>,
}

/// The cards of the machine whose files lie below `root`, which is `/`: those of a vendor in the order of their places.
pub(crate) fn read(root: &Path) -> Vec<Card> {
    [nvidia(root), amd(root), intel(root)].concat()
}

/// Those of `cards` that this process may use: a batch system that gives it some says so by the vendors' variables.
pub(crate) fn visible(cards: Vec<Card>, variable: impl Fn(&str) -> Option<String>) -> Vec<Card> {
    let of = |vendor: Vendor| -> Vec<Card> {
        let its: Vec<Card> = cards.iter().filter(|card| card.vendor == vendor).cloned().collect();
        let Some(list) = variable(vendor.variable()) else { return its };
        let names = list.split(',').map(str::trim).take_while(|name| !name.is_empty() && *name != "-1");
        let named = |name: &str| {
            let by_number = name.parse().ok().and_then(|number: usize| its.get(number));
            let by_name = || its.iter().find(|card| card.name == name);
            // A part of a card, or one whose files are hidden, is one by its name.
            let model = its.first().map_or_else(|| format!("{vendor:?}"), |card| card.model.clone());
            let part = || Card { model, vendor, name: name.to_owned(), place: None };
            match by_number.or_else(by_name) {
                Some(card) => Some(card.clone()),
                None => name.contains(['-', '.']).then(part),
            }
        };
        // One that is named twice is one.
        names.map_while(named).fold(Vec::new(), |mut cards, card| {
            if !cards.contains(&card) {
                cards.push(card);
            }
            cards
        })
    };
    let mut visible: Vec<Card> = Vendor::ALL.into_iter().flat_map(of).collect();
    visible.truncate(GPUS_MAX as usize);
    visible
}

/// Which of `cards` each device is, by their numbers: the one in the same place or, where no driver tells that, of one vendor
/// both lists are in the order of the places.
pub(crate) fn of_devices(cards: &[Card], devices: &[Listed]) -> Vec<Option<usize>> {
    let vendor = |device: &DeviceFacts| {
        let is_of = |vendor: &Vendor| device.platform.contains(vendor.platform());
        Vendor::ALL.into_iter().find(is_of).filter(|_| device.kind == DeviceKind::Gpu)
    };
    let mut seen = Vec::new();
    let card = |Listed { facts, place, .. }: &Listed| {
        if place.is_some()
            && let Some(number) = cards.iter().position(|card| card.place == *place)
        {
            return Some(number);
        }
        let vendor = vendor(facts)?;
        let its: Vec<usize> = (0..cards.len()).filter(|number| cards[*number].vendor == vendor).collect();
        // It is where no card is: one that is a part of the processor.
        if place.is_some() && its.iter().all(|number| cards[*number].place.is_some()) {
            return None;
        }
        let place = seen.iter().filter(|of| **of == vendor).count();
        seen.push(vendor);
        its.get(place).copied()
    };
    devices.iter().map(card).collect()
}

/// What a program is told that has those of `cards` with these numbers: it sees these, and none of any vendor's others.
pub(crate) fn variables(cards: &[Card], numbers: &[u16]) -> Vec<(OsString, OsString)> {
    if numbers.is_empty() {
        return Vec::new();
    }
    let join = |names: Vec<String>| OsString::from(names.join(","));
    let names = |vendor: Vendor| -> Vec<String> {
        let its = numbers.iter().filter_map(|number| cards.get(usize::from(*number)));
        its.filter(|card| card.vendor == vendor).map(|card| card.name.clone()).collect()
    };
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    for vendor in Vendor::ALL {
        variables.push((vendor.variable().into(), join(names(vendor))));
    }
    // HIP counts the cards that the variable below it has left.
    let left = (0..names(Vendor::Amd).len()).map(|number| number.to_string()).collect();
    variables.push(("HIP_VISIBLE_DEVICES".into(), join(left)));
    // Numbers are places on the bus, as `nvidia-smi` counts them.
    variables.push(("CUDA_DEVICE_ORDER".into(), "PCI_BUS_ID".into()));
    variables.push(("STARFARM_DEVICES".into(), join(numbers.iter().map(u16::to_string).collect())));
    variables
}

/// Cards that NVIDIA's driver knows.
fn nvidia(root: &Path) -> Vec<Card> {
    let cards = each(&root.join("proc/driver/nvidia/gpus"), |dir| {
        let text = fs::read_to_string(dir.join("information")).ok()?;
        // Without the right to know it, its name is made of question marks.
        let name = value(&text, "GPU UUID").filter(|name| name.starts_with("GPU-") && !name.contains('?'));
        Some((value(&text, "Model")?.to_owned(), name.map(str::to_owned), address(dir)))
    });
    let card = |(number, (model, name, place)): (usize, (String, Option<String>, Option<String>))| {
        let name = name.unwrap_or_else(|| number.to_string());
        Card { model, vendor: Vendor::Nvidia, name, place }
    };
    cards.into_iter().enumerate().map(card).collect()
}

/// Cards that AMD's compute driver knows. Processors are nodes there too, without a GPU's id.
fn amd(root: &Path) -> Vec<Card> {
    let models = each(&root.join("sys/class/kfd/kfd/topology/nodes"), |dir| {
        let text = |file| fs::read_to_string(dir.join(file)).ok();
        let is_gpu = text("gpu_id")?.trim() != "0";
        let model = text("name").map_or_else(|| "AMD GPU".to_owned(), |name| format!("AMD {}", name.trim()));
        let properties = text("properties").unwrap_or_default();
        let number = |name| property(&properties, name)?.parse::<u32>().ok();
        let place = number("location_id").map(|at| {
            let (domain, bus, slot) = (number("domain").unwrap_or(0), at >> 8, at & 0xff);
            format!("{domain:04x}:{bus:02x}:{:02x}.{:x}", slot >> 3, slot & 7)
        });
        is_gpu.then_some((model, place))
    });
    let card = |(number, (model, place)): (usize, (String, Option<String>))| Card {
        model,
        vendor: Vendor::Amd,
        name: number.to_string(),
        place,
    };
    models.into_iter().enumerate().map(card).collect()
}

/// A property of a node of AMD's compute driver.
fn property<'a>(properties: &'a str, name: &str) -> Option<&'a str> {
    properties.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::trim)
}

/// The PCI address that a folder is named by.
fn address(dir: &Path) -> Option<String> {
    let name = dir.file_name()?.to_str()?.to_ascii_lowercase();
    (name.contains(':') && name.contains('.')).then_some(name)
}

/// Cards of Intel with memory of their own; what a processor brings along has none.
fn intel(root: &Path) -> Vec<Card> {
    let card = |(number, dir): (usize, PathBuf)| Card {
        model: "Intel GPU".to_owned(),
        vendor: Vendor::Intel,
        name: number.to_string(),
        place: fs::canonicalize(dir.join("device")).ok().and_then(|dir| address(&dir)),
    };
    intel_cards(root).into_iter().enumerate().map(card).collect()
}

/// The folders of these.
fn intel_cards(root: &Path) -> Vec<PathBuf> {
    each(&root.join("sys/class/drm"), |dir| {
        let text = |file| fs::read_to_string(dir.join(file)).ok();
        let is_intel = text("device/vendor")?.trim() == "0x8086";
        let memory: u64 = text("lmem_total_bytes").and_then(|bytes| bytes.trim().parse().ok())?;
        (is_intel && memory > 0).then(|| dir.to_owned())
    })
}

/// The folder of the device of AMD's card of that number; none where there is none.
pub(crate) fn amd_folder(root: &Path, name: &str) -> Option<PathBuf> {
    let number: usize = name.parse().ok()?;
    let minors = each(&root.join("sys/class/kfd/kfd/topology/nodes"), |dir| {
        let text = |file| fs::read_to_string(dir.join(file)).ok();
        let properties = text("properties").unwrap_or_default();
        let minor = property(&properties, "drm_render_minor");
        (text("gpu_id")?.trim() != "0").then(|| minor.map(str::to_owned))
    });
    let minor = minors.into_iter().nth(number)??;
    Some(root.join(format!("sys/class/drm/renderD{minor}/device")))
}

/// The same of Intel's.
pub(crate) fn intel_folder(root: &Path, name: &str) -> Option<PathBuf> {
    intel_cards(root).into_iter().nth(name.parse().ok()?).map(|folder| folder.join("device"))
}

/// What `read` makes of each entry of a directory, in the order of their names: of numbers by these.
fn each<T>(dir: &Path, read: impl Fn(&Path) -> Option<T>) -> Vec<T> {
    let mut paths: Vec<_> =
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let number = |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    paths.sort_by_key(|path| (number(path), path.clone()));
    paths.iter().filter_map(|path| read(path)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::testing::TempDir;

    const FIRST: &str = "GPU-8f1c2f0e-1111-2222-3333-444455556666";

    fn machine() -> TempDir {
        let dir = TempDir::new();
        let write = |path: &str, text: &str| {
            let path = dir.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let gpus = "proc/driver/nvidia/gpus";
        write(
            &format!("{gpus}/0000:41:00.0/information"),
            "Model: \t\t Some H100\nGPU UUID: \t GPU-????????\n",
        );
        let first = format!("Model: \t\t Some H100\nIRQ:   \t\t 1\nGPU UUID: \t {FIRST}\n");
        write(&format!("{gpus}/0000:01:00.0/information"), &first);
        for (node, id) in [(0, 0), (1, 51_234), (10, 51_236), (2, 51_235)] {
            let node = format!("sys/class/kfd/kfd/topology/nodes/{node}");
            write(&format!("{node}/gpu_id"), &format!("{id}\n"));
            write(&format!("{node}/name"), &format!("gfx{id}\n"));
        }
        // The places of two of them: bus, then device and function in one byte.
        for (node, at, domain) in [(1, 0xc301, 0), (2, 0xc400, 1)] {
            let properties = format!("simd_count 4\nlocation_id {at}\ndomain {domain}\n");
            write(&format!("sys/class/kfd/kfd/topology/nodes/{node}/properties"), &properties);
        }
        let intel = "sys/devices/pci0000:9a/0000:9a:00.0";
        write(&format!("{intel}/vendor"), "0x8086\n");
        fs::create_dir_all(dir.0.join("sys/class/drm/card1")).unwrap();
        symlink(dir.0.join(intel), dir.0.join("sys/class/drm/card1/device")).unwrap();
        write("sys/class/drm/card1/lmem_total_bytes", "17179869184\n");
        // A processor's own.
        write("sys/class/drm/card0/device/vendor", "0x8086\n");
        dir
    }

    fn names(cards: &[Card]) -> Vec<&str> {
        cards.iter().map(|card| card.name.as_str()).collect()
    }

    #[test]
    fn cards_come_in_the_order_of_their_places() {
        let dir = machine();
        let cards = read(&dir.0);
        assert_eq!(names(&cards), [FIRST, "1", "0", "1", "2", "0"]);
        let models: Vec<&str> = cards.iter().map(|card| card.model.as_str()).collect();
        assert_eq!(
            models,
            ["Some H100", "Some H100", "AMD gfx51234", "AMD gfx51235", "AMD gfx51236", "Intel GPU"]
        );
        assert_eq!(read(Path::new("/nowhere")), []);
    }

    #[test]
    fn what_a_batch_system_gives_is_all_there_is() {
        let dir = machine();
        let seen = |list: &str| {
            let variable = |name: &str| match name {
                "CUDA_VISIBLE_DEVICES" => Some(list.to_owned()),
                _ => Some(String::new()),
            };
            names(&visible(read(&dir.0), variable)).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(seen("1"), ["1"]);
        assert_eq!(seen("1,0"), ["1", FIRST]);
        assert_eq!(seen(FIRST), [FIRST]);
        assert_eq!(seen("MIG-77,0"), ["MIG-77", FIRST]);
        assert_eq!(seen(&format!("0,{FIRST},1,0")), [FIRST, "1"], "twice is once");
        for nothing in ["", "-1", "NoDevFiles", "7"] {
            assert_eq!(seen(nothing), [""; 0], "{nothing}");
        }
        assert_eq!(visible(read(&dir.0), |_| None).len(), 6);
    }

    #[test]
    fn devices_are_cards_of_their_vendor_in_the_same_order() {
        let device = |platform: &str, kind| Listed {
            facts: DeviceFacts { platform: platform.into(), kind, ..Default::default() },
            ..Listed::default()
        };
        let devices = [
            device("AMD Accelerated Parallel Processing", DeviceKind::Gpu),
            device("Portable Computing Language", DeviceKind::Cpu),
            device("NVIDIA CUDA", DeviceKind::Gpu),
            device("Intel(R) OpenCL", DeviceKind::Cpu),
            device("AMD Accelerated Parallel Processing", DeviceKind::Gpu),
            device("Intel(R) OpenCL Graphics", DeviceKind::Gpu),
            device("NVIDIA CUDA", DeviceKind::Gpu),
            device("NVIDIA CUDA", DeviceKind::Gpu),
        ];
        let cards = read(&machine().0);
        let wanted = [Some(2), None, Some(0), None, Some(3), Some(5), Some(1), None];
        assert_eq!(of_devices(&cards, &devices), wanted);
    }

    #[test]
    fn a_device_is_the_card_in_its_place_whatever_the_order_and_the_platform() {
        let device = |platform: &str, place: &str| Listed {
            facts: DeviceFacts { platform: platform.into(), kind: DeviceKind::Gpu, ..Default::default() },
            place: Some(place.to_owned()),
            before: 0,
        };
        let cards = read(&machine().0);
        let places: Vec<_> = cards.iter().map(|card| card.place.as_deref()).collect();
        let (amd, intel) = (Some("0000:c3:00.1"), Some("0000:9a:00.0"));
        assert_eq!(
            places,
            [Some("0000:01:00.0"), Some("0000:41:00.0"), amd, Some("0001:c4:00.0"), None, intel]
        );
        let devices = [
            device("NVIDIA CUDA", "0000:41:00.0"),
            device("rusticl", "0000:c3:00.1"),
            // The processor's own.
            device("Intel(R) OpenCL Graphics", "0000:00:02.0"),
            device("Intel(R) OpenCL Graphics", "0000:9a:00.0"),
            // Of a card of AMD the place is not known.
            device("AMD Accelerated Parallel Processing", "0000:c5:00.0"),
        ];
        assert_eq!(of_devices(&cards, &devices), [Some(1), Some(2), None, Some(5), Some(2)]);
    }

    #[test]
    fn a_program_sees_its_own_cards_and_no_others() {
        let dir = machine();
        let told = |numbers: &[u16]| -> Vec<String> {
            let variables = variables(&read(&dir.0), numbers).into_iter();
            variables.map(|(name, value)| format!("{}={}", name.display(), value.display())).collect()
        };
        assert_eq!(told(&[]), [""; 0]);
        let cuda = format!("CUDA_VISIBLE_DEVICES={FIRST}");
        let rest = ["CUDA_DEVICE_ORDER=PCI_BUS_ID", "STARFARM_DEVICES=0,3,4"];
        let wanted = [&cuda, "ROCR_VISIBLE_DEVICES=1,2", "ZE_AFFINITY_MASK=", "HIP_VISIBLE_DEVICES=0,1"];
        assert_eq!(told(&[0, 3, 4]), [&wanted[..], &rest].concat());
    }
}
