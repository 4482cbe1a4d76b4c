//! As much of the protobuf encoding as a trace needs: <https://protobuf.dev/programming-guides/encoding/>.

use starfarm_protocol::bytes::put;

/// A message in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn number(mut self, field: u32, number: u64) -> Self {
        self.key(field, 0);
        put(&mut self.0, number.into());
        self
    }

    pub(super) fn real(mut self, field: u32, real: f64) -> Self {
        self.key(field, 1);
        self.0.extend(real.to_le_bytes());
        self
    }

    pub(super) fn text(self, field: u32, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    /// A message inside of this one.
    pub(super) fn message(self, field: u32, inner: &Message) -> Self {
        self.bytes(field, &inner.0)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.key(field, 2);
        put(&mut self.0, bytes.len() as u128);
        self.0.extend_from_slice(bytes);
        self
    }

    fn key(&mut self, field: u32, wire: u32) {
        put(&mut self.0, (field << 3 | wire).into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_encoding_guide() {
        assert_eq!(Message::default().number(1, 150).as_bytes(), [0x08, 0x96, 0x01]);
        let text = [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67];
        assert_eq!(Message::default().text(2, "testing").as_bytes(), text);
        let inner = Message::default().number(1, 150);
        assert_eq!(Message::default().message(3, &inner).as_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
    }
}
