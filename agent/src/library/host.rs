//! What the agent does for a stage in C while it calls it. Nothing is done at once: what a stage asks for is written down, and
//! done when the call has come back. So a call from another thread, or at another time, finds nobody who would do it.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Mutex;
use std::time::Instant;

use starfarm_agent_core::{Context, Triples};

use super::table::{Host, VERSION};
use crate::pace::Pace;

/// Bytes that a stage may send in one call, and messages.
const BYTES_MAX: usize = 1 << 20;
const MESSAGES_MAX: usize = 4_096;
/// Bytes of a line that are shown.
const LINE_BYTES_MAX: usize = 500;
/// Lines a second of all modules.
const LINES_MAX: u32 = 10;

pub(super) static HOST: Host = Host { version: VERSION, emit, wait_for_wave, not_taken, now_us, say };

thread_local! {
    static CALL: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// What a stage has asked for in a call.
#[derive(Default)]
struct Call {
    now_us: u64,
    /// Which outputs it has.
    outputs: Vec<bool>,
    bytes: Vec<u8>,
    /// Output and end of each message.
    messages: Vec<(usize, usize)>,
    wants_wave: bool,
    not_taken: u64,
}

impl Call {
    /// Takes a message; false where it cannot be one.
    fn emit(&mut self, output: u32, bytes: &[u8]) -> bool {
        let output = output as usize;
        let has_room = self.messages.len() < MESSAGES_MAX && self.bytes.len() + bytes.len() <= BYTES_MAX;
        let is_right = self.outputs.get(output) == Some(&true) && has_room && Triples::read(bytes).is_ok();
        if is_right {
            self.bytes.extend_from_slice(bytes);
            self.messages.push((output, self.bytes.len()));
        } else {
            self.not_taken += 1;
        }
        is_right
    }
}

/// Calls a stage that has these outputs, and does what it asks for meanwhile.
pub(super) fn during<T>(context: &mut Context<'_>, outputs: &[bool], call: impl FnOnce() -> T) -> T {
    let begun = Call { now_us: context.now_us(), outputs: outputs.to_vec(), ..Call::default() };
    CALL.set(Some(begun));
    let answer = call();
    let done = CALL.take().unwrap_or_default();
    let mut start = 0;
    for (output, end) in done.messages {
        if let Ok(triples) = Triples::read(&done.bytes[start..end]) {
            context.emit(output, |message| message.put_all(triples));
        }
        start = end;
    }
    if done.wants_wave {
        context.wait_for_wave();
    }
    context.not_taken(done.not_taken);
    answer
}

/// The call that goes on on this thread, if one does.
fn asked<T>(ask: impl FnOnce(&mut Call) -> T) -> Option<T> {
    CALL.with_borrow_mut(|call| call.as_mut().map(ask))
}

extern "C" fn emit(output: u32, triples: *const c_void, bytes: usize) -> c_int {
    let is_taken = asked(|call| {
        if bytes > BYTES_MAX || (triples.is_null() && bytes > 0) {
            call.not_taken += 1;
            return false;
        }
        // SAFETY: the module says that so many bytes are there, it is not null, and they are read before this call is back.
        let triples =
            if bytes == 0 { &[] } else { unsafe { std::slice::from_raw_parts(triples.cast(), bytes) } };
        call.emit(output, triples)
    });
    if is_taken == Some(true) { 0 } else { -1 }
}

extern "C" fn wait_for_wave() {
    asked(|call| call.wants_wave = true);
}

extern "C" fn not_taken(values: u64) {
    asked(|call| call.not_taken = call.not_taken.saturating_add(values));
}

extern "C" fn now_us() -> u64 {
    asked(|call| call.now_us).unwrap_or(0)
}

extern "C" fn say(words: *const c_char) {
    static PACE: Mutex<Option<Pace>> = Mutex::new(None);
    let Ok(mut pace) = PACE.lock() else { return };
    let pace = pace.get_or_insert_with(|| Pace::new(LINES_MAX, Instant::now()));
    let Some(left_out) = pace.next(Instant::now()) else { return };
    if left_out > 0 {
        starfarm_net::say(&format!("starfarm-agent: {left_out} lines of modules were left out"));
    }
    starfarm_net::say(&format!("starfarm-agent: a module says: {}", shown(words)));
}

/// The words of a module, in one line that is not too long.
pub(super) fn shown(words: *const c_char) -> String {
    if words.is_null() {
        return String::new();
    }
    // SAFETY: the module says that a 0 ends it, and it is read before this call is back.
    let words = unsafe { CStr::from_ptr(words) }.to_bytes();
    let words = String::from_utf8_lossy(&words[..words.len().min(LINE_BYTES_MAX)]).into_owned();
    words.chars().map(|of| if of.is_control() { ' ' } else { of }).collect()
}
