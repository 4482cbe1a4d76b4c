//! Microseconds since 1970 as a date in UTC, the way RFC 3339 writes it.

use jiff::Timestamp;

/// "2026-11-21T10:12:56.000001Z". What is past the year 9999 is shown as its end.
pub(crate) fn utc(at_us: u64) -> String {
    let moment = i64::try_from(at_us).ok().and_then(|us| Timestamp::from_microsecond(us).ok());
    format!("{:.6}", moment.unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (at_s, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (951_868_800, "2000-03-01T00:00:00.000000Z"),
            (1_709_164_800, "2024-02-29T00:00:00.000000Z"),
            (1_798_761_599, "2026-12-31T23:59:59.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(utc(at_s * 1_000_000), text);
        }
        assert_eq!(utc(1_000_007), "1970-01-01T00:00:01.000007Z");
    }

    /// Year, month and day.
    fn date(days: u64) -> (u64, u64, u64) {
        let text = utc(days * 86_400_000_000);
        let part = |at: std::ops::Range<usize>| text[at].parse().unwrap();
        (part(0..4), part(5..7), part(8..10))
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut last = date(0);
        for days in 1..200_000 {
            let now = date(days);
            let next_day = now == (last.0, last.1, last.2 + 1) && now.2 <= 31;
            let next_month = now == (last.0, last.1 + 1, 1) && last.2 >= 28;
            let next_year = now == (last.0 + 1, 1, 1) && (last.1, last.2) == (12, 31);
            assert!(next_day || next_month || next_year, "{last:?} then {now:?}");
            last = now;
        }
    }
}
