//! Counters of things that come and go, such as network interfaces and disks: by how much all of them have grown in a second.
//! Where the numbers stand is decided elsewhere.

use starfarm_agent_core::running::a_second;

/// A counter of 32 bits that has begun anew at 0 was in the uppermost quarter of its range before.
const QUARTER: u64 = 1 << 30;

/// Two counters of each thing, as they were when they were seen last.
#[derive(Default)]
pub(super) struct Counters {
    seen_us: Option<u64>,
    known: Vec<Known>,
}

struct Known {
    name: Vec<u8>,
    counts: [u64; 2],
    is_there: bool,
}

impl Counters {
    /// Takes all things that are there now, at this time of the farm's clock: by how much both counters of all have grown, in a
    /// second. A thing counts if it was there last time. None where there was none of that kind, or no time has passed.
    pub(super) fn take<'a>(
        &mut self,
        all: impl Iterator<Item = (&'a [u8], [u64; 2])>,
        now_us: u64,
    ) -> Option<[u64; 2]> {
        let past_us = self.seen_us.replace(now_us).map(|then_us| now_us.saturating_sub(then_us));
        let mut sums = None;
        for (nth, (name, counts)) in all.enumerate() {
            let Some(known) = self.find(nth, name) else {
                self.known.push(Known { name: name.to_owned(), counts, is_there: true });
                continue;
            };
            let [a, b] = sums.unwrap_or([0_u64; 2]);
            let [by_a, by_b] = [0, 1].map(|n| grown(known.counts[n], counts[n]));
            sums = Some([a.saturating_add(by_a), b.saturating_add(by_b)]);
            (known.counts, known.is_there) = (counts, true);
        }
        self.known.retain_mut(|known| std::mem::take(&mut known.is_there));
        let past_us = past_us.filter(|us| *us > 0)?;
        sums.map(|sums| sums.map(|sum| a_second(sum, past_us)))
    }

    /// The thing of that name. The order seldom changes.
    fn find(&mut self, nth: usize, name: &[u8]) -> Option<&mut Known> {
        let is_it = |known: &Known| known.name == name;
        let at = match self.known.get(nth) {
            Some(known) if is_it(known) => nth,
            _ => self.known.iter().position(is_it)?,
        };
        self.known.get_mut(at)
    }
}

/// By how much a counter has grown. One that was reset has grown by nobody knows how much: by nothing.
fn grown(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or_else(|| {
        let wrapped = now.saturating_add(1 << 32).saturating_sub(before);
        if before < 1 << 32 && wrapped < QUARTER { wrapped } else { 0 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn take(counters: &mut Counters, all: &[(&str, u64)], second: u64) -> Option<u64> {
        let all = all.iter().map(|(name, count)| (name.as_bytes(), [*count, 0]));
        counters.take(all, second * SECOND).map(|[first, _]| first)
    }

    #[test]
    fn things_come_and_go_and_change_places() {
        let mut counters = Counters::default();
        assert_eq!(take(&mut counters, &[("a", 100), ("b", 7_000)], 1), None);
        assert_eq!(take(&mut counters, &[("b", 7_010), ("a", 110)], 2), Some(20));
        assert_eq!(take(&mut counters, &[("new", 999_999), ("a", 130)], 4), Some(10));
        // One that was away has done nobody knows what meanwhile.
        assert_eq!(take(&mut counters, &[("new", 999_999), ("b", 8_000)], 5), Some(0));
        assert_eq!(take(&mut counters, &[], 6), None);
        assert_eq!(take(&mut counters, &[("a", 1)], 7), None);
    }

    #[test]
    fn no_time_makes_no_rate() {
        let mut counters = Counters::default();
        take(&mut counters, &[("a", 100)], 5);
        assert_eq!(take(&mut counters, &[("a", 200)], 5), None);
        assert_eq!(take(&mut counters, &[("a", 300)], 3), None);
        assert_eq!(take(&mut counters, &[("a", 400)], 4), Some(100));
    }

    #[test]
    fn a_counter_wraps_at_32_bits_and_a_reset_is_no_growth() {
        let limit = 1_u64 << 32;
        assert_eq!(grown(limit - 5, 3), 8);
        assert_eq!(grown(limit - 5, limit + 3), 8, "one of 64 bits goes on");
        assert_eq!(grown(3_000_000_000, 1_000), 0);
        assert_eq!((grown(limit + 5, 3), grown(2 * limit, limit + 5)), (0, 0));
        assert_eq!(grown(u64::MAX, 3), 0);
        assert_eq!(grown(7, 7), 0);
    }
}
