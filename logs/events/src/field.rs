//! Named fields: the one form in which values of the model are written and read.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};
use starfarm_protocol::admin::{AlarmChange, KeyKind, PostLoss, UsageSpan};
use starfarm_protocol::devices::DeviceKind;
use starfarm_protocol::ids::{Boot, ContentHash, JobId};
use starfarm_protocol::job::JobState;
use starfarm_protocol::link::AlarmLevel;
use starfarm_protocol::orders::PostKind;
use starfarm_protocol::reason::Distrust;
use starfarm_protocol::seal::Role;
use starfarm_protocol::state::{Completion, IdleReason, NodeState, Outcome};
use starfarm_protocol::units::Units;
use starfarm_protocol::wire::FailReason;

/// Text of a field has at most so many bytes: what is longer is cut when it is written, and makes no sense when it
/// is read. Names are 64 bytes at most anyway.
pub const TEXT_BYTES_MAX: usize = 512;

/// A node's name, shared by all that tells of the node.
pub type Name = Arc<str>;

/// A field's value. Numbers that may pass 2^53 are [`Value::Units`]: decimal text wherever JSON is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value<'a> {
    /// A count, a time in microseconds, an id.
    Number(u64),
    /// Units.
    Units(u128),
    /// A measured value; finite.
    Real(f64),
    /// Text of any kind, control characters included.
    Text(&'a str),
    /// The name of a node.
    Node(&'a Name),
    /// The number of a job.
    Job(JobId),
    /// Small numbers, parted by blanks where text is.
    Numbers(&'a [u64]),
    /// 64 bits as 16 hexadecimal digits.
    Hex(u64),
    /// A hash, as hexadecimal digits.
    Hash(&'a [u8]),
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Units(units) => write!(f, "{units}"),
            Value::Real(real) => write!(f, "{real}"),
            Value::Text(text) => f.write_str(text),
            Value::Node(name) => f.write_str(name),
            Value::Job(id) => write!(f, "{}", id.0),
            Value::Numbers(numbers) => {
                for (at, number) in numbers.iter().enumerate() {
                    write!(f, "{}{number}", if at == 0 { "" } else { " " })?;
                }
                Ok(())
            }
            Value::Hex(bits) => write!(f, "{bits:016x}"),
            Value::Hash(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

/// As JSON has it: what may pass 2^53 is decimal text.
impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Number(number) => serializer.serialize_u64(*number),
            Value::Real(real) => serializer.serialize_f64(*real),
            Value::Numbers(numbers) => numbers.serialize(serializer),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Node(name) => serializer.serialize_str(name),
            Value::Job(id) => serializer.serialize_u64(id.0),
            Value::Units(_) | Value::Hex(_) | Value::Hash(_) => serializer.collect_str(self),
        }
    }
}

/// A type that a field may have.
pub trait Field: Sized {
    /// The value; none where it is absent.
    fn value(&self) -> Option<Value<'_>>;
    /// From its text, or from its absence.
    fn read(text: Option<&str>) -> Option<Self>;
}

/// Where a reader looks up a field's text by its name.
pub trait Fields {
    /// The text of a field; none where it is absent.
    fn text(&self, name: &str) -> Option<&str>;
}

impl<K: AsRef<str>, V: AsRef<str>> Fields for [(K, V)] {
    fn text(&self, name: &str) -> Option<&str> {
        self.iter().find(|(key, _)| key.as_ref() == name).map(|(_, value)| value.as_ref())
    }
}

/// A value that has a kind and fields.
pub trait Form {
    /// The word for its kind: an XML element's name, a JSON object's `event`.
    fn kind(&self) -> &'static str;
    /// Shows each field that is there, in order.
    fn each<'a>(&'a self, show: &mut dyn FnMut(&'static str, Value<'a>));
}

/// Its fields, as an object of JSON.
impl Serialize for dyn Form + '_ {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (mut map, mut outcome) = (serializer.serialize_map(None)?, Ok(()));
        self.each(&mut |name, value| {
            if outcome.is_ok() {
                outcome = map.serialize_entry(name, &value);
            }
        });
        outcome.and_then(|()| map.end())
    }
}

