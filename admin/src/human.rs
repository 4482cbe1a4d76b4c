//! Numbers, durations and foreign text as a person reads them in a terminal. JSON never passes here.

use starfarm_protocol::admin::JobInfo;
use starfarm_protocol::foreign::escaped;
use starfarm_protocol::units::Units;
use unicode_truncate::UnicodeTruncateStr;
use unicode_width::UnicodeWidthStr;

/// A count with three digits and K, M, G, T, P, E (powers of 1000), exact below 10 000.
pub(crate) fn count(number: f64) -> String {
    const UNITS: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    if !number.is_finite() {
        return "-".to_owned();
    }
    if number.abs() < 10_000.0 {
        return trimmed(number);
    }
    let mut scaled = number / 1000.0;
    let mut unit = 0;
    // 999.5 would be written with four digits.
    while scaled.abs() >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    if scaled.abs() >= 999.5 {
        return format!("{number:.2e}");
    }
    format!("{} {}", three_digits(scaled), UNITS[unit])
}

/// "1 file was", "2 files were".
pub(crate) fn were(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing} was") } else { format!("{number} {thing}s were") }
}

/// That so many files were made, and which command writes them.
pub(crate) fn made(files: u64, command: &str) -> String {
    let them = if files == 1 { "it" } else { "them" };
    format!("{} made: `{command}` writes {them}", were(files, "file"))
}

/// So many bytes: "512 B", "22.9 MB" (powers of 1000).
pub(crate) fn bytes(number: u64) -> String {
    match count(number as f64).split_once(' ') {
        Some((digits, unit)) => format!("{digits} {unit}B"),
        None => format!("{number} B"),
    }
}

/// So much memory: "512.0 MiB", "2.0 GiB" (powers of 1024).
pub(crate) fn memory(bytes: u64) -> String {
    let unit = ["KiB", "MiB", "GiB", "TiB", "PiB"].into_iter().zip(1..);
    let fits = |power: &i32| bytes as f64 >= 1024_f64.powi(*power);
    match unit.take_while(|(_, power)| fits(power)).last() {
        Some((unit, power)) => format!("{:.1} {unit}", bytes as f64 / 1024_f64.powi(power)),
        None => format!("{bytes} B"),
    }
}

/// A path as a word of the shell: in quotes where it needs them.
pub(crate) fn shell(path: &std::path::Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// The units from `lo` up to `hi`, which is not among them: "20 to 24".
pub(crate) fn interval(lo: Units, hi: Units) -> String {
    match hi.0.saturating_sub(1) {
        last if last <= lo.0 => lo.to_string(),
        last => format!("{lo} to {last}"),
    }
}

pub(crate) fn units(units: Units) -> String {
    count(units.0 as f64)
}

/// The units of a job; with a plus where more may follow.
pub(crate) fn total(job: &JobInfo) -> String {
    format!("{}{}", units(job.units_total), if job.grows { "+" } else { "" })
}

/// How much of `total` `part` is: "42.1 %".
pub(crate) fn share(part: Units, total: Units) -> String {
    match fraction(part, total) {
        // Rounding up to 100 % would say that all is done when it is not.
        share if share < 1.0 => format!("{:.1} %", (share * 1000.0).floor() / 10.0),
        _ => "100 %".to_owned(),
    }
}

/// The same of a job's units; `-` where nobody knows how many there will be.
pub(crate) fn share_of(part: Units, job: &JobInfo) -> String {
    if job.grows { "-".to_owned() } else { share(part, job.units_total) }
}

/// `part` of `total`: 0 to 1.
pub(crate) fn fraction(part: Units, total: Units) -> f64 {
    // Equal numbers give exactly 1, and unequal ones never do, however large they are.
    match part >= total {
        true => 1.0,
        false => (part.0 as f64 / total.0 as f64).min(1.0 - f64::EPSILON),
    }
}

/// A duration in seconds: "3 ms", "0.25 s", "42 s", "3 min 05 s", "2 h 07 min", "3 d 04 h".
pub(crate) fn seconds(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "-".to_owned();
    }
    if seconds > 0.0 && seconds < 0.0995 {
        return format!("{} ms", trimmed((seconds * 100_000.0).round() / 100.0));
    }
    if seconds < 9.95 {
        return format!("{} s", trimmed((seconds * 100.0).round() / 100.0));
    }
    if seconds >= 100.0 * 365.25 * 86_400.0 {
        return "over 100 years".to_owned();
    }
    match seconds.round() as u64 {
        whole @ 0..60 => format!("{whole} s"),
        whole => starfarm_logs::duration(whole * 1_000_000),
    }
}

