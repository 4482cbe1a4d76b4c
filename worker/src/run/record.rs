//! The record of a program's run, as it travels: how it ended, and what it wrote. What is too long to ride along is named
//! there, and to be stored first.

use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::limits::INLINE_OUTPUT_BYTES_MAX;
use starfarm_protocol::wire::{CommandUnit, FailReason, Files, Outputs, Stream};

use super::delivery::Named;
use super::pack::Made;
use starfarm_exec::{Captured, End, UnitRun};

/// Exit code in the record of a unit that ran out of time: what timeout(1) says.
const TIMEOUT_CODE: i32 = 124;
/// Exit code in the record of a unit whose program could not be started.
const NOT_STARTED_CODE: i32 = -1;

/// The record of a unit's run, and what it names; none where it was cancelled: the unit then goes back. `made`: its files,
/// where it passed; or why it has failed although it did.
pub(super) fn record(
    mut run: UnitRun,
    strict: bool,
    made: Result<Option<Made>, String>,
) -> Option<(CommandUnit, Vec<Named>)> {
    let mut named = Vec::new();
    let duration_us = u64::try_from(run.duration.as_micros()).unwrap_or(u64::MAX);
    let (failed, code) = match run.end {
        End::Exit(0) if strict && (run.stdout.is_cut() || run.stderr.is_cut()) => {
            (Some(FailReason::Output), 0)
        }
        End::Exit(0) if made.is_err() => (Some(FailReason::Files), 0),
        End::Exit(0) => (None, 0),
        End::Exit(code) => (Some(FailReason::Exit), code),
        End::Signal(signal) => (Some(FailReason::Signal), signal),
        End::Timeout => (Some(FailReason::Timeout), TIMEOUT_CODE),
        End::Cancelled => return None,
        End::NotStarted(why, _) => {
            let bytes = why.as_bytes()[..why.floor_char_boundary(INLINE_OUTPUT_BYTES_MAX)].to_vec();
            run.stdout = Captured::default();
            run.stderr = Captured { total: bytes.len() as u64, bytes };
            (Some(FailReason::Exit), NOT_STARTED_CODE)
        }
    };
    let files = match made {
        Ok(Some(made)) if failed.is_none() => {
            let files = Files { hash: made.hash, bytes: made.bytes, count: made.count };
            named.push(Named { hash: made.hash, content: Box::new(made) });
            Some(files)
        }
        Ok(_) => None,
        Err(why) => {
            // Where its user looks first.
            let words = format!("starfarm: the unit {why}\n");
            run.stderr.total += words.len() as u64;
            run.stderr.bytes.extend_from_slice(words.as_bytes());
            None
        }
    };
    let outputs = Outputs { files, ..outputs(run.stdout, run.stderr, &mut named) };
    Some((CommandUnit { units: 1, failed, code, duration_us, outputs }, named))
}

/// Both streams inline if they fit together, else the longer one is uploaded, else both. One of which a part was left
/// out is always uploaded: inline nothing says how long it was.
fn outputs(stdout: Captured, stderr: Captured, named: &mut Vec<Named>) -> Outputs {
    let (out, err) = (stdout.bytes.len(), stderr.bytes.len());
    let (out_cut, err_cut) = (stdout.is_cut(), stderr.is_cut());
    let fits = |bytes: usize| bytes <= INLINE_OUTPUT_BYTES_MAX;
    let stays = |bytes: usize, cut: bool| if cut { 0 } else { bytes };
    let (out_goes, err_goes) = match (fits(stays(out, out_cut) + stays(err, err_cut)), out >= err) {
        (true, _) => (out_cut, err_cut),
        (false, true) => (true, err_cut || !fits(err)),
        (false, false) => (out_cut || !fits(out), true),
    };
    let mut stream = |captured: Captured, goes: bool| match goes {
        false => Stream::Inline(captured.bytes),
        true => {
            let (kept, total) = (captured.bytes.len() as u64, captured.total);
            let hash = ContentHash::of(&captured.bytes);
            named.push(Named { hash, content: Box::new(captured.bytes) });
            Stream::Uploaded { hash, kept, total }
        }
    };
    Outputs::streams(stream(stdout, out_goes), stream(stderr, err_goes))
}

