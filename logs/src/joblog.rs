//! The `--joblog` of GNU parallel: a row for each unit that ran, its columns separated by tabs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use starfarm_protocol::foreign::is_hidden;

/// The names of the columns.
pub const HEAD: &str = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n";

/// A unit that ran, or a run of results.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Its number, from 1 on.
    pub seq: u128,
    /// Where it ran.
    pub host: &'a str,
    /// When it began, in microseconds since 1970.
    pub start_us: u64,
    /// How long it ran, in microseconds.
    pub took_us: u64,
    /// Bytes that it wrote to standard output.
    pub received: u64,
    /// How it ended.
    pub exit: i32,
    /// The signal that ended it, or 0.
    pub signal: i32,
    /// What ran.
    pub command: &'a str,
}

impl Row<'_> {
    /// Writes it as one line.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { seq, received, exit, signal, .. } = self;
        let (host, command) = (cell(self.host), cell(self.command));
        let (start, took) = (seconds(self.start_us), seconds(self.took_us));
        writeln!(out, "{seq}\t{host}\t{start}\t{took}\t0\t{received}\t{exit}\t{signal}\t{command}")
    }
}

/// Which units a job log has, by their numbers from 1 on, and whether each passed when it ran last. What is cut off at the
/// end counts for nothing: its writer was killed.
///
/// # Errors
/// It is no job log, in a sentence that says why.
pub fn outcomes(text: &str) -> Result<BTreeMap<u128, bool>, String> {
    let mut outcomes = BTreeMap::new();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for (number, line) in whole.split('\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        let columns: Vec<&str> = line.split('\t').collect();
        if columns.first() == Some(&"Seq") {
            continue;
        }
        let at = |column: usize| columns.get(column).and_then(|text| text.trim().parse::<i128>().ok());
        let (Some(seq @ 1..), Some(exit), Some(signal)) = (at(0), at(6), at(7)) else {
            return Err(format!("line {} is no row of a job log: name another file", number + 1));
        };
        outcomes.insert(seq as u128, (exit, signal) == (0, 0));
    }
    Ok(outcomes)
}

/// Seconds with three decimals, as parallel writes them.
fn seconds(us: u64) -> String {
    format!("{}.{:03}", us / 1_000_000, us / 1_000 % 1_000)
}

/// Text that stays in its cell.
fn cell(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_last_run_counts() {
        let row = |seq, exit, signal| Row {
            seq,
            host: "n\t1",
            start_us: 1_795_572_897_965_999,
            took_us: 3_000,
            received: 7,
            exit,
            signal,
            command: "echo a\nb",
        };
        let mut log = HEAD.as_bytes().to_vec();
        for (seq, exit, signal) in [(1, 0, 0), (3, 1, 0), (2, 0, 9), (3, 0, 0), (10, -1, 0)] {
            row(seq, exit, signal).write(&mut log).unwrap();
        }
        let text = String::from_utf8(log).unwrap();
        assert!(text.contains("\n1\tn 1\t1795572897.965\t0.003\t0\t7\t0\t0\techo a b\n"), "{text}");
        let expected = BTreeMap::from([(1, true), (2, false), (3, true), (10, false)]);
        assert_eq!(outcomes(&text).as_ref(), Ok(&expected));
        assert_eq!(outcomes(&format!("{text}11\tn\t1.")).as_ref(), Ok(&expected), "a row that was cut");
    }

    /// GNU parallel 20221122 wrote them.
    #[test]
    fn rows_of_gnu_parallel_are_read() {
        let row = "2\t:\t1795572897.968\t     0.003\t0\t0\t1\t0\texit 1\n";
        assert_eq!(outcomes(&format!("{HEAD}{row}")), Ok(BTreeMap::from([(2, false)])));
        assert_eq!(outcomes(""), Ok(BTreeMap::new()));
    }

    #[test]
    fn what_is_no_job_log_is_refused() {
        for text in ["hello\n", "0\t:\t1\t1\t0\t0\t0\t0\tx\n", "1\t:\t1\t1\t0\t0\tx\t0\tx\n", "1\t2\n"] {
            assert!(outcomes(text).is_err(), "{text}");
        }
        assert_eq!(
            outcomes(&format!("{HEAD}x\n")),
            Err("line 2 is no row of a job log: name another file".to_owned())
        );
    }
}
