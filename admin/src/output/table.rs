//! Tables: aligned columns, two blanks between them. No frames, so that they can be copied and cut.

use starfarm_events::{Colour, colour};
use unicode_width::UnicodeWidthStr;

use crate::human::{fitted, printable};

/// Between two columns, and between a name and its value.
const GAP: &str = "  ";
/// Between two columns where there is little room.
const GAP_MIN: &str = " ";
/// A column of names keeps this width, or its own if it is less.
const NAME_MIN: usize = 8;

/// How text for people is to style.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Style {
    /// Whether there are colours.
    pub(crate) color: bool,
    /// Columns of the terminal that text is to fit on; none where it is no terminal, and all is printed whole.
    pub(crate) columns: Option<usize>,
}

impl Style {
    /// Without colours, and whole.
    pub(crate) const PLAIN: Self = Self { color: false, columns: None };
}

/// What stands in a column, and on which side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Names of jobs and nodes: words of which a narrow terminal shows less.
    Name,
    /// Numbers.
    Right,
}

/// A column of a table of `T`.
pub(crate) struct Column<T> {
    heading: &'static str,
    align: Align,
    pub(crate) cell: fn(&T) -> Cell,
}

/// A column of words.
pub(crate) const fn left<T>(heading: &'static str, cell: fn(&T) -> Cell) -> Column<T> {
    Column { heading, align: Align::Left, cell }
}

/// A column of names.
pub(crate) const fn name<T>(heading: &'static str, cell: fn(&T) -> Cell) -> Column<T> {
    Column { heading, align: Align::Name, cell }
}

/// A column of numbers.
pub(crate) const fn right<T>(heading: &'static str, cell: fn(&T) -> Cell) -> Column<T> {
    Column { heading, align: Align::Right, cell }
}

/// Ends a colour on a terminal.
pub(crate) const COLOUR_END: &str = "\u{1b}[0m";

/// Begins a colour on a terminal.
pub(crate) fn colour_begin(colour: Colour) -> String {
    format!("\u{1b}[38;5;{}m", colour.ansi)
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) colour: Option<Colour>,
}

impl Cell {
    /// Text from wherever; what could steer the terminal is made visible.
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        Self { text: printable(text.as_ref()), colour: None }
    }

    /// A state, in its colour; the words always say it too.
    pub(crate) fn state(state: &str) -> Self {
        Self { colour: colour(state), ..Self::new(state) }
    }

    fn render(&self, color: bool) -> String {
        match self.colour.filter(|_| color) {
            Some(colour) => format!("{}{}{COLOUR_END}", colour_begin(colour), self.text),
            None => self.text.clone(),
        }
    }
}

