//! What both stages are told of datagrams.

use starfarm_agent_core::dimmon::{ByteOrder, IdTable};

use crate::settings::{refusal, shown};

/// What the bytes of a datagram are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Format {
    /// DiMMon's.
    #[default]
    Dimmon,
    /// The triples of a message, as links have them.
    Triples,
}

/// What both stages are told of datagrams.
#[derive(Default)]
pub(super) struct Wire {
    pub(super) format: Format,
    pub(super) order: ByteOrder,
    pub(super) ids: IdTable,
}

impl Wire {
    pub(super) const KEYS: &str = "`format`, `order`, `ids`";

    /// Takes a setting; false where it is none of these.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "format" => {
                self.format = match value {
                    "dimmon" => Format::Dimmon,
                    "triples" => Format::Triples,
                    _ => return Err(refusal(key, value, "`dimmon` or `triples`")),
                }
            }
            "order" => {
                self.order = match value {
                    "host" => ByteOrder::Host,
                    "little" => ByteOrder::Little,
                    "big" => ByteOrder::Big,
                    _ => return Err(refusal(key, value, "`host`, `little` or `big`")),
                }
            }
            "ids" => self.ids = IdTable::parse(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

pub(super) fn unknown(of: &str, key: &str, own: &str) -> String {
    format!("`{of}` has no setting `{}`: it has {own}, {}", shown(key), Wire::KEYS)
}
