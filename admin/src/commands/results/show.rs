//! Results in each format. JSON is one object whose lists are written item by item, a line each.

use starfarm_protocol::wire::FailReason;
use std::fmt::Write;

use starfarm_protocol::admin::{FailedInfo, HitInfo, LostOutputs, OutputInfo, StreamInfo};
use starfarm_protocol::ids::{JobId, from_hex};
use starfarm_protocol::units::Units;

use super::pages::{Pages, Seen};
use crate::failure::Failure;
use crate::human;
use crate::output::table::{Cell, Table, left, right};
use crate::output::{Format, Printer, Style, json};

/// Prints all results; `outputs` says which outputs a person sees.
pub(super) fn all(
    pages: Pages<'_>,
    id: JobId,
    outputs: Outputs,
    printer: &mut Printer,
) -> Result<Seen, Failure> {
    match printer.format {
        Format::Table => as_table(pages, outputs, printer),
        Format::Json => as_json(pages, id, printer),
        Format::Jsonl => as_lines(pages, printer),
        Format::Quiet => as_values(pages, printer),
    }
}

fn as_json(mut pages: Pages<'_>, id: JobId, printer: &mut Printer) -> Result<Seen, Failure> {
    let schema = json::compact(&json::schema("results"));
    printer.text(&format!("{{\"schema\":{schema},\"job\":{}", id.0))?;
    let mut list = List::open(printer, "hits")?;
    pages.hits(|page| page.iter().try_for_each(|hit| list.item(hit)))?;
    list.close()?;
    let mut list = List::open(printer, "failed")?;
    pages.failed(|page| page.iter().try_for_each(|failed| list.item(failed)))?;
    list.close()?;
    let mut list = List::open(printer, "outputs")?;
    let seen = pages.outputs(|output| list.item(&output))?;
    list.close()?;
    let mut list = List::open(printer, "outputs_lost")?;
    seen.lost.iter().try_for_each(|lost| list.item(lost))?;
    list.close()?;
    printer.text("}\n")?;
    Ok(seen)
}

/// A list of a JSON object that is being written.
struct List<'a> {
    printer: &'a mut Printer,
    is_empty: bool,
}

impl<'a> List<'a> {
    fn open(printer: &'a mut Printer, name: &str) -> Result<Self, Failure> {
        printer.text(&format!(",\n\"{name}\":["))?;
        Ok(Self { printer, is_empty: true })
    }

    fn item<T: serde::Serialize>(&mut self, item: &T) -> Result<(), Failure> {
        let separator = if self.is_empty { "\n" } else { ",\n" };
        self.is_empty = false;
        self.printer.text(&format!("{separator}{}", json::compact(item)))
    }

    fn close(self) -> Result<(), Failure> {
        self.printer.text(if self.is_empty { "]" } else { "\n]" })
    }
}

fn as_lines(mut pages: Pages<'_>, printer: &mut Printer) -> Result<Seen, Failure> {
    pages.hits(|page| page.iter().try_for_each(|hit| printer.line_of("hit", hit)))?;
    pages.failed(|page| page.iter().try_for_each(|failed| printer.line_of("failed", failed)))?;
    let seen = pages.outputs(|output| printer.line_of("output", &output))?;
    seen.lost.iter().try_for_each(|lost| printer.line_of("output_lost", lost))?;
    Ok(seen)
}

/// Values of hits and standard output of units, byte for byte: what a pipe wants.
fn as_values(mut pages: Pages<'_>, printer: &mut Printer) -> Result<Seen, Failure> {
    pages.hits(|page| values(&page, printer))?;
    pages.outputs(|output| printer.bytes(&bytes(&output.stdout.text, output.stdout.hex.as_deref())))
}

fn values(hits: &[HitInfo], printer: &mut Printer) -> Result<(), Failure> {
    hits.iter().try_for_each(|hit| {
        printer.bytes(&bytes(&hit.value, hit.value_hex.as_deref()))?;
        printer.bytes(b"\n")
    })
}

/// The bytes that a text stands for, which `hex` has where they are not UTF-8.
pub(super) fn bytes(text: &str, hex: Option<&str>) -> Vec<u8> {
    hex.and_then(from_hex).unwrap_or_else(|| text.as_bytes().to_vec())
}

fn as_table(mut pages: Pages<'_>, mut outputs: Outputs, printer: &mut Printer) -> Result<Seen, Failure> {
    pages.hits(|page| printer.text(&hits(&page)))?;
    pages.failed(|page| printer.text(&failed(&page)))?;
    let seen = pages.outputs(|output| outputs.show(&output, printer))?;
    outputs.end(printer)?;
    printer.text(&lost(&seen.lost))?;
    Ok(seen)
}

