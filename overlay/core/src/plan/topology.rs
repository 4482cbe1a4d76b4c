//! Topology files, in the grammar of MRNet: `host:id => host:id host:id ;` names a process and its children, `host:id ;` a
//! process without children, and `#` begins a comment that goes to the end of the line. A process stands alone in at
//! most one statement before `=>`, and below at most one parent; one, the root, stands below none.
//!
//! Inner processes are CPs, leaves are IBEs; back ends are attached to these later and have no place in a file.

use std::collections::BTreeMap;
use std::fmt;

/// Longest name of a host.
const HOST_BYTES_MAX: usize = 255;

/// A process: its host, and a number that is its own on that host.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Process {
    /// The host's name.
    pub host: String,
    /// Its number there.
    pub id: u32,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.id)
    }
}

/// A tree that a file describes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    /// The processes and the index of each one's parent; the root is first and has none. A parent stands before its
    /// children, and these in the order of the file.
    pub processes: Vec<(Process, Option<usize>)>,
}

/// What is wrong with a file, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong and what to do.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.what)
    }
}

/// Where a word stands.
type Place = (usize, usize);

struct Word<'a> {
    text: &'a str,
    at: Place,
}

/// What a file says of one process.
struct Entry {
    process: Process,
    at: Place,
    parent: Option<usize>,
    children: Vec<usize>,
    /// It stood before `=>` already.
    is_parent: bool,
}

fn fault<T>(at: Place, what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { line: at.0, column: at.1, what: what.into() })
}

impl Topology {
    /// Reads a file.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn read(text: &str) -> Result<Self, Fault> {
        let (words, end) = words(text);
        let mut file = File::default();
        let mut statement = Vec::new();
        for word in words {
            if word.text == ";" {
                file.add(&statement, word.at)?;
                statement.clear();
            } else {
                statement.push(word);
            }
        }
        if !statement.is_empty() {
            return fault(end, "the last statement has no end: put `;` behind it");
        }
        file.tree(end)
    }

    /// What is wrong with a process, by its index, of the tree that was read from that text: with its place there.
    ///
    /// # Panics
    /// The text is another one's.
    pub fn fault(&self, text: &str, at: usize, what: String) -> Fault {
        let meant = &self.processes[at].0;
        let is_meant = |word: &Word<'_>| process(word).is_ok_and(|process| process == *meant);
        let (words, _) = words(text);
        let (line, column) = words.iter().find(|word| is_meant(word)).expect("it was read from there").at;
        Fault { line, column, what }
    }
}

/// Words, arrows and semicolons with their places, and the place behind the last.
fn words(text: &str) -> (Vec<Word<'_>>, Place) {
    let mut words = Vec::new();
    let mut end = (1, 1);
    for (line, number) in text.lines().zip(1..) {
        let code = line.split('#').next().unwrap_or_default();
        let mut column = 1;
        let mut rest = code;
        while let Some(first) = rest.chars().next() {
            let bytes = if first.is_whitespace() || first == ';' {
                first.len_utf8()
            } else if rest.starts_with("=>") {
                2
            } else {
                let ends = rest.find(|c: char| c.is_whitespace() || c == ';');
                let arrow = rest.find("=>");
                ends.into_iter().chain(arrow).min().unwrap_or(rest.len())
            };
            let (word, behind) = rest.split_at(bytes);
            if !first.is_whitespace() {
                words.push(Word { text: word, at: (number, column) });
            }
            column += word.chars().count();
            rest = behind;
        }
        end = (number, column);
    }
    (words, end)
}

#[derive(Default)]
struct File {
    entries: Vec<Entry>,
    by_process: BTreeMap<Process, usize>,
}

