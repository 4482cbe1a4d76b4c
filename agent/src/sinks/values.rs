//! What a message says, as names and numbers that others read.

use starfarm_agent_core::named::Named;
use starfarm_agent_core::{Summary, Triple, Triples, ids};

/// Bytes of a value of another kind that are shown.
const SHOWN_BYTES: usize = 32;

/// Of what values are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Whose {
    pub(super) job: Option<u64>,
    /// When they were measured, by the farm's clock.
    pub(super) at_us: Option<u64>,
}

/// A figure with a name.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) whose: Whose,
    /// Which one of several of that name, from 0.
    pub(super) element: Option<usize>,
    /// `value` alone, or `count`, `sum`, `min` and `max`. The numbers as they are written.
    pub(super) fields: Vec<(&'static str, String)>,
}

fn name_of(triple: &Triple<'_>) -> String {
    ids::name(triple.id).map_or_else(|| triple.id.0.to_string(), str::to_owned)
}

/// The figures of a message, and how many of its values are none.
pub(super) fn figures(values: Triples<'_>) -> (Vec<Figure>, u64) {
    let (mut figures, mut whose, mut others) = (Vec::new(), Whose::default(), 0);
    for triple in values {
        if ids::says_whose(triple.id) {
            match triple.id {
                ids::JOB => whose.job = triple.number(),
                ids::AT => whose.at_us = triple.number(),
                _ => {}
            }
            continue;
        }
        let before = figures.len();
        read(&triple, whose, &mut figures);
        others += u64::from(figures.len() == before);
    }
    (figures, others)
}

/// Of a value that is no number, none.
fn read(triple: &Triple<'_>, whose: Whose, figures: &mut Vec<Figure>) {
    let mut put = |name: String, element, fields| figures.push(Figure { name, whose, element, fields });
    let value = |number: String| vec![("value", number)];
    let several = |count: u64, [sum, min, max]: [String; 3]| {
        vec![("count", count.to_string()), ("sum", sum), ("min", min), ("max", max)]
    };
    if matches!(triple.id, ids::SENSOR | ids::ALARM_TEXT) {
        return;
    }
    if let Some(Named { name, amount }) = Named::read(triple) {
        let fields = match amount.count {
            1 => value(amount.sum.to_string()),
            count => several(count, [amount.sum, amount.min, amount.max].map(|of| of.to_string())),
        };
        put(name.to_owned(), None, fields);
    } else if triple.id == ids::ALARM_VALUE {
        if let Some(bits) = triple.number().map(f64::from_bits).filter(|of| of.is_finite()) {
            put(name_of(triple), None, value(bits.to_string()));
        }
    } else if let Some(number) = triple.number() {
        put(name_of(triple), None, value(number.to_string()));
    } else if let Some(numbers) = triple.numbers() {
        for (element, number) in numbers.enumerate() {
            put(name_of(triple), Some(element), value(number.to_string()));
        }
    } else if let Some(each) = Summary::read_each(triple.value) {
        let is_one = each.len() == 1;
        for (element, of) in each.into_iter().enumerate() {
            let fields = several(of.count, [of.sum, of.min, of.max].map(|of| of.to_string()));
            put(name_of(triple), (!is_one).then_some(element), fields);
        }
    }
}

/// All values of a message, `name value` each: those that are no figures as text, or as digits of their bytes.
pub(super) fn shown(values: Triples<'_>) -> impl Iterator<Item = String> {
    values.into_iter().map(|triple| {
        let (mut figures, name) = (Vec::new(), name_of(&triple));
        read(&triple, Whose::default(), &mut figures);
        let text = std::str::from_utf8(triple.value);
        match (figures.as_slice(), text) {
            ([], Ok(text)) => format!("{name} {text}"),
            ([], Err(_)) => {
                let bytes = &triple.value[..triple.value.len().min(SHOWN_BYTES)];
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("{name} 0x{digits}")
            }
            (figures, _) => {
                let value = |of: &Figure| match of.fields.as_slice() {
                    [(_, value)] => value.clone(),
                    fields => {
                        fields.iter().map(|(field, of)| format!("{field}={of}")).collect::<Vec<_>>().join("/")
                    }
                };
                let all: Vec<_> = figures.iter().map(value).collect();
                format!("{} {}", figures[0].name, all.join(","))
            }
        }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use starfarm_agent_core::ValueId;

    use super::*;

    fn message(values: &[(ValueId, Vec<u8>)]) -> Vec<u8> {
        Triples::written(values.iter().map(|(id, value)| Triple { id: *id, value }))
    }

    fn number(number: u64) -> Vec<u8> {
        number.to_le_bytes().to_vec()
    }

    #[test]
    fn numbers_of_all_kinds_are_figures_and_are_shown() {
        let named = [b"\x03a.b".as_slice(), &2.5_f64.to_le_bytes()].concat();
        let amount = [b"\x03a.c".as_slice(), &3_u64.to_le_bytes()].concat();
        let amount = [amount, [6.5, -1.0, 4.0_f64].map(f64::to_le_bytes).concat()].concat();
        let summary = [&[1][..], &[2_u64, 30, 10, 20].map(u64::to_le_bytes).concat()].concat();
        let bytes = message(&[
            (ValueId(1), number(5)),
            (ids::AT, number(77)),
            (ids::JOB, number(9)),
            (ids::POST, number(1)),
            (ids::CPU_TIMES, [number(1), number(2)].concat()),
            (ValueId(2), summary),
            (starfarm_agent_core::named::id("a.b"), named),
            (starfarm_agent_core::named::id("a.c"), amount),
            (ValueId(70_000), vec![0xFF, 1]),
            (ids::ALARM_TEXT, b"full...!".to_vec()),
            (ids::ALARM_VALUE, 0.5_f64.to_bits().to_le_bytes().to_vec()),
        ]);
        let triples = Triples::read(&bytes).unwrap();
        let (all, others) = figures(triples);
        assert_eq!(others, 2);
        let lines: Vec<_> = all
            .iter()
            .map(|of| {
                let fields: Vec<_> =
                    of.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let Whose { job, at_us } = of.whose;
                format!("{} {job:?} {at_us:?} {:?} {}", of.name, of.element, fields.join(","))
            })
            .collect();
        assert_eq!(
            lines,
            [
                "cpu None None None value=5",
                "cpu-times Some(9) Some(77) Some(0) value=1",
                "cpu-times Some(9) Some(77) Some(1) value=2",
                "memory Some(9) Some(77) None count=2,sum=30,min=10,max=20",
                "a.b Some(9) Some(77) None value=2.5",
                "a.c Some(9) Some(77) None count=3,sum=6.5,min=-1,max=4",
                "alarm-value Some(9) Some(77) None value=0.5",
            ]
        );
        assert_eq!(
            shown(triples).collect::<Vec<_>>().join("; "),
            "cpu 5; at 77; job 9; post 1; cpu-times 1,2; memory count=2/sum=30/min=10/max=20; a.b 2.5; \
             a.c count=3/sum=6.5/min=-1/max=4; 70000 0xff01; alarm-text full...!; alarm-value 0.5"
        );
    }
}
