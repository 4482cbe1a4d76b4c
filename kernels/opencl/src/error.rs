//! What can go wrong with a device, in words.

use std::fmt;

use opencl3::error_codes::ClError;

/// Why something could not be done with OpenCL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpenClError {
    /// There is no loader, or it knows no platform.
    NoPlatform,
    /// The program cannot be compiled; what the compiler said.
    Build(String),
    /// A call failed: what was asked for, and the error's name.
    Call(&'static str, String),
    /// One unit alone has more hits than there is room for.
    TooManyHits {
        /// Its hits.
        hits: u32,
        /// How many there is room for.
        room: u32,
    },
}

impl OpenClError {
    /// What a call that does `what` failed with.
    pub(crate) fn of(what: &'static str) -> impl FnOnce(ClError) -> Self {
        move |error| Self::Call(what, String::from(error))
    }
}

impl fmt::Display for OpenClError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPlatform => {
                f.write_str("no OpenCL platform was found: install the driver of the device and the loader (libOpenCL.so.1)")
            }
            Self::Build(log) => write!(f, "the OpenCL program cannot be compiled: {}", log.trim()),
            Self::TooManyHits { hits, room } => {
                write!(f, "one unit has {hits} hits, and the job's `hits` has room for {room}: submit it with more")
            }
            Self::Call(what, error) => write!(f, "the OpenCL device failed to {what}: {error}"),
        }
    }
}

impl std::error::Error for OpenClError {}