impl File {
    /// A statement, without the semicolon at `end`.
    fn add(&mut self, words: &[Word<'_>], end: Place) -> Result<(), Fault> {
        let Some((first, rest)) = words.split_first() else {
            return fault(end, "a statement is empty: write `host:id` or `host:id => host:id ... ;`");
        };
        let parent = self.entry(first)?;
        match rest.split_first() {
            None => Ok(()),
            Some((arrow, [])) if arrow.text == "=>" => fault(
                end,
                format!("{} has no children: name some behind `=>`, or leave `=>` out", first.text),
            ),
            Some((arrow, children)) if arrow.text == "=>" => self.add_children(parent, first, children),
            Some((other, _)) => {
                fault(other.at, format!("`=>` or `;` is expected here, found `{}`", other.text))
            }
        }
    }

    fn add_children(&mut self, parent: usize, name: &Word<'_>, children: &[Word<'_>]) -> Result<(), Fault> {
        if std::mem::replace(&mut self.entries[parent].is_parent, true) {
            let what = format!("{} has got children in an earlier statement: name them all there", name.text);
            return fault(name.at, what);
        }
        for word in children {
            let child = self.entry(word)?;
            if child == parent {
                return fault(word.at, format!("{} cannot be its own child", word.text));
            }
            if let Some(other) = self.entries[child].parent.replace(parent) {
                let other = &self.entries[other].process;
                return fault(
                    word.at,
                    format!("{} is a child of {other} already: it has one parent", word.text),
                );
            }
            self.entries[parent].children.push(child);
        }
        Ok(())
    }

    fn entry(&mut self, word: &Word<'_>) -> Result<usize, Fault> {
        let process = process(word)?;
        if let Some(&known) = self.by_process.get(&process) {
            return Ok(known);
        }
        let number = self.entries.len();
        self.by_process.insert(process.clone(), number);
        self.entries.push(Entry {
            process,
            at: word.at,
            parent: None,
            children: Vec::new(),
            is_parent: false,
        });
        Ok(number)
    }

    /// The tree that all statements make together.
    fn tree(self, end: Place) -> Result<Topology, Fault> {
        let mut roots = (0..self.entries.len()).filter(|&number| self.entries[number].parent.is_none());
        let root = match (roots.next(), roots.next()) {
            (None, _) if self.entries.is_empty() => return fault(end, "the file names no process"),
            (None, _) => return self.cycle(0),
            (Some(root), None) => root,
            (Some(root), Some(second)) => {
                let (root, second) = (&self.entries[root].process, &self.entries[second]);
                let what =
                    format!("{} is a second root beside {root}: name it as somebody's child", second.process);
                return fault(second.at, what);
            }
        };
        let mut processes = vec![(self.entries[root].process.clone(), None)];
        let mut numbers = vec![root];
        let mut next = 0;
        while let Some(&number) = numbers.get(next) {
            for &child in &self.entries[number].children {
                processes.push((self.entries[child].process.clone(), Some(next)));
                numbers.push(child);
            }
            next += 1;
        }
        if numbers.len() < self.entries.len() {
            let mut reached = vec![false; self.entries.len()];
            numbers.iter().for_each(|&number| reached[number] = true);
            let lost = reached.iter().position(|reached| !reached).expect("some process was not reached");
            return self.cycle(lost);
        }
        Ok(Topology { processes })
    }

    /// There is a cycle above the entry `from`: it is told at the first of its processes.
    fn cycle<T>(&self, from: usize) -> Result<T, Fault> {
        let up = |number: usize| self.entries[number].parent.unwrap_or(number);
        // After as many steps as there are entries one is on the cycle, and after as many again it has been all around.
        let on_it = (0..self.entries.len()).fold(from, |number, _| up(number));
        let around = std::iter::successors(Some(on_it), |&number| Some(up(number))).take(self.entries.len());
        let first = &self.entries[around.min().unwrap_or(on_it)];
        fault(first.at, format!("{} is below itself: a tree has no cycle", first.process))
    }
}

fn process(word: &Word<'_>) -> Result<Process, Fault> {
    let expected = || format!("`host:id` is expected here, as in `node1:0`, found `{}`", word.text);
    let Some((host, id)) = word.text.rsplit_once(':') else { return fault(word.at, expected()) };
    if host.is_empty() || host.len() > HOST_BYTES_MAX || host.contains(['=', '>']) {
        return fault(word.at, expected());
    }
    match id.parse() {
        Ok(id) if id_is_plain(word.text) => Ok(Process { host: host.to_owned(), id }),
        _ => fault(word.at, expected()),
    }
}

/// Digits alone: `parse` takes a sign too.
fn id_is_plain(text: &str) -> bool {
    text.rsplit(':').next().is_some_and(|id| id.bytes().all(|digit| digit.is_ascii_digit()))
}

