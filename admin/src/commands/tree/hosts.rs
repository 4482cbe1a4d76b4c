//! A table of hosts, as a person or a script writes it. What its columns mean is said in the help of `tree plan`.

use std::collections::BTreeSet;
use std::path::Path;

use starfarm_overlay_core::plan::{Features, Host};

use crate::failure::Failure;

/// What a file says, which is called so.
pub(super) fn text(path: &Path, what: &str) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read the {what} {}: {error}", path.display())))
}

/// What a plan goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Needs {
    /// Names and numbers of back ends.
    Names,
    /// What the hosts have to offer.
    Features,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Column {
    Host,
    Be,
    Cores,
    Idle,
    Memory,
    Link,
    Accelerators,
    CpMax,
    Slots,
}

impl Column {
    const ALL: [(&'static str, Self); 9] = [
        ("host", Self::Host),
        ("be", Self::Be),
        ("cores", Self::Cores),
        ("idle", Self::Idle),
        ("memory", Self::Memory),
        ("link", Self::Link),
        ("accelerators", Self::Accelerators),
        ("cp_max", Self::CpMax),
        ("slots", Self::Slots),
    ];

    fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == word).map(|(_, column)| *column)
    }

    /// Whether a plan that goes by `needs` must have it.
    fn is_needed(self, needs: Needs) -> bool {
        match self {
            Self::Host => true,
            Self::Cores | Self::Idle | Self::Memory | Self::Link => needs == Needs::Features,
            Self::Be | Self::Accelerators | Self::CpMax | Self::Slots => false,
        }
    }
}

/// Most posts of one host that a table may tell of: more are slips.
const POSTS_MAX: u32 = 1_000_000;
/// Largest number of cores, GiB or Gbit/s.
const AMOUNT_MAX: f64 = 1e9;

/// Reads a table.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub(super) fn read(text: &str, needs: Needs) -> Result<Vec<Host>, String> {
    let lines = text.lines().zip(1_usize..);
    let mut rows = lines
        .map(|(line, number)| (line.split('#').next().unwrap_or_default(), number))
        .filter(|(line, _)| !line.trim().is_empty());
    let (head, number) = rows.next().ok_or("it is empty: name the columns in the first line")?;
    let columns = columns(head, needs).map_err(|why| format!("line {number}: {why}"))?;
    let (mut hosts, mut names) = (Vec::new(), BTreeSet::new());
    for (line, number) in rows {
        let host = host(line, &columns).map_err(|why| format!("line {number}: {why}"))?;
        if !names.insert(host.name.clone()) {
            return Err(format!("line {number}: the host `{}` has a line already", host.name));
        }
        hosts.push(host);
    }
    Ok(hosts)
}

fn columns(line: &str, needs: Needs) -> Result<Vec<Column>, String> {
    let mut columns = Vec::new();
    for word in line.split_whitespace() {
        let all = || Column::ALL.map(|(name, _)| name).join(", ");
        let column =
            Column::named(word).ok_or_else(|| format!("no column is named `{word}`: there are {}", all()))?;
        if columns.contains(&column) {
            return Err(format!("the column `{word}` stands there twice"));
        }
        columns.push(column);
    }
    match Column::ALL.iter().find(|(_, column)| column.is_needed(needs) && !columns.contains(column)) {
        Some((name, _)) => Err(format!("the column `{name}` is needed here")),
        None => Ok(columns),
    }
}

fn host(line: &str, columns: &[Column]) -> Result<Host, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.len() != columns.len() {
        return Err(format!("{} columns are expected, found {}", columns.len(), words.len()));
    }
    let mut host = Host {
        name: String::new(),
        backends: 1,
        cps_max: u32::MAX,
        carries_only: false,
        features: Features::default(),
    };
    for (&word, column) in words.iter().zip(columns) {
        let features = &mut host.features;
        match column {
            Column::Host => word.clone_into(&mut host.name),
            Column::Be => host.backends = posts(word)?,
            Column::Cores => features.free_cores = thousandths(word, AMOUNT_MAX)?,
            Column::Idle => features.idle = thousandths(word, 1.0)?,
            Column::Memory => features.free_memory = thousandths(word, AMOUNT_MAX)?,
            Column::Link => features.link = thousandths(word, AMOUNT_MAX)?,
            Column::Accelerators if word == "-" => features.accelerators_idle = None,
            Column::Accelerators => features.accelerators_idle = Some(thousandths(word, 1.0)?),
            Column::CpMax if word == "-" => host.cps_max = u32::MAX,
            Column::CpMax => host.cps_max = posts(word)?,
            Column::Slots => host.carries_only = posts(word)? == 0,
        }
    }
    Ok(host)
}

fn posts(word: &str) -> Result<u32, String> {
    word.parse()
        .ok()
        .filter(|count| *count <= POSTS_MAX)
        .ok_or_else(|| format!("`{word}` is no whole number from 0 to {POSTS_MAX}"))
}

fn thousandths(word: &str, most: f64) -> Result<u64, String> {
    let number = word.parse().ok().filter(|number| (0.0..=most).contains(number));
    number
        .map(|number: f64| (number * 1_000.0).round() as u64)
        .ok_or_else(|| format!("`{word}` is no number from 0 to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, needs: Needs) -> String {
        read(text, needs).expect_err(text)
    }

    #[test]
    fn columns_come_in_any_order_and_what_is_left_out_has_its_usual_value() {
        let text = "# of rack 7\nslots host accelerators cores # and so on\n\n0 n1 - 2.5\n8 n2 0.25 0.029\n";
        let hosts = read(text, Needs::Names).unwrap();
        let features =
            |free_cores, accelerators_idle| Features { free_cores, accelerators_idle, ..Features::default() };
        let host = |name: &str, carries_only, features| Host {
            name: name.into(),
            backends: 1,
            cps_max: u32::MAX,
            carries_only,
            features,
        };
        let expected = [host("n1", true, features(2_500, None)), host("n2", false, features(29, Some(250)))];
        assert_eq!(hosts, expected);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, said) in [
            ("", "it is empty: name the columns in the first line"),
            (
                "host hots\n",
                "line 1: no column is named `hots`: there are host, be, cores, idle, memory, link, accelerators, cp_max, slots",
            ),
            ("host host\n", "line 1: the column `host` stands there twice"),
            ("be\n", "line 1: the column `host` is needed here"),
            ("host be\nn1\n", "line 2: 2 columns are expected, found 1"),
            ("host be\n\nn1 x\n", "line 3: `x` is no whole number from 0 to 1000000"),
            ("host be\nn1 2000000\n", "line 2: `2000000` is no whole number from 0 to 1000000"),
            ("host idle\nn1 1.5\n", "line 2: `1.5` is no number from 0 to 1"),
            ("host cores\nn1 NaN\n", "line 2: `NaN` is no number from 0 to 1000000000"),
            ("host\nn1\nn1\n", "line 3: the host `n1` has a line already"),
        ] {
            assert_eq!(refused(text, Needs::Names), said, "{text}");
        }
        assert_eq!(
            refused("host cores idle link\n", Needs::Features),
            "line 1: the column `memory` is needed here"
        );
    }
}
