//! What a scheduler makes of numbers and lines, without a program. Pure: bytes in, bytes out, whatever their number.

use starfarm_protocol::report::Report;
use starfarm_protocol::spec::Fold;

/// Bytes of the longest line that may be a number.
const NUMBER_BYTES_MAX: usize = 400;

/// Bytes of the longest line that may be a report: hits of a second's launches, or of one that found more.
const REPORT_BYTES_MAX: usize = 64 << 20;

/// A number as it stands on a line: whole ones are exact.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Number {
    Whole(i128),
    Real(f64),
}

impl Number {
    fn read(text: &str) -> Option<Self> {
        match text.parse() {
            Ok(whole) => Some(Self::Whole(whole)),
            Err(_) => text.parse().ok().filter(|real: &f64| real.is_finite()).map(Self::Real),
        }
    }

    fn real(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Real(real) => real,
        }
    }

    fn less_than(self, other: Self) -> bool {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => one < other,
            (one, other) => one.real() < other.real(),
        }
    }
}

/// A sum: of whole numbers exact, of others as exact as two doubles hold it, in the order of the numbers.
#[derive(Clone, Copy, Default, Debug)]
struct Sum {
    whole: i128,
    real: f64,
    /// What `real` has lost to rounding.
    lost: f64,
    has_real: bool,
}

impl Sum {
    fn add(&mut self, number: Number) -> Result<(), String> {
        match number {
            Number::Whole(whole) => {
                self.whole = self
                    .whole
                    .checked_add(whole)
                    .ok_or("the sum does not fit into 128 bits: let a program merge")?;
            }
            Number::Real(real) => {
                let sum = self.real + real;
                self.lost += match self.real.abs() >= real.abs() {
                    true => (self.real - sum) + real,
                    false => (real - sum) + self.real,
                };
                (self.real, self.has_real) = (sum, true);
            }
        }
        Ok(())
    }

    fn number(self) -> Number {
        match self.has_real {
            false => Number::Whole(self.whole),
            true => Number::Real(self.whole as f64 + (self.real + self.lost)),
        }
    }
}

/// Lines that come in pieces, and what is made of them.
pub(super) struct Folding {
    fold: Fold,
    /// The line that has not ended.
    line: Vec<u8>,
    lines: u128,
    sum: Sum,
    best: Option<Number>,
    report: Report,
}

impl Folding {
    pub(super) fn new(fold: Fold) -> Self {
        Self { fold, line: Vec::new(), lines: 0, sum: Sum::default(), best: None, report: Report::default() }
    }

