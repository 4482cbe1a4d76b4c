//! What a run of transfers counted.

/// What a run counted.
#[derive(Clone, Copy, Default, Debug)]
pub struct Transfers {
    /// Contents that were fetched, whole.
    pub fetched: u64,
    /// Contents that were stored, whole.
    pub stored: u64,
    /// Times that short contents were stored together.
    pub together: u64,
    /// Transfers that went on where they were.
    pub resumed: u64,
    /// Equal contents that were on their way at one time.
    pub equal: u64,
    /// Orders that were given up since TCP did not get through.
    pub hopeless: u64,
    /// Orders that nobody wanted any more.
    pub dropped: u64,
    /// Times that the scheduler said that there is no room.
    pub no_room: u64,
    /// Schedulers that died.
    pub restarts: u64,
    /// Streams that were opened.
    pub streams: u64,
}