/// [`seconds`], or a dash.
pub(crate) fn seconds_if_known(seconds_: Option<f64>) -> String {
    seconds_.map_or_else(|| "-".to_owned(), seconds)
}

/// The name of a node; one that is forgotten has none.
pub(crate) fn node(name: Option<&str>) -> &str {
    name.unwrap_or("a forgotten node")
}

/// Text from elsewhere, on one line and unable to steer the terminal.
pub(crate) fn printable(text: &str) -> String {
    escaped(text, |_| false)
}

/// Text from elsewhere, of any number of lines, unable to steer the terminal.
pub(crate) fn printable_lines(text: &str) -> String {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

/// Text on at most so many columns of the terminal: of what is longer, the end gives way to `…`.
pub(crate) fn fitted(text: &str, width: usize) -> String {
    match width {
        _ if text.width() <= width => text.to_owned(),
        0 => String::new(),
        _ => format!("{}…", text.unicode_truncate(width - 1).0),
    }
}

/// Three digits, or all before the point; no decimals that say nothing.
fn trimmed(number: f64) -> String {
    let text = if number.abs() >= 99.95 { format!("{number:.0}.") } else { format!("{number:.2}") };
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn three_digits(number: f64) -> String {
    match number.abs() {
        ..9.995 => format!("{number:.2}"),
        ..99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_their_prefix_beside_the_unit() {
        for (number, text) in [(0, "0 B"), (999, "999 B"), (22_900_000, "22.9 MB"), (1 << 40, "1.10 TB")] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn paths_are_words_of_the_shell() {
        for (path, word) in
            [("/a/b-1.d", "/a/b-1.d"), ("st ate", "'st ate'"), ("it's", r"'it'\''s'"), ("", "''")]
        {
            assert_eq!(shell(std::path::Path::new(path)), word);
        }
    }

    #[test]
    fn counts() {
        for (number, text) in [
            (0.0, "0"),
            (0.126, "0.13"),
            (12.345, "12.35"),
            (120.0, "120"),
            (1_092.62, "1093"),
            (9_999.0, "9999"),
            (10_000.0, "10.0 K"),
            (999_499.0, "999 K"),
            (999_500.0, "1.00 M"),
            (3_089_157_760.0, "3.09 G"),
            (1e18, "1.00 E"),
            (3.4e38, "3.40e38"),
            (f64::NAN, "-"),
            (-0.001, "0"),
        ] {
            assert_eq!(count(number), text, "{number}");
        }
        assert_eq!(units(Units(12_345_678_901_234_567_890)), "12.3 E");
    }

    #[test]
    fn a_share_is_whole_only_when_all_is_done() {
        let share = |part, total| share(Units(part), Units(total));
        assert_eq!(share(0, 10), "0.0 %");
        assert_eq!(share(9_999_999, 10_000_000), "99.9 %");
        assert_eq!(share(u128::MAX - 1, u128::MAX), "99.9 %");
        assert_eq!(share(u128::MAX, u128::MAX), "100 %");
    }

    #[test]
    fn durations() {
        for (number, text) in [
            (0.0, "0 s"),
            (0.000_8, "0.8 ms"),
            (0.012_34, "12.34 ms"),
            (0.254, "0.25 s"),
            (9.94, "9.94 s"),
            (9.96, "10 s"),
            (59.6, "1 min 00 s"),
            (185.0, "3 min 05 s"),
            (7_620.0, "2 h 07 min"),
            (273_600.0, "3 d 04 h"),
            (1e12, "over 100 years"),
            (f64::INFINITY, "-"),
        ] {
            assert_eq!(seconds(number), text, "{number}");
        }
    }

    #[test]
    fn what_has_no_room_gives_way_to_a_mark() {
        for (text, width, fitted_) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("東京都", 5, "東京…"),
            ("東京都", 4, "東…"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
        ] {
            assert_eq!(fitted(text, width), fitted_, "{text} on {width}");
        }
    }

    #[test]
    fn foreign_text_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[2J\nb\u{9b}é"), "a\\u{1b}[2J\\nb\\u{9b}é");
        assert_eq!(printable("lab\u{202e}1-\u{200b}"), "lab\\u{202e}1-\\u{200b}");
        assert_eq!(printable_lines("a\tb\nc\r\u{7}"), "a\tb\nc\\r\\u{7}");
    }
}
