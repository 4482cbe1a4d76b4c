//! Tables: aligned columns, two blanks between them. No frames, so that they can be copied and cut.

use unicode_width::UnicodeWidthStr;

use crate::human::printable;

/// On which side a column's text stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A column's heading and side.
pub(crate) type Column = (&'static str, Align);

/// A column of words.
pub(crate) const fn left(heading: &'static str) -> Column {
    (heading, Align::Left)
}

/// A column of numbers.
pub(crate) const fn right(heading: &'static str) -> Column {
    (heading, Align::Right)
}

/// Meaning of a cell, shown by colour where there is colour; the words always say it too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// Worth a look.
    Doubtful,
    /// Gone wrong.
    Bad,
}

impl Tone {
    /// The tone of a state of a job or node, as the protocol names it.
    pub(crate) fn of_state(state: &str) -> Self {
        match state {
            "running" | "finished" | "up" => Self::Good,
            "paused" | "suspect" | "draining" => Self::Doubtful,
            "failed" | "lost" | "quarantined" => Self::Bad,
            _ => Self::Plain,
        }
    }

    fn escape(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Good => Some("\u{1b}[32m"),
            Self::Doubtful => Some("\u{1b}[33m"),
            Self::Bad => Some("\u{1b}[31m"),
        }
    }
}

/// One cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// Text from wherever; what could steer the terminal is made visible.
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        Self { text: printable(text.as_ref()), tone: Tone::Plain }
    }

    /// A state, in its colour.
    pub(crate) fn state(state: &str) -> Self {
        Self { tone: Tone::of_state(state), ..Self::new(state) }
    }

    fn render(&self, color: bool) -> String {
        match self.tone.escape().filter(|_| color) {
            Some(escape) => format!("{escape}{}\u{1b}[0m", self.text),
            None => self.text.clone(),
        }
    }
}

/// Rows under headings.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, a cell for each column.
    pub(crate) fn push(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// The table as text, a line for each row.
    pub(crate) fn render(&self, color: bool) -> String {
        let headings: Vec<Cell> = self.columns.iter().map(|(heading, _)| Cell::new(heading)).collect();
        let lines: Vec<&Vec<Cell>> = std::iter::once(&headings).chain(&self.rows).collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| lines.iter().map(|cells| cells[column].text.width()).max().unwrap_or(0))
            .collect();
        lines.iter().map(|cells| self.render_line(cells, &widths, color)).collect()
    }

    fn render_line(&self, cells: &[Cell], widths: &[usize], color: bool) -> String {
        let mut line = String::new();
        for ((cell, (_, align)), width) in cells.iter().zip(&self.columns).zip(widths) {
            let gap = if line.is_empty() && cell == &cells[0] { "" } else { "  " };
            let blanks = " ".repeat(width - cell.text.width());
            line.push_str(gap);
            match align {
                Align::Left => line.push_str(&format!("{}{blanks}", cell.render(color))),
                Align::Right => line.push_str(&format!("{blanks}{}", cell.render(color))),
            }
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}

/// Names and values, one pair a line, for a single thing.
pub(crate) fn facts(pairs: &[(&str, Cell)], color: bool) -> String {
    let width = pairs.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
    pairs.iter().map(|(name, cell)| format!("{name:width$}  {}\n", cell.render(color))).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[left("name"), right("units"), left("state")]);
        table.push(vec![Cell::new("größe"), Cell::new("12"), Cell::state("running")]);
        table.push(vec![Cell::new("x\n"), Cell::new("3.00 M"), Cell::state("queued")]);
        table
    }

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        expect![[r#"
            name    units  state
            größe      12  running
            x\n    3.00 M  queued
        "#]]
        .assert_eq(&table().render(false));
    }

    #[test]
    fn colours_change_no_width() {
        let colored = table().render(true);
        assert!(colored.contains("\u{1b}[32mrunning\u{1b}[0m"));
        assert_eq!(colored.replace("\u{1b}[32m", "").replace("\u{1b}[0m", ""), table().render(false));
    }

    #[test]
    fn a_table_without_rows_has_headings() {
        assert_eq!(Table::new(&[left("a"), right("b")]).render(true), "a  b\n");
    }

    #[test]
    fn facts_are_aligned() {
        assert_eq!(
            facts(&[("id", Cell::new("7")), ("state", Cell::state("lost"))], false),
            "id     7\nstate  lost\n"
        );
    }
}
