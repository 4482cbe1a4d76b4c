//! Types of stages that need nothing from outside, a file for each module.

mod wavebuf;

use crate::stage::Module;

/// These modules.
pub const PURE: [Module; 1] = [wavebuf::MODULE];
