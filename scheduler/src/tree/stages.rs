//! The stages that each back end of the farm has beside its own, as agents are told them.

use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::link::{Asked, Control, Message, Piece};
use starfarm_protocol::orders::PostId;

/// What is loaded.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Stages {
    /// Another one with each load, also of the same text, and the same after a restart.
    pub(crate) number: u64,
    text: String,
}

impl Stages {
    /// Those of this text, which was loaded at that time.
    pub(super) fn new(text: String, loaded_ns: u128) -> Self {
        let hash = ContentHash::of(&[text.as_bytes(), &loaded_ns.to_le_bytes()].concat());
        let number = hash.0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Self { number, text }
    }

    /// What agents are told.
    pub(crate) fn messages(&self) -> impl Iterator<Item = Message<'_>> {
        let pieces = Piece::all(self.number, self.text.as_bytes());
        pieces.map(|piece| Message::Control(Control { post: PostId::ALL, asked: Asked::Load as u8, piece }))
    }
}
