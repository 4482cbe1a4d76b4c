//! Microseconds since 1970 as a date in UTC, the way RFC 3339 writes it.

const DAY_S: u64 = 86_400;
/// Days from 0000-03-01, where years of this reckoning begin, to 1970-01-01.
const DAYS_TO_1970: u64 = 719_468;
/// Days of 400 years: after these the calendar repeats.
const DAYS_OF_400_YEARS: u64 = 146_097;

/// "2026-11-21T10:12:56.000001Z".
pub(crate) fn utc(at_us: u64) -> String {
    let (seconds, us) = (at_us / 1_000_000, at_us % 1_000_000);
    let (year, month, day) = date(seconds / DAY_S);
    let (hour, minute, second) = (seconds % DAY_S / 3_600, seconds % 3_600 / 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{us:06}Z")
}

/// Year, month and day. Years are counted from March on, so that a leap day is the last of its year.
fn date(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + DAYS_TO_1970;
    let (cycle, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on months have 31 and 30 days in turns of five, 153 together.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + next, month, day)
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