/// Rows under headings.
pub(crate) struct Table {
    headings: Vec<(&'static str, Align)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A row for each of `items`.
    pub(crate) fn of<'a, T: 'a>(items: impl IntoIterator<Item = &'a T>, columns: &[Column<T>]) -> Self {
        let row = |item| columns.iter().map(|column| (column.cell)(item)).collect();
        let headings = columns.iter().map(|column| (column.heading, column.align)).collect();
        Self { headings, rows: items.into_iter().map(row).collect() }
    }

    /// Whether there is nothing under the headings.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, a line for each row. On a terminal that is too narrow names give way to `…`; if that is not
    /// enough, each row stands on lines of its own.
    pub(crate) fn render(&self, style: Style) -> String {
        let headings: Vec<Cell> = self.headings.iter().map(|(heading, _)| Cell::new(heading)).collect();
        let lines: Vec<&Vec<Cell>> = std::iter::once(&headings).chain(&self.rows).collect();
        let mut widths: Vec<usize> = (0..headings.len())
            .map(|column| lines.iter().map(|cells| cells[column].text.width()).max().unwrap_or(0))
            .collect();
        let mut gaps = [GAP, GAP_MIN].into_iter();
        match gaps.find(|gap| style.columns.is_none_or(|room| self.fit(&mut widths, gap, room))) {
            Some(gap) => {
                lines.iter().map(|cells| self.render_line(cells, &widths, gap, style.color)).collect()
            }
            None => self.render_rows_alone(style),
        }
    }

    /// Narrows the widest columns of names until all columns fit; whether they do.
    fn fit(&self, widths: &mut [usize], gap: &str, room: usize) -> bool {
        let gaps = gap.len() * widths.len().saturating_sub(1);
        loop {
            if widths.iter().sum::<usize>() + gaps <= room {
                return true;
            }
            let names = widths.iter_mut().zip(&self.headings).filter(|(_, (_, align))| *align == Align::Name);
            match names.map(|(width, _)| width).max() {
                Some(width) if *width > NAME_MIN => *width -= 1,
                _ => return false,
            }
        }
    }

    fn render_line(&self, cells: &[Cell], widths: &[usize], gap: &str, color: bool) -> String {
        let mut line = String::new();
        for (at, ((cell, (_, align)), width)) in cells.iter().zip(&self.headings).zip(widths).enumerate() {
            let cell = Cell { text: fitted(&cell.text, *width), colour: cell.colour };
            let blanks = " ".repeat(width - cell.text.width());
            line.push_str(if at == 0 { "" } else { gap });
            match align {
                Align::Left | Align::Name => line.push_str(&format!("{}{blanks}", cell.render(color))),
                Align::Right => line.push_str(&format!("{blanks}{}", cell.render(color))),
            }
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }

    fn render_rows_alone(&self, style: Style) -> String {
        let names = self.headings.iter().map(|(heading, _)| *heading);
        let row = |cells: &Vec<Cell>| facts(&names.clone().zip(cells.clone()).collect::<Vec<_>>(), style);
        self.rows.iter().map(row).collect::<Vec<_>>().join("\n")
    }
}

/// Names and values, one pair a line, for a single thing. On a terminal a long value goes on below its own begin.
pub(crate) fn facts(pairs: &[(&str, Cell)], style: Style) -> String {
    let width = pairs.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
    let line = |(name, cell): &(&str, Cell)| {
        let begin = format!("{name:width$}{GAP}");
        match cell.colour {
            None => paragraph(&begin, &cell.text, style),
            // A state is a single word.
            Some(_) => format!("{begin}{}\n", cell.render(style.color)),
        }
    };
    pairs.iter().map(line).collect()
}

/// Words behind `begin`; on a terminal in as many lines as they need, those after the first below the words. A word
/// that is longer than a line is left to the terminal, so that it can be copied.
pub(crate) fn paragraph(begin: &str, words: &str, style: Style) -> String {
    let indent = " ".repeat(begin.width());
    match style.columns {
        Some(columns) if begin.width() + words.width() > columns && columns > 2 * begin.width() => {
            let options = textwrap::Options::new(columns)
                .initial_indent(begin)
                .subsequent_indent(&indent)
                .break_words(false)
                .word_splitter(textwrap::WordSplitter::NoHyphenation);
            textwrap::fill(words, options) + "\n"
        }
        _ => format!("{begin}{words}\n"),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    const COLORED: Style = Style { color: true, columns: None };

    fn on(columns: usize) -> Style {
        Style { columns: Some(columns), ..Style::PLAIN }
    }

    fn table() -> Table {
        let rows = [("größe", "12", "running"), ("x\n", "3.00 M", "queued")];
        Table::of(
            &rows,
            &[
                left("name", |row| Cell::new(row.0)),
                right("units", |row| Cell::new(row.1)),
                left("state", |row| Cell::state(row.2)),
            ],
        )
    }

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        expect![[r#"
            name    units  state
            größe      12  running
            x\n    3.00 M  queued
        "#]]
        .assert_eq(&table().render(Style::PLAIN));
    }

    #[test]
    fn colours_change_no_width() {
        let colored = table().render(COLORED);
        let [running, queued] = ["running", "queued"].map(|state| colour_begin(colour(state).unwrap()));
        assert!(colored.contains(&format!("{running}running{COLOUR_END}")));
        let plain =
            [&running, &queued, COLOUR_END].into_iter().fold(colored, |text, code| text.replace(code, ""));
        assert_eq!(plain, table().render(Style::PLAIN));
    }

    #[test]
    fn a_table_without_rows_has_headings() {
        let table = Table::of(&[], &[left("a", |&()| Cell::new("")), right("b", |&()| Cell::new(""))]);
        assert_eq!(table.render(COLORED), "a  b\n");
    }

    #[test]
    fn on_a_narrow_terminal_names_give_way_and_then_the_gaps() {
        let rows = [("1", "a-name-of-some-length", "running"), ("2", "東京東京東京", "queued")];
        let table = Table::of(
            &rows,
            &[
                right("id", |row| Cell::new(row.0)),
                name("name", |row| Cell::new(row.1)),
                left("state", |row| Cell::state(row.2)),
            ],
        );
        let whole = table.render(Style::PLAIN);
        assert_eq!(table.render(on(34)), whole);
        expect![[r#"
            id  name      state
             1  a-name-…  running
             2  東京東…   queued
        "#]]
        .assert_eq(&table.render(on(21)));
        expect![[r#"
            id name     state
             1 a-name-… running
             2 東京東…  queued
        "#]]
        .assert_eq(&table.render(on(19)));
        expect![[r#"
            id     1
            name   a-name-of-some-length
            state  running

            id     2
            name   東京東京東京
            state  queued
        "#]]
        .assert_eq(&table.render(on(18)));
    }

    #[test]
    fn on_a_terminal_words_go_on_below_their_begin_and_a_long_one_stays_whole() {
        let pairs = [("why", Cell::new("it waits for all of them")), ("hash", Cell::new("07".repeat(12)))];
        expect![[r#"
            why   it waits
                  for all of
                  them
            hash  070707070707070707070707
        "#]]
        .assert_eq(&facts(&pairs, on(17)));
        assert_eq!(paragraph("- ", "one two", on(7)), "- one\n  two\n");
        assert_eq!(paragraph("- ", "one two", Style::PLAIN), "- one two\n");
    }

    #[test]
    fn facts_are_aligned() {
        assert_eq!(
            facts(&[("id", Cell::new("7")), ("state", Cell::state("lost"))], Style::PLAIN),
            "id     7\nstate  lost\n"
        );
    }
}