/// Why a value cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants say what their fields are")]
pub enum FormError {
    /// No such kind.
    #[error("`{}` is nothing that this version knows", shown(.0))]
    Kind(String),
    /// A field of a kind is absent.
    #[error("`{kind}` lacks `{field}`")]
    Absent { kind: &'static str, field: &'static str },
    /// The text of a field makes no sense.
    #[error("`{field}` of `{kind}` cannot be `{}`", shown(text))]
    Field { kind: &'static str, field: &'static str, text: String },
}

/// Foreign text in a message: short, one line.
pub fn shown(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}

/// Reads one field of `kind`.
pub(crate) fn read<T: Field>(
    fields: &(impl Fields + ?Sized),
    kind: &'static str,
    field: &'static str,
) -> Result<T, FormError> {
    let text = fields.text(field);
    T::read(text).ok_or_else(|| match text {
        None => FormError::Absent { kind, field },
        Some(text) => FormError::Field { kind, field, text: text.to_owned() },
    })
}

/// The value, where it is not its type's default.
pub(crate) fn unless_default<T: Field + Default + PartialEq>(field: &T) -> Option<Value<'_>> {
    if *field == T::default() { None } else { field.value() }
}

/// Of digits alone, as the schema has it: Rust would take a plus as well.
fn digits<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

macro_rules! numbers {
    ($($type:ty => $value:ident)*) => {$(
        impl Field for $type {
            fn value(&self) -> Option<Value<'_>> {
                Some(Value::$value((*self).into()))
            }
            fn read(text: Option<&str>) -> Option<Self> {
                digits(text?)
            }
        }
    )*};
}
numbers!(u8 => Number u16 => Number u32 => Number u64 => Number u128 => Units);

impl Field for Units {
    fn value(&self) -> Option<Value<'_>> {
        self.0.value()
    }
    fn read(text: Option<&str>) -> Option<Self> {
        Field::read(text).map(Units)
    }
}

impl Field for f64 {
    fn value(&self) -> Option<Value<'_>> {
        Some(Value::Real(if self.is_finite() { *self } else { 0.0 }))
    }
    fn read(text: Option<&str>) -> Option<Self> {
        // As the schema has it: no exponent, digits on both sides of a point.
        let text = text?;
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (whole, part) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
        let is_plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let real: f64 = (is_plain(whole) && is_plain(part)).then(|| text.parse().ok())??;
        real.is_finite().then_some(real)
    }
}

/// Text that is not too long: what keeps it needs no more memory than for a log of ours.
fn within(text: Option<&str>) -> Option<&str> {
    text.filter(|text| text.len() <= TEXT_BYTES_MAX)
}

impl Field for String {
    fn value(&self) -> Option<Value<'_>> {
        Some(Value::Text(self))
    }
    fn read(text: Option<&str>) -> Option<Self> {
        within(text).map(str::to_owned)
    }
}

impl Field for Name {
    fn value(&self) -> Option<Value<'_>> {
        Some(Value::Node(self))
    }
    fn read(text: Option<&str>) -> Option<Self> {
        within(text).map(Arc::from)
    }
}

macro_rules! of_words {
    ($($type:ty)*) => {$(
        impl Field for $type {
            fn value(&self) -> Option<Value<'_>> {
                Some(Value::Text(self.word()))
            }
            fn read(text: Option<&str>) -> Option<Self> {
                Self::from_word(text?)
            }
        }
    )*};
}
of_words!(DeviceKind NodeState IdleReason Outcome JobState FailReason Role KeyKind Completion Distrust PostKind PostLoss
    UsageSpan AlarmChange AlarmLevel);

impl Field for Vec<u64> {
    fn value(&self) -> Option<Value<'_>> {
        (!self.is_empty()).then_some(Value::Numbers(self))
    }
    fn read(text: Option<&str>) -> Option<Self> {
        text.unwrap_or_default().split_ascii_whitespace().map(digits).collect()
    }
}

impl Field for JobId {
    fn value(&self) -> Option<Value<'_>> {
        Some(Value::Job(*self))
    }
    fn read(text: Option<&str>) -> Option<Self> {
        digits(text?).map(JobId)
    }
}

