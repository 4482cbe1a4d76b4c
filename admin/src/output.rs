//! What goes to standard output, in the form that the user asked for: a table for people, one JSON
//! document, one JSON object a line, or the bare essence for a script. What there is to print is said by
//! the commands, which implement [`Record`] and [`Document`]. Messages and progress go to standard error,
//! elsewhere.

pub(crate) mod json;
pub(crate) mod table;

use std::io::{self, BufWriter, IsTerminal, Write};

use clap::ColorChoice;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::human::printable_lines;
pub(crate) use table::Style;
use table::{Column, Table};

/// The form of what is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// Aligned columns, rounded numbers; not for scripts.
    #[default]
    Table,
    /// One JSON document with a versioned `schema`.
    Json,
    /// One JSON object a line, each with a versioned `schema`.
    Jsonl,
    /// Ids, names or values alone.
    Quiet,
}

/// Whether standard output gets colours.
fn is_colored(when: ColorChoice) -> bool {
    match when {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        // https://no-color.org: any value that is not empty.
        ColorChoice::Auto => {
            std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && io::stdout().is_terminal()
        }
    }
}

/// Columns of the terminal that standard output is, if it is one and knows.
pub(crate) fn terminal_columns() -> Option<usize> {
    let stdout = io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten();
    // One that does not know its size says 0.
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// One thing of a list: a job, a node, a key.
pub(crate) trait Record: Serialize + Sized + 'static {
    /// Its name in `schema`, when it stands alone on a line.
    const ONE: &'static str;
    /// The list's name in `schema`, and the list's key.
    const MANY: &'static str;
    /// The columns of the table.
    const COLUMNS: &'static [Column<Self>];

    /// What a script wants most.
    fn quiet(&self) -> String;
}

/// A single object.
pub(crate) trait Document: Serialize {
    /// Its name in `schema`.
    const NAME: &'static str;

    /// As a person reads it, of any number of lines.
    fn table(&self, style: Style) -> String;

    /// What a script wants most; nothing where it wants JSON or the exit code.
    fn quiet(&self) -> String {
        String::new()
    }
}

/// Prints in one format.
pub(crate) struct Printer {
    pub(crate) format: Format,
    pub(crate) style: Style,
    out: Box<dyn Write>,
}

impl Printer {
    pub(crate) fn to_stdout(format: Format, color: ColorChoice) -> Self {
        let style = Style { color: is_colored(color), columns: terminal_columns() };
        Self::new(format, style, Box::new(BufWriter::new(io::stdout())))
    }

    pub(crate) fn new(format: Format, style: Style, out: Box<dyn Write>) -> Self {
        Self { format, style, out }
    }

    pub(crate) fn list<R: Record>(&mut self, records: &[R]) -> Result<(), Failure> {
        match self.format {
            Format::Table => self.text(&Table::of(records, R::COLUMNS).render(self.style)),
            Format::Json => self.text(&json::pretty(&json::listing(R::MANY, records))),
            Format::Jsonl => records.iter().try_for_each(|record| self.line_of(R::ONE, record)),
            Format::Quiet => records.iter().try_for_each(|record| self.line(&record.quiet())),
        }
    }

    pub(crate) fn document<D: Document>(&mut self, document: &D) -> Result<(), Failure> {
        match self.format {
            Format::Table => self.text(&document.table(self.style)),
            Format::Json => self.text(&json::pretty(&json::Tagged::new(D::NAME, document))),
            Format::Jsonl => self.line_of(D::NAME, document),
            Format::Quiet => match document.quiet() {
                empty if empty.is_empty() => Ok(()),
                line => self.line(&line),
            },
        }
    }

    /// Prints a JSON object on a line of its own.
    pub(crate) fn line_of<T: Serialize>(&mut self, name: &'static str, object: &T) -> Result<(), Failure> {
        self.line(&json::compact(&json::Tagged::new(name, object)))
    }

    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        writeln!(self.out, "{line}").map_err(|error| Failure::of_stdout(&error))
    }

    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.write_all(bytes).map_err(|error| Failure::of_stdout(&error))
    }

    /// Where bytes go that come piece by piece.
    pub(crate) fn writer(&mut self) -> &mut dyn Write {
        &mut self.out
    }

    /// Writes out what is held. To be called before the program ends, or a full disk would go unnoticed.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|error| Failure::of_stdout(&error))
    }
}

/// A message for the user, on standard error. That nobody may be listening there is no reason to fail.
pub(crate) fn say(message: &str) {
    let _ = writeln!(io::stderr(), "{}", printable_lines(message));
}

#[cfg(test)]
pub(crate) mod testing {
    //! Printing into memory.

    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    pub(crate) struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Sink {
        /// What was printed.
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What `print` prints in `format`, without colours.
    pub(crate) fn printed(format: Format, print: impl FnOnce(&mut Printer) -> Result<(), Failure>) -> String {
        let sink = Sink::default();
        print(&mut Printer::new(format, Style::PLAIN, Box::new(sink.clone()))).unwrap();
        sink.text()
    }
}