/// The record of a unit that did not run: this node has no room for its files, as `why` says.
pub(super) fn roomless(why: &str) -> CommandUnit {
    let words = format!(
        "starfarm: the unit's files have no room on this node, with none of other units there: {why}\n"
    );
    let stderr = words.as_bytes()[..words.floor_char_boundary(INLINE_OUTPUT_BYTES_MAX)].to_vec();
    let outputs = Outputs::streams(Stream::Inline(Vec::new()), Stream::Inline(stderr));
    CommandUnit { units: 1, failed: Some(FailReason::Room), code: 0, duration_us: 0, outputs }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use starfarm_protocol::limits::RESULT_BODY_BYTES_MAX;

    use super::*;
    use starfarm_exec::Lack;

    fn captured(bytes: usize) -> Captured {
        Captured { bytes: vec![b'x'; bytes], total: bytes as u64 }
    }

    fn run(end: End, stdout: usize, stderr: usize) -> UnitRun {
        UnitRun {
            end,
            duration: Duration::from_millis(3),
            cpu: Duration::ZERO,
            stdout: captured(stdout),
            stderr: captured(stderr),
        }
    }

    fn where_to(stdout: usize, stderr: usize) -> (bool, bool) {
        let (unit, named) = record(run(End::Exit(0), stdout, stderr), true, Ok(None)).unwrap();
        let hashes: Vec<_> = named.iter().map(|named| named.hash).collect();
        assert_eq!(hashes, unit.outputs.uploaded().map(|(hash, _)| hash).collect::<Vec<_>>());
        let uploaded = |stream: &Stream| matches!(stream, Stream::Uploaded { .. });
        let mut body = Vec::new();
        unit.write(&mut body);
        assert!(body.len() <= RESULT_BODY_BYTES_MAX);
        (uploaded(&unit.outputs.stdout), uploaded(&unit.outputs.stderr))
    }

    #[test]
    fn output_that_fits_together_rides_inline_and_the_longer_goes_first() {
        assert_eq!(where_to(0, 0), (false, false));
        assert_eq!(where_to(512, 0), (false, false));
        assert_eq!(where_to(256, 257), (false, true));
        assert_eq!(where_to(257, 256), (true, false));
        assert_eq!(where_to(513, 512), (true, false));
        assert_eq!(where_to(513, 513), (true, true));
    }

    #[test]
    fn ends_become_reasons_and_codes() {
        let unit = |end| {
            let (unit, named) = record(run(end, 1, 1), false, Ok(None))?;
            assert!(named.is_empty(), "nothing is uploaded");
            Some(unit)
        };
        let said = |end| unit(end).map(|u| (u.failed, u.code, u.duration_us));
        assert_eq!(said(End::Exit(0)), Some((None, 0, 3_000)));
        assert_eq!(said(End::Exit(3)), Some((Some(FailReason::Exit), 3, 3_000)));
        assert_eq!(said(End::Signal(9)), Some((Some(FailReason::Signal), 9, 3_000)));
        assert_eq!(said(End::Timeout), Some((Some(FailReason::Timeout), 124, 3_000)));
        assert_eq!(said(End::Cancelled), None);
        let lost = unit(End::NotStarted("ä".repeat(400), Lack::Program)).unwrap();
        assert_eq!((lost.failed, lost.code), (Some(FailReason::Exit), -1));
        assert_eq!(lost.outputs.stderr, Stream::Inline("ä".repeat(256).into()));
    }

    #[test]
    fn what_was_cut_says_how_long_it_was_and_fails_where_the_limit_is_strict() {
        let cut = || Captured { bytes: b"head tail".to_vec(), total: 600 };
        for (end, strict, failed) in [
            (End::Exit(0), false, None),
            (End::Exit(0), true, Some(FailReason::Output)),
            (End::Exit(3), true, Some(FailReason::Exit)),
        ] {
            let run = UnitRun { stdout: cut(), ..run(end, 0, 500) };
            let (unit, named) = record(run, strict, Ok(None)).unwrap();
            assert_eq!(named[0].content.read(0, 99).unwrap(), b"head tail");
            let hash = ContentHash::of(b"head tail");
            assert_eq!(unit.outputs.stdout, Stream::Uploaded { hash, kept: 9, total: 600 });
            assert!(matches!(unit.outputs.stderr, Stream::Inline(_)), "it has room alone");
            assert_eq!(unit.failed, failed);
        }
    }
}
