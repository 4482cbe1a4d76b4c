//! Devices of a worker beside its processor's cores: what each is, as a job may ask for it.

use crate::word::words;

words! {
    /// What a device is.
    #[derive(Default)]
    DeviceKind {
        /// A graphics card.
        Gpu = 0 => "gpu",
        /// The machine's own processor, as PoCL makes a device of it.
        Cpu = 1 => "cpu",
        /// Another accelerator.
        #[default]
        Accelerator = 2 => "accelerator",
    }
}
