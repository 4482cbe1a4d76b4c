//! Messages on their way from stage to stage.

use crate::values::Message;

/// Messages that may be on their way at one time, and their bytes: paths that part and meet again multiply what they carry.
const MESSAGES_MAX: usize = 65_536;
const BYTES_MAX: usize = 64 << 20;

/// Messages on their way, in one buffer.
#[derive(Default)]
pub(crate) struct Flow {
    pub(crate) bytes: Vec<u8>,
    /// Slot and output that each comes from, and the end of its bytes.
    pub(crate) messages: Vec<(usize, usize, usize)>,
    pub(crate) left_out: u64,
    /// Messages that there was no room for.
    pub(crate) dropped: u64,
}

impl Flow {
    /// Takes a message; false where there is no room for any, and none was put together.
    pub(crate) fn emit(&mut self, slot: usize, output: usize, put: impl FnOnce(&mut Message<'_>)) -> bool {
        if self.messages.len() == MESSAGES_MAX || self.bytes.len() > BYTES_MAX {
            self.dropped += 1;
            return false;
        }
        let start = self.bytes.len();
        put(&mut Message::new(&mut self.bytes, &mut self.left_out));
        if self.bytes.len() > start {
            self.messages.push((slot, output, self.bytes.len()));
        }
        true
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.messages.clear();
    }
}
