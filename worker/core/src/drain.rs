//! A worker that is to leave: how long it waits, once nothing runs, for what it computed to be acknowledged.

/// It waits this long for the last acknowledgements; what is left goes into the spool.
const ACK_US: u64 = 5_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Drain {
    /// Set when the last slot has become idle.
    give_up_at: Option<u64>,
    done: bool,
}

impl Drain {
    /// Nothing runs any more, or it is too `late` to wait for that; true, once, when it is over. `acknowledged`: all
    /// results are.
    pub(crate) fn is_over(&mut self, acknowledged: bool, late: bool, now_us: u64) -> bool {
        let give_up_at = *self.give_up_at.get_or_insert(now_us + ACK_US);
        let over = !self.done && (acknowledged || late || now_us >= give_up_at);
        self.done |= over;
        debug_assert!(self.done || now_us < give_up_at, "nobody is waited for after that");
        over
    }

    /// It was over.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// When [`Drain::is_over`] should be asked next, once nothing runs; none after its end.
    pub(crate) fn deadline(&self, acknowledged: bool) -> Option<u64> {
        let wait = if acknowledged { None } else { self.give_up_at };
        (!self.done).then(|| wait.unwrap_or(0))
    }
}