    /// A piece of what a unit wrote.
    ///
    /// # Errors
    /// A line is no number.
    pub(super) fn piece(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            self.keep(&bytes[..at]);
            self.line_ends()?;
            bytes = &bytes[at + 1..];
        }
        self.keep(bytes);
        Ok(())
    }

    /// A unit has written all that it did: what it left of a line is one.
    ///
    /// # Errors
    /// It is no number.
    pub(super) fn unit_ends(&mut self) -> Result<(), String> {
        if self.line.is_empty() { Ok(()) } else { self.line_ends() }
    }

    fn keep(&mut self, bytes: &[u8]) {
        // The length of a line that is too long for a number does not matter.
        let most = if self.fold == Fold::Report { REPORT_BYTES_MAX } else { NUMBER_BYTES_MAX };
        let room = (most + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn line_ends(&mut self) -> Result<(), String> {
        let line = std::mem::take(&mut self.line);
        if self.fold == Fold::Count {
            self.lines += 1;
            return Ok(());
        }
        if self.fold == Fold::Report {
            let told =
                serde_json::from_slice(&line).map_err(|e| format!("`{}` is no report: {e}", shown(&line)));
            return self.report.add(told?);
        }
        let text = std::str::from_utf8(&line).ok().filter(|text| text.len() <= NUMBER_BYTES_MAX);
        if text.is_some_and(|text| text.trim().is_empty()) {
            return Ok(());
        }
        let number = text.and_then(|text| Number::read(text.trim()));
        let number = number.ok_or_else(|| format!("`{}` is no number", shown(&line)))?;
        let is_better = |best: Number| match self.fold {
            Fold::Min => number.less_than(best),
            _ => best.less_than(number),
        };
        match self.fold {
            Fold::Sum => self.sum.add(number)?,
            Fold::Min | Fold::Max if self.best.is_none_or(is_better) => self.best = Some(number),
            _ => {}
        }
        self.lines += 1;
        Ok(())
    }

    /// The result, a line.
    ///
    /// # Errors
    /// There was no number.
    pub(super) fn result(self) -> Result<String, String> {
        if self.fold == Fold::Report {
            return Ok(self.report.line());
        }
        let number = match self.fold {
            Fold::Count => Number::Whole(i128::try_from(self.lines).unwrap_or(i128::MAX)),
            Fold::Sum => self.sum.number(),
            _ => self.best.ok_or("the units wrote no number")?,
        };
        Ok(match number {
            Number::Whole(whole) => format!("{whole}\n"),
            Number::Real(real) => format!("{real}\n"),
        })
    }
}

/// The beginning of a line, for a message.
fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(40)])
        .chars()
        .map(|c| if c.is_control() { '.' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn folded(fold: Fold, units: &[&str]) -> Result<String, String> {
        let whole = fold_in_pieces(fold, units, usize::MAX);
        for size in 1..4 {
            assert_eq!(fold_in_pieces(fold, units, size), whole, "in pieces of {size}");
        }
        whole
    }

    fn fold_in_pieces(fold: Fold, units: &[&str], size: usize) -> Result<String, String> {
        let mut folding = Folding::new(fold);
        for unit in units {
            unit.as_bytes().chunks(size).try_for_each(|piece| folding.piece(piece))?;
            folding.unit_ends()?;
        }
        folding.result()
    }

    #[test]
    fn whole_numbers_are_exact() {
        let units = ["9007199254740993\n-5\n", "7", "\n  12  \n\n"];
        assert_eq!(folded(Fold::Sum, &units), Ok("9007199254741007\n".into()));
        assert_eq!(folded(Fold::Min, &units), Ok("-5\n".into()));
        assert_eq!(folded(Fold::Max, &units), Ok("9007199254740993\n".into()));
        assert_eq!(folded(Fold::Count, &["a\nb", "", "\n"]), Ok("3\n".into()));
    }

    #[test]
    fn a_sum_of_reals_loses_nothing_to_their_order() {
        assert_eq!(folded(Fold::Sum, &["1e100", "1", "-1e100", "1"]), Ok("2\n".into()));
        assert_eq!(folded(Fold::Sum, &["0.5", "2"]), Ok("2.5\n".into()));
        assert_eq!(folded(Fold::Max, &["0.5", "1", "-3"]), Ok("1\n".into()));
    }

    #[test]
    fn what_runs_of_a_kernel_tell_becomes_one_report() {
        let units = [
            "{\"hits\":[[\"3\",1]],\"counters\":{\"a\":{\"sum\":\"5\"},\"b\":{\"min\":{\"value\":2.5,\"unit\":\"1\"}}}}\n",
            "",
            "{\"hits\":[[\"9\",0]],\"counters\":{\"a\":{\"sum\":\"7\"},\"b\":{\"min\":{\"value\":-1.0,\"unit\":\"8\"}}}}\n",
        ];
        let all = "{\"hits\":[[\"3\",1],[\"9\",0]],\"counters\":{\"a\":{\"sum\":\"12\"},\"b\":{\"min\":{\"value\":-1.0,\"unit\":\"8\"}}}}\n";
        assert_eq!(folded(Fold::Report, &units), Ok(all.to_owned()));
        assert_eq!(folded(Fold::Report, &[]), Ok("{}\n".into()));
        assert!(folded(Fold::Report, &["12\n"]).unwrap_err().starts_with("`12` is no report"));
    }

    #[test]
    fn what_is_no_number_is_named() {
        assert_eq!(folded(Fold::Sum, &["1\n", "two\n"]), Err("`two` is no number".into()));
        assert_eq!(folded(Fold::Min, &["\u{1b}[2J nan"]), Err("`.[2J nan` is no number".into()));
        assert!(folded(Fold::Max, &["NaN"]).is_err() && folded(Fold::Max, &["inf"]).is_err());
        assert!(folded(Fold::Max, &[&"9".repeat(500)]).is_err());
        assert_eq!(folded(Fold::Max, &["", "\n"]), Err("the units wrote no number".into()));
        assert_eq!(folded(Fold::Sum, &[]), Ok("0\n".into()));
        let huge = i128::MAX.to_string();
        assert!(folded(Fold::Sum, &[&huge, "1"]).unwrap_err().contains("128 bits"));
    }
}
