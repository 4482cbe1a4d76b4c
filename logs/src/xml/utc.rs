//! Moments of the wall clock as RFC 3339 in UTC.

use std::fmt;

use jiff::Timestamp;

/// Microseconds since 1970 as `2026-11-21T12:00:00.000000Z`. What is past the year 9999 is shown as its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Utc(pub u64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = i64::try_from(self.0).ok().and_then(|us| Timestamp::from_microsecond(us).ok());
        write!(f, "{:.6}", moment.unwrap_or(Timestamp::MAX))
    }
}

impl serde::Serialize for Utc {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The last moment that can be shown: near the end of the year 9999.
pub(super) const LATEST_US: u64 = 253_402_207_200_999_999;

/// A duration in words, with two units: "42.00 s", "3 min 05 s", "2 h 07 min", "3 d 04 h".
pub fn duration(us: u64) -> String {
    let seconds = us / 1_000_000;
    match seconds {
        0..60 => format!("{:.2} s", us as f64 / 1e6),
        60..3_600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {:02} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// The microseconds since 1970 of what [`Utc`] writes, or of any other RFC 3339; none before 1970.
pub(crate) fn parse(text: &str) -> Option<u64> {
    u64::try_from(text.parse::<Timestamp>().ok()?.as_microsecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_come_back() {
        for us in [0, 1, 999_999, 1_795_262_400_000_000, 253_402_207_200_999_999] {
            assert_eq!(parse(&Utc(us).to_string()), Some(us), "{}", Utc(us));
        }
        assert_eq!(Utc(1_795_262_400_000_001).to_string(), "2026-11-21T12:00:00.000001Z");
        assert_eq!(parse("2026-11-21T13:00:00+01:00"), Some(1_795_262_400_000_000));
    }

    #[test]
    fn absurd_moments_are_shown_and_refused() {
        assert!(Utc(u64::MAX).to_string().starts_with("9999-"));
        assert_eq!(parse(&Utc(u64::MAX).to_string()), Some(LATEST_US));
        for text in ["", "yesterday", "1969-12-31T23:59:59Z", "2026-13-01T00:00:00Z"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
