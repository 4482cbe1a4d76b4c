//! One colour for each word, wherever it is shown: on the terminal, in the report, in its legend. The hues can
//! be told apart with any kind of colour vision (after Okabe and Ito), and on light and dark ground.

/// A word's colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Colour {
    /// The word.
    pub word: &'static str,
    /// Red, green, blue.
    pub rgb: (u8, u8, u8),
    /// The nearest of the terminal's 256.
    pub ansi: u8,
}

const fn paint(word: &'static str, rgb: (u8, u8, u8), ansi: u8) -> Colour {
    Colour { word, rgb, ansi }
}

const GREEN: ((u8, u8, u8), u8) = ((0x00, 0x9e, 0x73), 36);
const BLUE: ((u8, u8, u8), u8) = ((0x2b, 0x8c, 0xd6), 32);
const GREY: ((u8, u8, u8), u8) = ((0x9a, 0xa0, 0xa6), 247);
const DARK: ((u8, u8, u8), u8) = ((0x6b, 0x70, 0x78), 242);
const ORANGE: ((u8, u8, u8), u8) = ((0xe6, 0x9f, 0x00), 178);
const RED: ((u8, u8, u8), u8) = ((0xd5, 0x5e, 0x00), 166);
const PINK: ((u8, u8, u8), u8) = ((0xcc, 0x79, 0xa7), 175);
const SKY: ((u8, u8, u8), u8) = ((0x56, 0xb4, 0xe9), 74);

/// Nodes: `busy` and `idle` are shown of nodes that are up.
pub const NODE_COLOURS: [Colour; 7] = [
    paint("busy", GREEN.0, GREEN.1),
    paint("up", GREEN.0, GREEN.1),
    paint("idle", GREY.0, GREY.1),
    paint("suspect", ORANGE.0, ORANGE.1),
    paint("lost", RED.0, RED.1),
    paint("draining", SKY.0, SKY.1),
    paint("quarantined", PINK.0, PINK.1),
];

/// Jobs.
pub const JOB_COLOURS: [Colour; 8] = [
    paint("queued", GREY.0, GREY.1),
    paint("running", BLUE.0, BLUE.1),
    paint("paused", ORANGE.0, ORANGE.1),
    paint("finished", GREEN.0, GREEN.1),
    paint("failed", RED.0, RED.1),
    paint("cancelled", DARK.0, DARK.1),
    paint("waiting", SKY.0, SKY.1),
    paint("deleted", DARK.0, DARK.1),
];

/// Classes of a job's units: the parts of its bar, in order.
pub const UNIT_COLOURS: [Colour; 5] = [
    paint("done", GREEN.0, GREEN.1),
    paint("failed", RED.0, RED.1),
    paint("out", BLUE.0, BLUE.1),
    paint("pending", GREY.0, GREY.1),
    paint("abandoned", DARK.0, DARK.1),
];

/// The colour of a word, if it has one.
pub fn colour(word: &str) -> Option<Colour> {
    NODE_COLOURS.iter().chain(&JOB_COLOURS).chain(&UNIT_COLOURS).copied().find(|colour| colour.word == word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use starfarm_protocol::job::JobState;
    use starfarm_protocol::state::NodeState;

    #[test]
    fn every_state_has_a_colour_and_a_word_has_one_only() {
        let words = NodeState::ALL.iter().map(|state| state.word());
        for word in words.chain(JobState::ALL.iter().map(|state| state.word())) {
            assert!(colour(word).is_some(), "{word}");
        }
        let all: Vec<Colour> =
            NODE_COLOURS.iter().chain(&JOB_COLOURS).chain(&UNIT_COLOURS).copied().collect();
        for one in &all {
            assert!(all.iter().all(|other| other.word != one.word || other == one), "{}", one.word);
        }
    }
}
