//! `starfarm log validate`.

use std::path::Path;

use serde::ser::{Serialize, SerializeStruct, Serializer};
use starfarm_logs::{Utc, Validation};

use crate::commands::Context;
use crate::failure::Failure;
use crate::output::{Document, Style};

/// Checks a log, and prints what it holds.
///
/// # Errors
/// It is not valid; as the printer.
pub(super) fn run(context: &mut Context, path: &Path) -> Result<(), Failure> {
    let report = starfarm_logs::validate(path).map_err(|error| super::of_log(&error))?;
    context.printer.document(&Valid(report))
}

/// A log that is valid.
struct Valid(Validation);

impl Serialize for Valid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(report) = self;
        let mut object = serializer.serialize_struct("Valid", 8)?;
        object.serialize_field("from", &Utc(report.from_us).to_string())?;
        object.serialize_field("to", &Utc(report.to_us).to_string())?;
        object.serialize_field("epochs", &report.epochs)?;
        object.serialize_field("segments", &report.segments)?;
        object.serialize_field("segments_in_use", &report.in_use)?;
        object.serialize_field("segments_cut", &report.cut)?;
        object.serialize_field("gaps", &report.gaps)?;
        object.serialize_field("events", &report.events)?;
        object.end()
    }
}

impl Document for Valid {
    const NAME: &'static str = "log-validation";

    fn table(&self, _: Style) -> String {
        self.0.to_string()
    }

    /// The exit code says it.
    fn quiet(&self) -> String {
        String::new()
    }
}
