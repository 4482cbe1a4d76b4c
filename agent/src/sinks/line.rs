//! `line`: a line a value, for a database elsewhere.

use std::net::SocketAddr;
use std::sync::OnceLock;

use starfarm_agent_core::{Context, Hook, Stage, Triples, Word};

use super::outlet::{Outlet, To};
use super::values::{Figure, figures};
use crate::counts::Counts;
use crate::settings::{address, number, refusal, unknown};

pub(super) const TYPE: &str = "line";
/// Bytes that wait, at most, if nothing else is said, and what may be said.
const BUFFER_BYTES: usize = 1 << 20;
const BUFFER_BYTES_MIN: usize = 1 << 10;
const BUFFER_BYTES_MAX: usize = 1 << 30;

/// The name of the node that this process measures.
static NODE: OnceLock<String> = OnceLock::new();

/// This process measures that node.
pub(crate) fn set_node(name: &str) {
    // An agent begins once.
    let _ = NODE.set(name.to_owned());
}

/// How a line is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Format {
    /// InfluxDB's line protocol.
    #[default]
    Influx,
    /// Graphite's plain text.
    Graphite,
}

/// Any number of inputs. Each value leaves as a line, or a few. The output `counts` says, whenever one of its timers fires, how
/// many lines have left since its start (`messages`), and how many are lost, since too much waited (`lost`). Values that are no
/// numbers are counted as not taken.
///
/// | setting | means |
/// | --- | --- |
/// | `to` | `tcp://` or `udp://`, address and port: `tcp://10.0.0.9:8094` |
/// | `format` | `influx`, at first, or `graphite` |
/// | `buffer` | bytes of lines that wait, at most; 1 MiB, at first |
pub(super) struct Line {
    to: Option<To>,
    format: Format,
    buffer: usize,
    /// From the first value on.
    outlet: Option<Outlet>,
    counts: Counts,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            to: None,
            format: Format::default(),
            buffer: BUFFER_BYTES,
            outlet: None,
            counts: Counts::default(),
        }
    }
}

fn to(key: &str, value: &str) -> Result<To, String> {
    let (way, at): (fn(SocketAddr) -> To, _) = match value.trim().split_once("://") {
        Some(("tcp", at)) => (To::Tcp, at),
        Some(("udp", at)) => (To::Udp, at),
        _ => {
            return Err(refusal(
                key,
                value,
                "`tcp://` or `udp://`, an address and a port, as `tcp://10.0.0.9:8094`",
            ));
        }
    };
    address(key, at).map(way)
}

/// Lines of a figure, each with its end.
fn written(figure: &Figure, format: Format, node: Option<&str>, now_us: u64) -> String {
    let Figure { name, whose, element, fields } = figure;
    let at_us = whose.at_us.unwrap_or(now_us);
    // Names hold letters, digits, `.`, `_`, `-` and `@` only, but for a node's, which its farm has checked likewise.
    match format {
        Format::Influx => {
            let mut line = name.clone();
            node.iter().for_each(|node| line += &format!(",node={node}"));
            whose.job.iter().for_each(|job| line += &format!(",job={job}"));
            element.iter().for_each(|element| line += &format!(",element={element}"));
            let fields: Vec<_> = fields.iter().map(|(field, of)| format!("{field}={of}")).collect();
            // Nanoseconds.
            format!("{line} {} {at_us}000\n", fields.join(","))
        }
        Format::Graphite => {
            let mut path = "starfarm".to_owned();
            // A dot parts names there.
            node.iter().for_each(|node| path += &format!(".{}", node.replace('.', "_")));
            whose.job.iter().for_each(|job| path += &format!(".job.{job}"));
            path += &format!(".{name}");
            element.iter().for_each(|element| path += &format!(".{element}"));
            let seconds = at_us / 1_000_000;
            let lines = fields.iter().map(|(field, of)| match *field {
                "value" => format!("{path} {of} {seconds}\n"),
                field => format!("{path}.{field} {of} {seconds}\n"),
            });
            lines.collect()
        }
    }
}