impl Field for Boot {
    fn value(&self) -> Option<Value<'_>> {
        Some(Value::Hex(self.0))
    }
    fn read(text: Option<&str>) -> Option<Self> {
        let is_ours = |text: &&str| text.len() == 16 && !text.starts_with('+');
        u64::from_str_radix(text.filter(is_ours)?, 16).ok().map(Boot)
    }
}

impl Field for ContentHash {
    fn value(&self) -> Option<Value<'_>> {
        Some(Value::Hash(&self.0))
    }
    fn read(text: Option<&str>) -> Option<Self> {
        text?.parse().ok()
    }
}

impl<T: Field> Field for Option<T> {
    fn value(&self) -> Option<Value<'_>> {
        self.as_ref().and_then(Field::value)
    }
    fn read(text: Option<&str>) -> Option<Self> {
        match text {
            None => Some(None),
            some => T::read(some).map(Some),
        }
    }
}

/// A value of one kind alone.
pub trait Entry: Form + Sized {
    /// The word for its kind.
    const KIND: &'static str;
    /// Names of its fields.
    const FIELDS: &'static [&'static str];

    /// From its fields.
    ///
    /// # Errors
    /// A field is absent or makes no sense.
    fn read(fields: &(impl Fields + ?Sized)) -> Result<Self, FormError>;
}

/// Declares a struct whose fields have a form.
macro_rules! form {
    ($(#[$doc:meta])* $type:ident = $kind:literal { $($(#[$fdoc:meta])* $field:ident: $of:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Default)]
        #[allow(missing_docs, reason = "most fields are what their names say")]
        pub struct $type { $($(#[$fdoc])* pub $field: $of,)* }

        $crate::field::impl_form! { $type = $kind { $($field = $field,)* } }
    };
}
pub(crate) use form;

/// Gives a struct a form: the name of each field there, and where it lies. One that is absent where it is `none` has its
/// type's default then.
macro_rules! impl_form {
    ($type:ident = $kind:literal { $($field:ident = $($at:ident).+ $(or $none:tt)?,)* }) => {
        impl $crate::field::Entry for $type {
            const KIND: &'static str = $kind;
            const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];

            fn read(fields: &(impl $crate::field::Fields + ?Sized)) -> Result<Self, $crate::field::FormError> {
                let mut value = Self::default();
                $(value.$($at).+ = $crate::field::impl_form!(@read fields, $kind, stringify!($field) $(, $none)?);)*
                Ok(value)
            }
        }

        impl $crate::field::Form for $type {
            fn kind(&self) -> &'static str { $kind }
            fn each<'a>(&'a self, show: &mut dyn FnMut(&'static str, $crate::field::Value<'a>)) {
                $(if let Some(value) = $crate::field::impl_form!(@value &self.$($at).+ $(, $none)?) {
                    show(stringify!($field), value);
                })*
            }
        }
    };
    (@read $fields:ident, $kind:literal, $name:expr) => { $crate::field::read($fields, $kind, $name)? };
    (@read $fields:ident, $kind:literal, $name:expr, none) => {
        $crate::field::read::<Option<_>>($fields, $kind, $name)?.unwrap_or_default()
    };
    (@value $value:expr) => { $crate::field::Field::value($value) };
    (@value $value:expr, none) => { $crate::field::unless_default($value) };
}
pub(crate) use impl_form;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_the_schema_has_them() {
        for text in ["0", "-1.5", "12.25", "0.000001"] {
            assert!(f64::read(Some(text)).is_some(), "{text}");
        }
        for text in ["", "1e308", "+1", ".5", "1.", "-", "--1", "1.-5", "NaN", "inf"] {
            assert_eq!(f64::read(Some(text)), None, "{text}");
        }
        assert_eq!((u64::read(Some("2")), u64::read(Some("+2")), u64::read(Some(""))), (Some(2), None, None));
        assert_eq!(
            (u128::read(Some("+2")), JobId::read(Some("+2")), u16::read(Some("65536"))),
            (None, None, None)
        );
        assert_eq!(Vec::<u64>::read(Some("1 +2")), None);
        assert_eq!(Boot::read(Some("+00000000000000f")), None);
    }
}