/// The file of the tree, a statement a line; a root alone is `host:id ;`. [`Topology::read`] reads it back.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut children = vec![Vec::new(); self.processes.len()];
        for (process, parent) in &self.processes {
            parent.iter().for_each(|&parent| children[parent].push(process));
        }
        if let [(root, _)] = &self.processes[..] {
            return writeln!(f, "{root} ;");
        }
        for ((process, _), children) in
            self.processes.iter().zip(children).filter(|(_, children)| !children.is_empty())
        {
            write!(f, "{process} =>")?;
            children.iter().try_for_each(|child| write!(f, " {child}"))?;
            writeln!(f, " ;")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Topology {
        Topology::read(text).unwrap_or_else(|fault| panic!("{text}: {fault}"))
    }

    fn refused(text: &str) -> String {
        Topology::read(text).expect_err(text).to_string()
    }

    #[test]
    fn a_file_is_read_in_any_order_of_its_statements_and_written_back() {
        let text = "b:0 => c:0 # the last\n   c:1;\n\n# the root\na:0=>b:0 b:1 ;";
        let topology = read(text);
        let written = "a:0 => b:0 b:1 ;\nb:0 => c:0 c:1 ;\n";
        assert_eq!(topology.to_string(), written);
        assert_eq!(read(written), topology);
        assert_eq!(read("a:7;").to_string(), "a:7 ;\n");
        assert_eq!(read("a:0 => b:0 ; b:0 ;"), read("a:0 => b:0 ;"), "a leaf may be named alone too");
        assert_eq!(read("[::1]:3;").processes[0].0.host, "[::1]");
    }

    #[test]
    fn what_is_wrong_is_said_with_line_and_column() {
        for (text, said) in [
            ("", "line 1, column 1: the file names no process"),
            ("a:0 => b:0\n", "line 1, column 11: the last statement has no end: put `;` behind it"),
            (";", "line 1, column 1: a statement is empty: write `host:id` or `host:id => host:id ... ;`"),
            ("a:0 =>;", "line 1, column 7: a:0 has no children: name some behind `=>`, or leave `=>` out"),
            ("a:0 b:0;", "line 1, column 5: `=>` or `;` is expected here, found `b:0`"),
            ("ö:0 => b;", "line 1, column 8: `host:id` is expected here, as in `node1:0`, found `b`"),
            ("a:+1;", "line 1, column 1: `host:id` is expected here, as in `node1:0`, found `a:+1`"),
            (":1;", "line 1, column 1: `host:id` is expected here, as in `node1:0`, found `:1`"),
            ("a:0 => a:0;", "line 1, column 8: a:0 cannot be its own child"),
            ("a:0 => b:0 b:0;", "line 1, column 12: b:0 is a child of a:0 already: it has one parent"),
            (
                "a:0 => b:0;\nc:0 => d:0;",
                "line 2, column 1: c:0 is a second root beside a:0: name it as somebody's child",
            ),
            (
                "a:0 => b:0;\na:0 => c:0;",
                "line 2, column 1: a:0 has got children in an earlier statement: name them all there",
            ),
            ("a:0 => b:0;\nb:0 => a:0;", "line 1, column 1: a:0 is below itself: a tree has no cycle"),
            ("r:0;\na:0 => b:0;\nb:0 => a:0;", "line 2, column 1: a:0 is below itself: a tree has no cycle"),
        ] {
            assert_eq!(refused(text), said, "{text}");
        }
    }

    #[test]
    fn trees_of_all_shapes_come_back_as_they_were() {
        for widths in [&[16][..], &[4, 16], &[8, 8, 8, 8], &[1], &[]] {
            let mut processes = vec![(Process { host: "fe".into(), id: 0 }, None)];
            let mut above = 0..1;
            for width in widths {
                let from = processes.len();
                for parent in above {
                    for child in 0..*width {
                        let id = (processes.len() - from) as u32;
                        processes.push((Process { host: format!("n{child}-{from}"), id }, Some(parent)));
                    }
                }
                above = from..processes.len();
            }
            let topology = Topology { processes };
            assert_eq!(read(&topology.to_string()), topology, "{widths:?}");
        }
    }
}
