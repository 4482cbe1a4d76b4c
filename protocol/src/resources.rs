//! What a node has, and what a run of a job's program takes of it: one table, with a row for each resource. A node runs at
//! one time what fits into what it has. What waits for that is decided in the cores.

use crate::word::words;

words! {
    /// A row of the table.
    Resource {
        /// Slots of the worker.
        Slots = 0 => "slots",
        /// Bytes of memory. It is a claim: nothing keeps a program from taking more.
        Memory = 1 => "memory",
        /// Graphics cards and other accelerators, in parts of one: a card has [`GPU_PARTS`]. A run has whole cards to itself, or
        /// shares one.
        Gpus = 2 => "gpus",
    }
}

/// Parts of a card. Two, three, four ... ten runs share one without a rest.
pub const GPU_PARTS: u64 = 2_520;
/// Most cards of a worker.
pub const GPUS_MAX: u64 = 64;
/// Most runs that share a card.
const SHARERS_MAX: f64 = 100.0;

/// Most bytes of memory that a run may take, 1 PiB: a number beyond that is a slip.
pub const MEMORY_MAX: u64 = 1 << 50;

/// An amount of each resource, in its smallest part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Resources([u64; Resource::ALL.len()]);

impl Resources {
    /// Nothing.
    pub const NONE: Self = Self([0; Resource::ALL.len()]);
    /// One slot: what a run takes whose job does not say.
    pub const ONE_SLOT: Self = Self::NONE.with(Resource::Slots, 1);

    /// So many slots and bytes of memory.
    pub const fn new(slots: u16, memory_bytes: u64) -> Self {
        Self::NONE.with(Resource::Slots, slots as u64).with(Resource::Memory, memory_bytes)
    }

    /// The same with so much of one.
    #[must_use]
    pub const fn with(mut self, resource: Resource, amount: u64) -> Self {
        self.0[resource as usize] = amount;
        self
    }

    /// How much of one.
    pub const fn of(self, resource: Resource) -> u64 {
        self.0[resource as usize]
    }

    /// Those of which there is some.
    pub fn amounts(self) -> impl Iterator<Item = (Resource, u64)> {
        Resource::ALL.iter().map(move |&resource| (resource, self.of(resource))).filter(|of| of.1 > 0)
    }

    /// The first one of which `needs` takes more than there is; none where it fits.
    pub fn lacks(self, needs: Self) -> Option<Resource> {
        needs.amounts().map(|(resource, _)| resource).find(|&of| self.of(of) < needs.of(of))
    }

    /// `needs` fits.
    pub fn fits(self, needs: Self) -> bool {
        self.lacks(needs).is_none()
    }

    /// How often `needs` fits at one time; `u64::MAX` where it takes nothing.
    pub fn times(self, needs: Self) -> u64 {
        needs.amounts().map(|(resource, amount)| self.of(resource) / amount).min().unwrap_or(u64::MAX)
    }

    /// So many times as much.
    #[must_use]
    pub fn scaled(self, times: u64) -> Self {
        Self(self.0.map(|amount| amount.saturating_mul(times)))
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(std::array::from_fn(|row| self.0[row].saturating_add(other.0[row])))
    }

    /// What is left without `other`; none where that does not fit.
    pub fn minus(self, other: Self) -> Option<Self> {
        self.fits(other).then(|| Self(std::array::from_fn(|row| self.0[row] - other.0[row])))
    }
}

/// So many cards, in parts of one: a whole number up to [`GPUS_MAX`], or a share of one card, which is rounded up to one of
/// which a card has a whole number: 0.4 is a half, 0.09 a tenth.
///
/// # Errors
/// It is neither; the sentence says what is.
pub fn gpus(cards: f64) -> Result<u64, String> {
    if cards == 0.0 || cards >= 1.0 && cards <= GPUS_MAX as f64 && cards.fract() == 0.0 {
        return Ok(cards as u64 * GPU_PARTS);
    }
    let sharers = (1.0 / cards + 1e-9).floor();
    if cards < 1.0 && (1.0..=SHARERS_MAX).contains(&sharers) {
        let fills = |sharers: &u64| GPU_PARTS.is_multiple_of(*sharers);
        return Ok(GPU_PARTS / (1..=sharers as u64).rev().find(fills).expect("one fills a card"));
    }
    Err(format!(
        "write a whole number of cards up to {GPUS_MAX}, or a share of one such as 0.5, down to 0.01"
    ))
}