impl Line {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "to" => (self.to, self.outlet) = (Some(to(key, value)?), None),
            "format" => {
                self.format = match value {
                    "influx" => Format::Influx,
                    "graphite" => Format::Graphite,
                    _ => return Err(refusal(key, value, "`influx` or `graphite`")),
                }
            }
            "buffer" => {
                let range = BUFFER_BYTES_MIN..=BUFFER_BYTES_MAX;
                self.buffer = number(key, value, range, "bytes, from 1024 to 1073741824")?;
            }
            _ => return Err(unknown(TYPE, key, &["to", "format", "buffer"])),
        }
        Ok(())
    }
}

impl Stage for Line {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        self.counts.edge_made(TYPE, hook)
    }

    fn edge_gone(&mut self, hook: Hook<'_>) {
        self.counts.edge_gone(hook);
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        let (figures, others) = figures(values);
        context.not_taken(others);
        // The thread is started once it is needed: a stage may be made for a check alone.
        if let (None, Some(to)) = (&self.outlet, self.to) {
            self.outlet = Outlet::start(to).ok();
        }
        let Some(outlet) = &self.outlet else {
            context.not_taken(figures.len() as u64);
            return;
        };
        let node = NODE.get().map(String::as_str);
        for figure in &figures {
            for line in written(figure, self.format, node, context.now_us()).split_inclusive('\n') {
                outlet.put(line.to_owned(), self.buffer);
            }
        }
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::Set { key, value } => self.set(key, value)?,
            Word::Fired(_) => {
                let counted = self.outlet.as_ref().map(Outlet::counts).unwrap_or_default();
                self.counts.tell((counted.sent, counted.lost), context);
            }
            Word::Ready | Word::WaveIsOver => {}
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::values::Whose;
    use super::*;

    #[test]
    fn a_value_is_a_line_of_either_format() {
        let whose = Whose { job: Some(7), at_us: Some(1_500_000) };
        let one = Figure {
            name: "switch.fan".to_owned(),
            whose: Whose::default(),
            element: None,
            fields: vec![("value", "2.5".to_owned())],
        };
        let many = Figure {
            name: "cpu".to_owned(),
            whose,
            element: Some(3),
            fields: vec![("count", "2".to_owned()), ("sum", "9".to_owned())],
        };
        let lines = |format, node| [&one, &many].map(|of| written(of, format, node, 42_000_000));
        assert_eq!(
            lines(Format::Influx, Some("n1.lab")),
            [
                "switch.fan,node=n1.lab value=2.5 42000000000\n",
                "cpu,node=n1.lab,job=7,element=3 count=2,sum=9 1500000000\n"
            ]
        );
        assert_eq!(
            lines(Format::Graphite, Some("n1.lab")),
            [
                "starfarm.n1_lab.switch.fan 2.5 42\n",
                "starfarm.n1_lab.job.7.cpu.3.count 2 1\nstarfarm.n1_lab.job.7.cpu.3.sum 9 1\n"
            ]
        );
        assert_eq!(lines(Format::Influx, None)[0], "switch.fan value=2.5 42000000000\n");
    }

    #[test]
    fn what_it_cannot_be_told_is_refused() {
        let mut line = Line::default();
        for (key, value, why) in [
            ("to", "10.0.0.9:8094", "`to` is `tcp://` or `udp://`, an address and a port"),
            ("to", "http://10.0.0.9:8094", "not `http://10.0.0.9:8094`"),
            ("to", "tcp://database:8094", "an address and a port"),
            ("format", "xml", "`influx` or `graphite`"),
            ("buffer", "1000", "bytes, from 1024"),
            ("colour", "red", "it has `to`, `format`, `buffer`"),
        ] {
            assert!(line.set(key, value).unwrap_err().contains(why), "{key}");
        }
        line.set("to", "udp://[fd00::9]:8089").unwrap();
        assert!(matches!(line.to, Some(To::Udp(to)) if to.port() == 8089) && line.outlet.is_none());
    }
}
