//! What stands in `examples/modules/starfarm_module.h`, as C lays it out. Nothing of it is called here.

use std::ffi::{c_char, c_int, c_void};

/// The version of all of it.
pub(super) const VERSION: u32 = 1;
/// What a shared object has.
pub(super) const SYMBOL: &str = "starfarm_module";

/// What the agent does for a stage.
#[repr(C)]
pub(super) struct Host {
    pub(super) version: u32,
    pub(super) emit: extern "C" fn(u32, *const c_void, usize) -> c_int,
    pub(super) wait_for_wave: extern "C" fn(),
    pub(super) not_taken: extern "C" fn(u64),
    pub(super) now_us: extern "C" fn() -> u64,
    pub(super) say: extern "C" fn(*const c_char),
}

/// An input or output.
#[repr(C)]
pub(super) struct Hook {
    pub(super) side: u32,
    pub(super) port: u32,
    pub(super) name: *const c_char,
}

pub(super) type Entry = unsafe extern "C" fn() -> *const Table;
pub(super) type Create = unsafe extern "C" fn(*const Host) -> *mut c_void;
pub(super) type OfStage = unsafe extern "C" fn(*mut c_void);
pub(super) type EdgeMade = unsafe extern "C" fn(*mut c_void, *const Hook, *mut c_char, usize) -> c_int;
pub(super) type EdgeGone = unsafe extern "C" fn(*mut c_void, *const Hook);
pub(super) type Data = unsafe extern "C" fn(*mut c_void, u32, *const c_void, usize);
pub(super) type Set =
    unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, *mut c_char, usize) -> c_int;
pub(super) type Fired = unsafe extern "C" fn(*mut c_void, *const *const c_char, usize);

/// A type of stages.
#[repr(C)]
pub(super) struct Type {
    pub(super) name: *const c_char,
    pub(super) create: Option<Create>,
    pub(super) calls: Calls,
}

/// What its stages are asked, in the order of the C table.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Calls {
    pub(super) destroy: Option<OfStage>,
    pub(super) edge_made: Option<EdgeMade>,
    pub(super) edge_gone: Option<EdgeGone>,
    pub(super) data: Option<Data>,
    pub(super) set: Option<Set>,
    pub(super) fired: Option<Fired>,
    pub(super) wave_is_over: Option<OfStage>,
}

/// A module.
#[repr(C)]
pub(super) struct Table {
    pub(super) version: u32,
    pub(super) types_count: u32,
    pub(super) name: *const c_char,
    pub(super) types: *const Type,
}