/// How many cards so many parts are, to two digits.
pub fn cards(parts: u64) -> f64 {
    (parts as f64 * 100.0 / GPU_PARTS as f64).round() / 100.0
}

/// A size as a person writes it: `500M`, `20G`, `1.5TiB`, `1000000`, `20GB`.
///
/// # Errors
/// It is none; the sentence says how one is written.
pub fn size(text: &str) -> Result<u64, String> {
    const UNITS: [&str; 5] = ["", "k", "m", "g", "t"];
    let lower = text.to_ascii_lowercase();
    let at = lower.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(at);
    let (unit, base) = match unit.strip_suffix("ib").map(|unit| (unit, 1_024.0)) {
        Some(of_1024) => of_1024,
        None if unit == "b" => ("", 1.0),
        None => unit.strip_suffix('b').map_or((unit, 1_024.0), |unit| (unit, 1_000.0)),
    };
    let power = UNITS.iter().position(|known| *known == unit);
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: Option<f64> = number.parse().ok().filter(|_| is_plain);
    let bytes = power.zip(number).map(|(power, number)| number * f64::powi(base, power as i32));
    bytes.filter(|bytes| *bytes < 9e18).map(|bytes| bytes as u64).ok_or_else(|| {
        "write a size as 20G, 500M or 1.5T (powers of 1024), 20GB (powers of 1000) or in bytes".to_owned()
    })
}

/// The memory that a run claims, likewise, up to [`MEMORY_MAX`].
///
/// # Errors
/// As with [`size`], or it is more.
pub fn memory(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if bytes > MEMORY_MAX {
        return Err("at most 1024T".to_owned());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_less_than_there_is_of_every_resource() {
        let has = Resources::new(4, 8 << 30);
        assert!(has.fits(Resources::ONE_SLOT) && has.fits(has) && has.fits(Resources::NONE));
        assert_eq!(has.lacks(Resources::new(5, 9 << 30)), Some(Resource::Slots));
        assert_eq!(has.lacks(Resources::new(4, (8 << 30) + 1)), Some(Resource::Memory));
        assert_eq!(has.minus(Resources::new(5, 0)), None);
        assert_eq!(has.minus(Resources::new(1, 2 << 30)), Some(Resources::new(3, 6 << 30)));
    }

    #[test]
    fn the_scarcest_resource_says_how_often_a_run_fits() {
        let has = Resources::new(6, 8 << 30);
        assert_eq!(has.times(Resources::ONE_SLOT), 6);
        assert_eq!(has.times(Resources::new(4, 0)), 1);
        assert!(has.fits(Resources::new(1, 3 << 30).scaled(2)));
        assert_eq!(has.times(Resources::new(1, 3 << 30)), 2);
        assert_eq!(has.times(Resources::new(7, 0)), 0);
        assert_eq!(has.times(Resources::NONE), u64::MAX);
    }

    #[test]
    fn cards_are_whole_or_shared() {
        for (cards, parts) in [
            (0.0, 0),
            (1.0, 2_520),
            (8.0, 20_160),
            (0.5, 1_260),
            (0.4, 1_260),
            (0.33, 840),
            (0.6, 2_520),
            (0.09, 252),
            (0.01, 28),
        ] {
            assert_eq!(gpus(cards), Ok(parts), "{cards}");
            // As many as share a card share two likewise.
            assert!(
                parts == 0 || parts >= GPU_PARTS || 2 * GPU_PARTS / parts == 2 * (GPU_PARTS / parts),
                "{cards}"
            );
        }
        for cards in [1.5, 65.0, -1.0, 0.001, f64::NAN, f64::INFINITY] {
            assert!(gpus(cards).is_err_and(|why| why.contains("0.5")), "{cards}");
        }
    }

    #[test]
    fn sizes_in_each_way() {
        for (text, bytes) in [
            ("0", 0),
            ("1000", 1_000),
            ("10b", 10),
            ("4k", 4_096),
            ("500M", 500 << 20),
            ("20G", 20 << 30),
            ("1.5TiB", 3 << 39),
            ("20GB", 20_000_000_000),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "G", "-1G", "1e9", "20X", "20 G", "1.2.3G", "99999999T", "nan", "ib"] {
            assert!(size(text).is_err_and(|why| why.contains("20G")), "{text}");
        }
        assert_eq!((memory("1024T"), memory("1025T")), (Ok(MEMORY_MAX), Err("at most 1024T".to_owned())));
    }
}