/// What there is beside the `outputs` that were shown as they came: how many units wrote nothing, then hits, failed units,
/// and what is lost.
pub(super) fn beside(
    mut pages: Pages<'_>,
    outputs: &Outputs,
    printer: &mut Printer,
) -> Result<Seen, Failure> {
    let format = printer.format;
    outputs.end(printer)?;
    pages.hits(|page| match format {
        Format::Table => printer.text(&hits(&page)),
        Format::Quiet => values(&page, printer),
        Format::Json | Format::Jsonl => page.iter().try_for_each(|hit| printer.line_of("hit", hit)),
    })?;
    pages.failed(|page| match format {
        Format::Table => printer.text(&failed(&page)),
        Format::Quiet => Ok(()),
        Format::Json | Format::Jsonl => page.iter().try_for_each(|of| printer.line_of("failed", of)),
    })?;
    let seen = Seen { lost: pages.lost(Vec::new())?, ..Seen::default() };
    match format {
        Format::Table => printer.text(&lost(&seen.lost))?,
        Format::Quiet => {}
        Format::Json | Format::Jsonl => {
            seen.lost.iter().try_for_each(|lost| printer.line_of("output_lost", lost))?;
        }
    }
    Ok(seen)
}

/// Outputs that are shown one by one.
#[derive(Default)]
pub(super) struct Outputs {
    /// Units that passed and wrote nothing: a person is told their number.
    silent: u128,
    /// A person sees those of failed units alone.
    are_of_failed: bool,
}

impl Outputs {
    /// For a person whose files are in a folder: of units that passed these are what is wanted.
    pub(super) fn of_failed(are_of_failed: bool) -> Self {
        Self { are_of_failed, ..Self::default() }
    }

    pub(super) fn show(&mut self, output: &OutputInfo, printer: &mut Printer) -> Result<(), Failure> {
        match printer.format {
            Format::Quiet => printer.bytes(&bytes(&output.stdout.text, output.stdout.hex.as_deref())),
            Format::Json | Format::Jsonl => printer.line_of("output", output),
            Format::Table if self.are_of_failed && output.failed.is_none() => Ok(()),
            Format::Table
                if output.failed.is_none() && output.stdout.total == 0 && output.stderr.total == 0 =>
            {
                self.silent = self.silent.saturating_add(output.units.0);
                Ok(())
            }
            Format::Table => printer.text(&one_output(output)),
        }
    }

    fn end(&self, printer: &mut Printer) -> Result<(), Failure> {
        match self.silent {
            0 => Ok(()),
            1 => printer.text("1 unit is done without a word\n"),
            silent => printer.text(&format!("{silent} units are done without a word\n")),
        }
    }
}

/// Outputs that cannot be had.
fn lost(lost: &[LostOutputs]) -> String {
    if lost.is_empty() {
        return String::new();
    }
    let columns = [
        right("lost output", |lost: &LostOutputs| Cell::new(human::interval(lost.lo, lost.hi))),
        left("what", |lost| match lost.superseded {
            true => Cell::new(format!("{}, of a run that does not count", lost.what)),
            false => Cell::new(lost.what.word()),
        }),
    ];
    Table::of(lost, &columns).render(Style::PLAIN)
}

fn hits(hits: &[HitInfo]) -> String {
    fn value(hit: &HitInfo) -> Cell {
        match &hit.value_hex {
            Some(hex) => Cell::new(format!("{} (0x{hex})", hit.value)),
            None => Cell::new(&hit.value),
        }
    }
    let columns = [
        left("target", |hit: &HitInfo| Cell::new(&hit.target)),
        right("unit", |hit| Cell::new(hit.unit.to_string())),
        left("value", value),
    ];
    // What was found and what failed is wanted whole.
    Table::of(hits, &columns).render(Style::PLAIN)
}

fn failed(units: &[FailedInfo]) -> String {
    fn code(unit: &FailedInfo) -> Cell {
        Cell::new(unit.exit_code.or(unit.signal).map_or_else(|| "-".to_owned(), |code| code.to_string()))
    }
    let columns = [
        right("failed unit", |unit: &FailedInfo| Cell::new(unit.unit.to_string())),
        left("reason", |unit| Cell::new(unit.reason.word())),
        right("code", code),
        left("node", |unit| Cell::new(unit.node.as_deref().unwrap_or("-"))),
    ];
    Table::of(units, &columns).render(Style::PLAIN)
}

