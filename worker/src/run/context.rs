//! What every executor has at hand.

use std::path::PathBuf;
use std::sync::Arc;

use crate::board::Board;
use crate::contents::Contents;

pub(crate) struct Context {
    pub(crate) slot: u16,
    pub(crate) board: Arc<Board>,
    pub(crate) contents: Arc<Contents>,
    /// Folder for the scratch directories of attempts.
    pub(crate) scratch: PathBuf,
}
