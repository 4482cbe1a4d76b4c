//! `starfarm log validate`.

use serde::ser::{Serialize, SerializeStruct, Serializer};
use starfarm_logs::{Utc, Validation};

use crate::output::{Document, Style};

/// A log that is valid.
pub(super) struct Valid(pub(super) Validation);

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
}
