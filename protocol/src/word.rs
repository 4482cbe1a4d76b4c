//! Words for what has a few states: said once, the same in JSON, XML, tables, pictures and docs.

/// Declares an enum of unit variants, each with its word, and with its number where one is on the wire.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$vdoc:meta])* $variant:ident $(= $number:literal)? => $word:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant $(= $number)?,)* }

        impl $name {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The one of that number; none where this version does not know it.
            pub fn from_number(number: u8) -> Option<Self> {
                Self::ALL.iter().copied().find(|of| *of as u8 == number)
            }

            /// What that word stands for; none where this version does not know it.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.word())
            }
        }
    };
}
pub(crate) use words;

#[cfg(test)]
mod tests {
    use crate::job::JobState;

    #[test]
    fn a_word_is_the_same_in_json_and_in_text() {
        for &state in JobState::ALL {
            let json = serde_json::to_string(&state).unwrap();
            assert_eq!(json, format!("\"{state}\""));
            assert_eq!(serde_json::from_str::<JobState>(&json).unwrap(), state);
        }
        let unknown = serde_json::from_str::<JobState>("\"lame\"").unwrap_err().to_string();
        assert!(unknown.contains("unknown variant `lame`, expected one of `queued`"), "{unknown}");
    }
}
