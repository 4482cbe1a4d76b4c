//! The devices of this machine, in the order of its platforms, and what each says of itself.

use std::fmt;
use std::sync::Arc;

use opencl3::device::{
    CL_DEVICE_PCI_BUS_ID_NV, CL_DEVICE_PCI_BUS_INFO_KHR, CL_DEVICE_PCI_SLOT_ID_NV, CL_DEVICE_TOPOLOGY_AMD,
    CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU,
};
use opencl3::platform::get_platforms;
use starfarm_protocol::devices::{DeviceFacts, DeviceKind};

use crate::cache::Cache;
use crate::error::OpenClError;

/// What the crate has no name for.
const CL_DEVICE_PCI_DOMAIN_ID_NV: u32 = 0x400A;

/// A device.
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) device: opencl3::device::Device,
    facts: DeviceFacts,
    pub(crate) cache: Option<Arc<Cache>>,
    pub(crate) tell: Option<Tell>,
}

/// Hears that the device compiles, and that it does so no more.
#[derive(Clone)]
pub(crate) struct Tell(pub(crate) Arc<dyn Fn(bool) + Send + Sync>);

impl fmt::Debug for Tell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tell")
    }
}

impl Device {
    /// The same, and what is compiled for it is kept in `cache`.
    #[must_use]
    pub fn cached(self, cache: Option<Cache>) -> Self {
        Self { cache: cache.map(Arc::new), ..self }
    }

    /// The same, and `tell` hears when it begins to compile for a launch, and when that launch runs.
    #[must_use]
    pub fn telling(self, tell: impl Fn(bool) + Send + Sync + 'static) -> Self {
        Self { tell: Some(Tell(Arc::new(tell))), ..self }
    }

    /// Its address on the PCI bus, as the system writes it (`0000:41:00.0`); none where its driver does not tell.
    pub fn place(&self) -> Option<String> {
        // The calls of the crate panic over an answer of another size. What a driver does not know it answers by an error.
        let said = |what| self.device.get_data(what).ok();
        let number = |what| said(what)?.try_into().map(u32::from_ne_bytes).ok();
        let by_standard = || {
            let bytes: [u8; 16] = said(CL_DEVICE_PCI_BUS_INFO_KHR)?.try_into().ok()?;
            Some([0, 4, 8, 12].map(|at| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]))))
        };
        let by_nvidia = || {
            let (bus, slot) = (number(CL_DEVICE_PCI_BUS_ID_NV)?, number(CL_DEVICE_PCI_SLOT_ID_NV)?);
            Some([number(CL_DEVICE_PCI_DOMAIN_ID_NV).unwrap_or(0), bus, slot >> 3, slot & 7])
        };
        let by_amd = || {
            let bytes: [u8; 24] = said(CL_DEVICE_TOPOLOGY_AMD)?.try_into().ok()?;
            Some([0, bytes[21].into(), bytes[22].into(), bytes[23].into()])
        };
        let [domain, bus, device, function] = by_standard().or_else(by_nvidia).or_else(by_amd)?;
        Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
    }

    /// All that the driver says of it, of itself and of its platform that a compiled program may depend on.
    pub(crate) fn names(&self) -> Vec<String> {
        let platform = self.device.platform().map(opencl3::platform::Platform::new);
        let of_platform =
            platform.map(|platform| [platform.name(), platform.version()]).into_iter().flatten();
        let of_device = [self.device.vendor(), self.device.name(), self.device.driver_version()];
        of_platform.chain(of_device).chain([self.device.version()]).map(Result::unwrap_or_default).collect()
    }

    /// The same, used as if it had said this of itself: programs depend on kind and width, and tests have one device.
    #[must_use]
    pub fn as_if(self, facts: DeviceFacts) -> Self {
        Self { facts, ..self }
    }

    /// What it says of itself.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }
}

/// All devices that can be used.
///
/// # Errors
/// [`OpenClError::NoPlatform`] on a machine without any driver.
pub fn devices() -> Result<Vec<Device>, OpenClError> {
    let platforms = get_platforms().map_err(|_| OpenClError::NoPlatform)?;
    if platforms.is_empty() {
        return Err(OpenClError::NoPlatform);
    }
    let of = |platform: &opencl3::platform::Platform| {
        let name = platform.name().unwrap_or_default();
        // A platform without devices says so by an error.
        let ids = platform.get_devices(CL_DEVICE_TYPE_ALL).unwrap_or_default();
        ids.into_iter().filter_map(|id| read(&name, opencl3::device::Device::new(id))).collect::<Vec<_>>()
    };
    Ok(platforms.iter().flat_map(of).collect())
}

/// None for a device that cannot be used: it is not there, or nothing compiles for it.
fn read(platform: &str, device: opencl3::device::Device) -> Option<Device> {
    if !device.available().unwrap_or(false) || !device.compiler_available().unwrap_or(false) {
        return None;
    }
    let kinds = device.dev_type().unwrap_or_default();
    let is = |kind| kinds & kind != 0;
    let kind = match () {
        () if is(CL_DEVICE_TYPE_GPU) => DeviceKind::Gpu,
        () if is(CL_DEVICE_TYPE_CPU) => DeviceKind::Cpu,
        () if is(CL_DEVICE_TYPE_ACCELERATOR) => DeviceKind::Accelerator,
        () => DeviceKind::default(),
    };
    let plain = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let width = device.max_preferred_vector_width_int().unwrap_or(1);
    let facts = DeviceFacts {
        platform: plain(platform.to_owned()),
        name: plain(device.name().unwrap_or_default()),
        driver: plain(device.driver_version().unwrap_or_default()),
        kind,
        version: version(&device.version().unwrap_or_default()),
        memory_bytes: device.global_mem_size().unwrap_or(0),
        compute_units: device.max_compute_units().unwrap_or(1).max(1),
        // A vector of three is none that a kernel uses.
        width: 1 << width.clamp(1, 16).ilog2(),
    };
    Some(Device { device, facts, cache: None, tell: None })
}

/// The two numbers of "OpenCL MAJOR.MINOR ...", 1.0 where it says something else.
fn version(text: &str) -> (u8, u8) {
    let word = text.split_whitespace().nth(1);
    let numbers = word.and_then(|word| word.split_once('.'));
    numbers.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?))).unwrap_or((1, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_two_numbers() {
        assert_eq!(version("OpenCL 3.0 PoCL HSTR: x"), (3, 0));
        assert_eq!(version("OpenCL 1.2 "), (1, 2));
        for nonsense in ["", "OpenCL", "OpenCL 3", "OpenCL a.b", "OpenCL 999.1"] {
            assert_eq!(version(nonsense), (1, 0), "{nonsense}");
        }
    }
}
