//! Times and ports as people write them in options, with errors that say how.

use std::time::{Duration, SystemTime};

/// A moment at which something is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// So long after the start.
    After(Duration),
    /// So long after 1970, by the wall clock.
    At(Duration),
}

impl Until {
    /// What is left of it where the wall clock says `now`; none where it has passed.
    pub(crate) fn left(self, now: SystemTime) -> Option<Duration> {
        match self {
            Until::After(after) => Some(after),
            Until::At(at) => (SystemTime::UNIX_EPOCH + at).duration_since(now).ok(),
        }
    }
}

/// Longer than any machine lives, and far from what a clock of microseconds can count to.
const LONGEST_S: f64 = 1e9;

/// `90m`, `2h30m`, `5400`, `1:30:00`, `@1795262400`.
pub(crate) fn until(text: &str) -> Result<Until, String> {
    let wrong = || {
        "write how long as 90m, 2h30m, 5400 (seconds) or 1:30:00, or the moment itself as @1795262400 (seconds since \
         1970)"
            .to_owned()
    };
    match text.strip_prefix('@') {
        Some(seconds) if seconds.bytes().all(|byte| byte.is_ascii_digit()) => {
            let seconds: u32 = seconds.parse().map_err(|_| wrong())?;
            Ok(Until::At(Duration::from_secs(seconds.into())))
        }
        Some(_) => Err(wrong()),
        None => {
            seconds_of(text).map(|seconds| Until::After(Duration::from_secs_f64(seconds))).ok_or_else(wrong)
        }
    }
}

/// `90m`, `2h30m`, `5400`, `1:30:00`; more than nothing.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let seconds = seconds_of(text).filter(|&seconds| seconds > 0.0);
    let wrong = || "write how long, more than 0, as 90s, 10m, 2h30m, 600 (seconds) or 1:30:00".to_owned();
    seconds.map(Duration::from_secs_f64).ok_or_else(wrong)
}

/// `4000-4099`, or one port alone.
pub(crate) fn ports(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.parse().ok().filter(|port: &u16| *port > 0);
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        _ => Err("write the first and the last port as 4000-4099".to_owned()),
    }
}

fn seconds_of(text: &str) -> Option<f64> {
    let seconds = if text.contains([':', '-']) { of_clock(text) } else { of_units(text) };
    seconds.filter(|seconds| *seconds <= LONGEST_S)
}

/// `45:00`, `1:30:00`, `1-12:00:00`, `1-12`: as Slurm writes what is left of a job.
fn of_clock(text: &str) -> Option<f64> {
    let whole = |text: &str| number_of(text).filter(|_| !text.contains('.'));
    let (days, rest) = text.split_once('-').map_or((None, text), |(days, rest)| (Some(days), rest));
    let parts: Vec<f64> = rest.split(':').map(whole).collect::<Option<_>>()?;
    let seconds = match (days.is_some(), &parts[..]) {
        (true, [hours]) => hours * 3_600.0,
        (true, [hours, minutes]) => hours * 3_600.0 + minutes * 60.0,
        (false, [minutes, seconds]) => minutes * 60.0 + seconds,
        (_, [hours, minutes, seconds]) => hours * 3_600.0 + minutes * 60.0 + seconds,
        _ => return None,
    };
    // 1:90 is a slip.
    let fits = parts[1..].iter().all(|part| *part < 60.0);
    let days = days.map_or(Some(0.0), whole)?;
    fits.then_some(days * 86_400.0 + seconds)
}

/// `90`, `90s`, `2h30m`, `1.5d`.
fn of_units(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 5] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0)];
    let is_number = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let mut parts = text.as_bytes().chunk_by(|a, b| is_number(*a) == is_number(*b)).map(str::from_utf8);
    let mut sum = 0.0;
    while let Some(number) = parts.next() {
        let unit = parts.next().unwrap_or(Ok("s")).ok()?;
        let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
        sum += number_of(number.ok()?)? * seconds;
    }
    (!text.is_empty()).then_some(sum)
}

/// Digits, and perhaps a point: nothing else that a number may be written as.
fn number_of(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_each_way() {
        for (text, seconds) in [
            ("5400", 5_400.0),
            ("90m", 5_400.0),
            ("2h30m", 9_000.0),
            ("1.5d", 129_600.0),
            ("250ms", 0.25),
            ("45:00", 2_700.0),
            ("1:30:00", 5_400.0),
            ("26:00:00", 93_600.0),
            ("1-02:00:00", 93_600.0),
            ("2-12", 216_000.0),
            ("2-12:30", 217_800.0),
        ] {
            assert_eq!(until(text), Ok(Until::After(Duration::from_secs_f64(seconds))), "{text}");
            assert_eq!(duration(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        assert_eq!(until("@1795262400"), Ok(Until::At(Duration::from_secs(1_795_262_400))));
        assert_eq!(until("0"), Ok(Until::After(Duration::ZERO)));
    }

    #[test]
    fn a_moment_is_so_far_away_or_has_passed() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        assert_eq!(until("@1060").unwrap().left(now), Some(Duration::from_secs(60)));
        assert_eq!(until("@999").unwrap().left(now), None);
        assert_eq!(until("60").unwrap().left(now), Some(Duration::from_secs(60)));
    }

    #[test]
    fn anything_else_is_told_how() {
        for text in [
            "",
            "soon",
            "-5",
            "5 m",
            "m",
            "1e3",
            "inf",
            "1:90",
            "1:2:3:4",
            ":",
            "1:",
            "1-",
            "-1:00",
            "5w",
            "99999999d",
        ] {
            assert!(until(text).is_err_and(|why| why.contains("2h30m")), "{text}");
            assert!(duration(text).is_err_and(|why| why.contains("2h30m")), "{text}");
        }
        for text in ["@", "@-1", "@1.5", "@99999999999", "@x"] {
            assert!(until(text).is_err(), "{text}");
        }
        assert!(duration("0").is_err() && duration("0:00").is_err());
    }
}
