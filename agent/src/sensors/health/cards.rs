//! Cards that are too hot or at fault, as the worker's file `cards.json` has it. Of AMD's, temperatures are among those of all
//! parts of the machine.

use std::path::PathBuf;

use starfarm_protocol::gauges::{Gauge, Gauges};
use starfarm_protocol::link::AlarmLevel;

use super::errors::Errors;
use super::found::{Found, Look};
use crate::sensors::accelerators;

/// It is over when it is so much cooler, in kelvin.
const COOLER: i64 = 3;

/// The file, once somebody has said where it is.
#[derive(Clone, Default)]
pub(super) struct Cards(Option<PathBuf>);

impl Cards {
    pub(super) fn of(file: PathBuf) -> Self {
        Self(Some(file))
    }

    fn read(&self) -> Option<Gauges> {
        accelerators::read(self.0.as_ref()?).filter(|gauges| !gauges.cards.is_empty())
    }
}

/// How a card is called.
fn name((number, gauge): (usize, &Gauge)) -> String {
    format!("card {number} ({})", gauge.figures.model)
}

/// A card slows down of heat, or is about to stop.
#[derive(Default)]
pub(super) struct CardTemperature(pub(super) Cards);

impl Look for CardTemperature {
    fn sensor(&self) -> &'static str {
        "card-temperature"
    }

    fn look(&mut self, was: Option<AlarmLevel>, _: u64) -> Option<Found> {
        let gauges = self.0.read()?;
        let found = |(number, gauge): (usize, &Gauge)| {
            let now = i64::from(gauge.figures.temperature_c?);
            let is_at = |limit: Option<u32>, level| {
                let limit = limit.map(i64::from).filter(|limit| *limit > 0);
                limit.is_some_and(|limit| now >= if was >= Some(level) { limit - COOLER } else { limit })
            };
            let level = if is_at(gauge.stop_c, AlarmLevel::Critical) {
                AlarmLevel::Critical
            } else if is_at(gauge.slow_c, AlarmLevel::Warning) {
                AlarmLevel::Warning
            } else {
                return Some(Found::well());
            };
            let text = format!("{} is at {now} degrees Celsius", name((number, gauge)));
            Some(Found::bad(level, now as f64, text))
        };
        let all = gauges.cards.iter().enumerate().filter_map(found);
        all.reduce(|worst, found| if found.level > worst.level { found } else { worst })
    }
}

/// The memory of a card has errors, or its driver tells of a fault.
#[derive(Default)]
pub(super) struct CardErrors {
    pub(super) cards: Cards,
    errors: Errors,
}

impl CardErrors {
    pub(super) fn of(cards: Cards) -> Self {
        Self { cards, errors: Errors::default() }
    }
}

impl Look for CardErrors {
    fn sensor(&self) -> &'static str {
        "card-errors"
    }

    fn look(&mut self, _: Option<AlarmLevel>, now_us: u64) -> Option<Found> {
        let gauges = self.cards.read()?;
        let sum = |value: fn(&Gauge) -> Option<u64>| {
            gauges.cards.iter().filter_map(value).reduce(u64::saturating_add)
        };
        let counted = [sum(|gauge| gauge.corrected), sum(|gauge| gauge.uncorrected)];
        if counted == [None; 2] {
            return None;
        }
        let of = gauges.cards.iter().enumerate().find(|(_, gauge)| gauge.uncorrected > Some(0));
        let of = of.map_or_else(|| "the cards".to_owned(), name);
        let text =
            |count: u64, kind: &str| format!("{count} errors of {of}, {kind}, since its driver was loaded");
        self.errors.look(counted.map(Option::unwrap_or_default), now_us, text)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;

    struct File(PathBuf);

    impl File {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("starfarm-{name}-{}.json", std::process::id())))
        }

        fn says(&self, cards: &[Gauge]) {
            let gauges = Gauges { cards: cards.to_vec(), ..Gauges::default() };
            std::fs::write(&self.0, serde_json::to_vec(&gauges).unwrap()).unwrap();
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn at(temperature_c: i32) -> Gauge {
        let mut gauge = Gauge { slow_c: Some(90), stop_c: Some(95), ..Gauge::default() };
        (gauge.figures.temperature_c, gauge.figures.model) = (Some(temperature_c), "H100".to_owned());
        gauge
    }

    #[test]
    fn a_hot_card_is_bad_until_it_is_clearly_cooler() {
        use AlarmLevel::{Critical, Warning};
        let file = File::new("hot");
        let mut look = CardTemperature(Cards::of(file.0.clone()));
        assert_eq!(look.look(None, 0), None, "there is no file");
        file.says(&[]);
        assert_eq!(look.look(None, 0), None, "nor a card");
        file.says(&[Gauge::default()]);
        assert_eq!(look.look(None, 0), None, "nor one that tells");
        let mut level = None;
        for (celsius, wanted) in
            [(70, None), (90, Some(Warning)), (88, Some(Warning)), (96, Some(Critical)), (93, Some(Critical))]
                .into_iter()
                .chain([(91, Some(Warning)), (86, None)])
        {
            file.says(&[at(20), at(celsius)]);
            let found = look.look(level, 0).unwrap();
            assert_eq!(found.level, wanted, "at {celsius}");
            level = found.level;
            let text = format!("card 1 (H100) is at {celsius} degrees Celsius");
            assert_eq!(found.text, if wanted.is_some() { text.as_str() } else { "" });
        }
    }

    #[test]
    fn errors_of_cards_are_bad_for_a_while() {
        use AlarmLevel::{Critical, Warning};
        let file = File::new("errors");
        let mut look = CardErrors::of(Cards::of(file.0.clone()));
        let mut level = |corrected, uncorrected, seconds| {
            file.says(&[Gauge { corrected, uncorrected, ..at(20) }]);
            look.look(None, seconds * SECOND_US).map(|found| (found.level, found.text))
        };
        assert_eq!(level(None, None, 0), None, "its driver tells nothing");
        assert_eq!(level(Some(5), None, 1), None, "what was before nobody knows");
        assert_eq!(level(Some(5), None, 2).unwrap().0, None);
        assert_eq!(level(Some(6), None, 3).unwrap().0, Some(Warning));
        let (bad, text) = level(Some(6), Some(2), 4).unwrap();
        assert_eq!(bad, Some(Critical));
        assert!(text.starts_with("2 errors of card 0 (H100), not corrected"), "{text}");
        assert_eq!(level(Some(6), Some(2), 620).unwrap().0, None);
    }
}
