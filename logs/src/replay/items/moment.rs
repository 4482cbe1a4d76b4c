//! Moments of a log as a user writes them.

use std::str::FromStr;

use crate::utc_us;

const SECOND_US: u64 = 1_000_000;
const DAY_US: u64 = 86_400 * SECOND_US;

/// A moment of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// Microseconds since 1970.
    At(u64),
    /// Microseconds since midnight, UTC, of the log's first day.
    OfDay(u64),
    /// Microseconds since the log's begin.
    After(u64),
}

impl Moment {
    /// Microseconds of the farm's clock, for a log that begins at `first_us`.
    pub fn resolve(self, first_us: u64) -> u64 {
        match self {
            Self::At(at_us) => at_us,
            Self::OfDay(us) => (first_us - first_us % DAY_US).saturating_add(us),
            Self::After(us) => first_us.saturating_add(us),
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let moment = match text.strip_prefix('+') {
            Some(duration) => duration_us(duration).map(Self::After),
            None => of_day_us(text).map(Self::OfDay).or_else(|| utc_us(text).map(Self::At)),
        };
        moment.ok_or_else(|| {
            "write a time as 2026-11-21T13:05:00Z, as 13:05 or 13:05:30 (UTC, of the log's first day), or as \
             +90s, +15m or +2h30m from its begin"
                .to_owned()
        })
    }
}

/// `13:05`, `13:05:30`, `13:05:30.25`.
fn of_day_us(text: &str) -> Option<u64> {
    // Of a whole date, jiff would take the time and forget the rest.
    let is_time = text.contains(':') && text.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | '.'));
    let time: jiff::civil::Time = is_time.then(|| text.parse().ok())??;
    u64::try_from(time.duration_since(jiff::civil::Time::midnight()).as_micros()).ok()
}

/// `90`, `90s`, `2h30m`, `250ms`, `1.5d`.
fn duration_us(text: &str) -> Option<u64> {
    const UNITS: [(&str, f64); 6] =
        [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 60e6), ("h", 3_600e6), ("d", 86_400e6)];
    let mut sum = 0.0;
    let is_number = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let mut parts = text.as_bytes().chunk_by(|a, b| is_number(*a) == is_number(*b));
    while let Some(number) = parts.next() {
        let unit = parts.next().unwrap_or(b"s");
        let (_, us) = UNITS.iter().find(|(name, _)| name.as_bytes() == unit)?;
        sum += str::from_utf8(number).ok()?.parse::<f64>().ok()? * us;
    }
    (!text.is_empty() && sum.is_finite()).then_some(sum as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21T12:00:00Z.
    const NOON: u64 = 1_795_262_400 * SECOND_US;

    fn resolved(text: &str) -> Option<u64> {
        Some(text.parse::<Moment>().ok()?.resolve(NOON))
    }

    #[test]
    fn moments_in_each_way() {
        for (text, us) in [
            ("2026-11-21T12:00:01Z", NOON + SECOND_US),
            ("2026-11-21T14:00:00+01:00", NOON + 3_600 * SECOND_US),
            ("12:05", NOON + 300 * SECOND_US),
            ("11:59:59.5", NOON - SECOND_US / 2),
            ("+90", NOON + 90 * SECOND_US),
            ("+2h30m", NOON + 9_000 * SECOND_US),
            ("+250ms", NOON + 250_000),
            ("+1.5d", NOON + 129_600 * SECOND_US),
            ("+99999999999999999999d", u64::MAX),
        ] {
            assert_eq!(resolved(text), Some(us), "{text}");
        }
    }

    #[test]
    fn anything_else_is_told_how() {
        for text in [
            "",
            "+",
            "noon",
            "25:00",
            "12",
            "+5 parsecs",
            "+m",
            "+-5s",
            "1969-01-01T00:00:00Z",
            "+1e9s",
            "-5m",
        ] {
            assert_eq!(resolved(text), None, "{text}");
        }
        assert!("later".parse::<Moment>().unwrap_err().contains("+2h30m"));
    }
}