/// A heading, then what the unit wrote, on lines of its own.
fn one_output(output: &OutputInfo) -> String {
    let node = human::printable(human::node(output.node.as_deref()));
    let time = human::seconds(output.seconds);
    let end = match (output.exit_code, output.signal, output.failed) {
        (_, Some(signal), _) => format!("ended by signal {signal}"),
        (Some(code), _, _) => format!("exit code {code}"),
        (None, None, failed) => failed.map_or("ended", FailReason::word).to_owned(),
    };
    let run = match (output.run, output.superseded) {
        (0, true) => ", an earlier run".to_owned(),
        (run, true) => format!(", run {run}, which does not count"),
        (run @ 2.., false) => format!(", run {run}"),
        (0 | 1, false) => String::new(),
    };
    let units = match output.units.0 {
        1 => format!("unit {}", output.unit),
        units => {
            format!("units {}", human::interval(output.unit, Units(output.unit.0.saturating_add(units))))
        }
    };
    let mut text = format!("== {units}{run}: {end} after {time} on {node}\n");
    push_stream(&mut text, &output.stdout);
    if output.stderr.total > 0 {
        text.push_str("-- standard error:\n");
        push_stream(&mut text, &output.stderr);
    }
    text
}

fn push_stream(text: &mut String, stream: &StreamInfo) {
    if let Some(at) = stream.cut_at {
        let (kept, total) = (stream.kept, stream.total);
        // Writing into a string does not fail.
        let _ = writeln!(
            text,
            "-- {kept} of {total} bytes were kept: the first {at}, and the last {}",
            kept - at
        );
    }
    text.push_str(&human::printable_lines(&stream.text));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    if let Some(what) = stream.lost {
        let _ = writeln!(text, "-- this output is {what} on the scheduler's disk");
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use starfarm_protocol::admin::OutputLoss;
    use starfarm_protocol::units::Units;

    use super::super::pages::testing::Fake;
    use super::*;
    use crate::cli::Wanted;
    use crate::output::testing::printed;

    #[track_caller]
    fn check(fake: &mut Fake, format: Format, expected: Expect) {
        let text = printed(format, |printer| {
            all(Pages::new(fake, Wanted::default())?, JobId(7), Outputs::default(), printer).map(drop)
        });
        expected.assert_eq(&text);
    }

    #[test]
    fn for_a_person() {
        check(
            &mut Fake::new(3, 1, 1),
            Format::Table,
            expect![[r#"
            target  unit  value
            00ff       0  word0
            00ff       1  word1
            target  unit  value
            00ff       2  word2
            failed unit  reason  code  node
                      0  exit       3  n1
            == unit 0: exit code 0 after 0.25 s on n1
            out 0
        "#]],
        );
    }

    /// A renderer's lines went by for each frame.
    #[test]
    fn beside_files_a_person_sees_what_failed_units_wrote_alone() {
        let said = |format, are_of_failed| {
            let mut outputs = Outputs::of_failed(are_of_failed);
            let failed = OutputInfo { failed: Some(FailReason::Exit), ..Fake::default().output(1) };
            let all = [Fake::default().output(0), failed];
            let print = |printer: &mut Printer| {
                all.iter().try_for_each(|output| outputs.show(output, printer))?;
                outputs.end(printer)
            };
            let text = printed(format, print);
            [0, 1].map(|unit| text.contains(&format!("out {unit}")))
        };
        assert_eq!(said(Format::Table, true), [false, true]);
        assert_eq!(said(Format::Table, false), [true, true]);
        for format in [Format::Jsonl, Format::Quiet] {
            assert_eq!(said(format, true), [true, true], "a program reads all");
        }
    }

    #[test]
    fn what_was_cut_is_said() {
        let long = b"\x1b[2J long".to_vec();
        check(
            &mut Fake { long: Some(long), ..Fake::new(0, 0, 1) },
            Format::Table,
            expect![[r#"
            == unit 0: exit code 0 after 0.25 s on n1
            -- 9 of 14 bytes were kept: the first 4, and the last 5
            \u{1b}[2J long
        "#]],
        );
    }

    #[test]
    fn what_is_lost_is_said_in_each_format() {
        let of = |lo, hi, what| LostOutputs { lo: Units(lo), hi: Units(hi), what, superseded: false };
        let lost = vec![of(3, 4, OutputLoss::Damaged), of(20, 25, OutputLoss::Missing)];
        check(
            &mut Fake { lost: lost.clone(), ..Fake::new(0, 0, 1) },
            Format::Table,
            expect![[r#"
            == unit 0: exit code 0 after 0.25 s on n1
            out 0
            lost output  what
                      3  damaged
               20 to 24  missing
        "#]],
        );
        check(
            &mut Fake { lost: lost.clone(), ..Fake::new(0, 1, 0) },
            Format::Json,
            expect![[r#"
            {"schema":"starfarm/results/1","job":7,
            "hits":[],
            "failed":[
            {"unit":"0","reason":"exit","exit_code":3,"node":"n1"}
            ],
            "outputs":[],
            "outputs_lost":[
            {"lo":"3","hi":"4","what":"damaged"},
            {"lo":"20","hi":"25","what":"missing"}
            ]}
        "#]],
        );
        check(
            &mut Fake { lost, done: 9, ..Fake::new(0, 0, 0) },
            Format::Jsonl,
            expect![[r#"
            {"schema":"starfarm/output_lost/1","lo":"3","hi":"4","what":"damaged"}
            {"schema":"starfarm/output_lost/1","lo":"20","hi":"25","what":"missing"}
        "#]],
        );
    }

    /// A script took it for an output of no bytes.
    #[test]
    fn a_content_that_is_lost_is_said_where_it_would_stand() {
        let gone =
            || Fake { long: Some(b"long".to_vec()), gone: true, superseded: vec![0], ..Fake::new(0, 0, 1) };
        let all_runs = |fake: &mut Fake, format, expected: Expect| {
            let wanted = Wanted { all: true, arrival: false };
            let print = |printer: &mut Printer| {
                all(Pages::new(fake, wanted)?, JobId(7), Outputs::default(), printer).map(drop)
            };
            expected.assert_eq(&printed(format, print));
        };
        all_runs(
            &mut gone(),
            Format::Jsonl,
            expect![[r#"
            {"schema":"starfarm/output/1","unit":"0","attempt":100,"run":1,"node":"n1","superseded":true,"exit_code":0,"seconds":0.25,"stdout":{"text":"","hash":"e5f974b54c614a21d7e7d67b6b9a4651854359d11817045093de2875fc85b6fe","lost":"missing","kept":4,"total":9,"cut_at":4},"stderr":{"text":"","kept":0,"total":0},"files":[]}
            {"schema":"starfarm/output_lost/1","lo":"0","hi":"1","what":"missing","superseded":true}
        "#]],
        );
        all_runs(
            &mut gone(),
            Format::Table,
            expect![[r#"
            == unit 0, run 1, which does not count: exit code 0 after 0.25 s on n1
            -- 4 of 9 bytes were kept: the first 4, and the last 0
            -- this output is missing on the scheduler's disk
            lost output  what
                      0  missing, of a run that does not count
        "#]],
        );
    }

    #[test]
    fn an_output_of_a_node_that_is_forgotten_says_so() {
        check(
            &mut Fake { forgotten: true, ..Fake::new(0, 0, 1) },
            Format::Table,
            expect![[r#"
            == unit 0: exit code 0 after 0.25 s on a forgotten node
            out 0
        "#]],
        );
        check(
            &mut Fake { forgotten: true, ..Fake::new(0, 0, 1) },
            Format::Jsonl,
            expect![[r#"
            {"schema":"starfarm/output/1","unit":"0","attempt":100,"run":1,"node":null,"exit_code":0,"seconds":0.25,"stdout":{"text":"out 0\n","kept":6,"total":6},"stderr":{"text":"","kept":0,"total":0},"files":[]}
        "#]],
        );
    }

    #[test]
    fn as_one_document() {
        check(
            &mut Fake::new(3, 1, 0),
            Format::Json,
            expect![[r#"
            {"schema":"starfarm/results/1","job":7,
            "hits":[
            {"unit":"0","value":"word0","target":"00ff"},
            {"unit":"1","value":"word1","target":"00ff"},
            {"unit":"2","value":"word2","target":"00ff"}
            ],
            "failed":[
            {"unit":"0","reason":"exit","exit_code":3,"node":"n1"}
            ],
            "outputs":[],
            "outputs_lost":[]}
        "#]],
        );
    }

    #[test]
    fn as_a_line_each() {
        check(
            &mut Fake::new(1, 1, 1),
            Format::Jsonl,
            expect![[r#"
            {"schema":"starfarm/hit/1","unit":"0","value":"word0","target":"00ff"}
            {"schema":"starfarm/failed/1","unit":"0","reason":"exit","exit_code":3,"node":"n1"}
            {"schema":"starfarm/output/1","unit":"0","attempt":100,"run":1,"node":"n1","exit_code":0,"seconds":0.25,"stdout":{"text":"out 0\n","kept":6,"total":6},"stderr":{"text":"","kept":0,"total":0},"files":[]}
        "#]],
        );
    }

    #[test]
    fn as_bare_values() {
        check(
            &mut Fake::new(3, 1, 2),
            Format::Quiet,
            expect![[r#"
            word0
            word1
            word2
            out 0
            out 1
        "#]],
        );
        assert_eq!(bytes("\u{fffd}", Some("ff00")), b"\xff\0");
    }
}
