//! Fuzzy comprehensive evaluation: how good each host is for a CP, as grades that a person can read, and CPs in
//! proportion to that. The source's copy breaks off behind the matrix of memberships; the breakpoints, weights and
//! operators are ours.
//!
//! Each factor of a host (cores, idle share, memory, link, accelerators) is a member of four grades to some degree. A
//! factor up to its first breakpoint is wholly poor, at the second wholly fair, at the third wholly good, and wholly
//! excellent from the fourth on; between two breakpoints one grade falls as the next rises, linearly. All is in
//! thousandths, rounded down.

use std::cmp::Reverse;

use super::average;

/// A whole: memberships of a factor sum to it.
pub const WHOLE: u64 = 1_000;
/// Number of grades.
const GRADES: usize = 4;
/// Number of factors.
const FACTORS: usize = 5;

/// Where cores, idle share, memory, link and accelerators change grade, in thousandths.
const BREAKPOINTS: [[u64; GRADES]; FACTORS] = [
    [500, 1_000, 2_000, 4_000],
    [100, 300, 600, 900],
    [250, 1_000, 4_000, 16_000],
    [100, 1_000, 10_000, 25_000],
    [100, 300, 600, 900],
];
/// A host that is wholly poor in one of the first so many factors is poor: cores, idle share, memory.
const NEEDED: usize = 3;

/// What a host has to offer, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// Cores that compute nothing, in thousandths of a core.
    pub free_cores: u64,
    /// Share of CPU time that is idle, in thousandths.
    pub idle: u64,
    /// Memory that is free, in thousandths of a GiB.
    pub free_memory: u64,
    /// Speed of the link, in Mbit/s.
    pub link: u64,
    /// Share of the accelerators' time that is idle, in thousandths; none where the host has none.
    pub accelerators_idle: Option<u64>,
}

/// Nobody knows how fast a machine's link is: as fast as most are, in Mbit/s.
const LINK: u64 = 1_000;

impl Features {
    /// What a machine with so many cores and bytes of memory has to offer, of which so many millionths of cores and bytes are
    /// in use. How fast its link is, and what its accelerators do, is not known.
    pub fn of_machine((cores, bytes): (u32, u64), (used_millionths, used_bytes): (u64, u64)) -> Self {
        let cores = u64::from(cores) * WHOLE;
        let free_cores = cores.saturating_sub(used_millionths / WHOLE);
        let free_bytes = u128::from(bytes.saturating_sub(used_bytes));
        Self {
            free_cores,
            idle: (free_cores * WHOLE).checked_div(cores).unwrap_or(0),
            free_memory: ((free_bytes * u128::from(WHOLE)) >> 30) as u64,
            link: LINK,
            accelerators_idle: None,
        }
    }
}

/// A grade.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Grade {
    /// Nothing should be put there.
    Poor,
    /// It will do.
    Fair,
    /// It has room.
    Good,
    /// It has room to spare.
    Excellent,
}

impl Grade {
    const ALL: [Self; GRADES] = [Self::Poor, Self::Fair, Self::Good, Self::Excellent];

    /// The grade as a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Poor => "poor",
            Self::Fair => "fair",
            Self::Good => "good",
            Self::Excellent => "excellent",
        }
    }
}

/// How weights and memberships make one judgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Operator {
    /// The sum of weight times membership: all factors count.
    #[default]
    WeightedSum,
    /// The largest of the smaller of weight and membership: the decisive factor counts.
    MaxMin,
}

/// How much each factor counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weights {
    /// Of cores, idle share, memory, link and accelerators; only their ratios matter. The last counts where some host has
    /// accelerators.
    pub of: [u32; FACTORS],
    /// How they are put together.
    pub operator: Operator,
}

impl Default for Weights {
    fn default() -> Self {
        Self { of: [350, 300, 150, 200, 200], operator: Operator::default() }
    }
}

/// What came of it for one host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judged {
    /// From 0, poor, to 3 000, excellent.
    pub score: u64,
    /// The grade that it belongs to most, the worse of two.
    pub grade: Grade,
}

/// To which degree a factor belongs to each grade, poor first; the sum is [`WHOLE`].
fn membership(value: u64, breakpoints: [u64; GRADES]) -> [u64; GRADES] {
    let mut of = [0; GRADES];
    let reached = breakpoints.iter().take_while(|point| **point < value).count();
    match reached {
        0 => of[0] = WHOLE,
        GRADES => of[GRADES - 1] = WHOLE,
        _ => {
            let (from, to) = (breakpoints[reached - 1], breakpoints[reached]);
            of[reached] = (value - from) * WHOLE / (to - from);
            of[reached - 1] = WHOLE - of[reached];
        }
    }
    of
}

/// Judges all hosts alike: the accelerators count for all, or for none.
pub fn judge(hosts: &[Features], weights: &Weights) -> Vec<Judged> {
    let has_accelerators = hosts.iter().any(|host| host.accelerators_idle.is_some());
    let factors = if has_accelerators { FACTORS } else { FACTORS - 1 };
    hosts.iter().map(|host| judge_one(host, &weights.of[..factors], weights.operator)).collect()
}

fn judge_one(host: &Features, weights: &[u32], operator: Operator) -> Judged {
    let idle = host.accelerators_idle.unwrap_or(0);
    let values = [host.free_cores, host.idle, host.free_memory, host.link, idle];
    let matrix: Vec<[u64; GRADES]> =
        (0..weights.len()).map(|factor| membership(values[factor], BREAKPOINTS[factor])).collect();
    if matrix[..NEEDED].iter().any(|of| of[0] == WHOLE) {
        return Judged { score: 0, grade: Grade::Poor };
    }
    let whole: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    let belongs = |grade: usize| {
        let each = matrix.iter().zip(weights).map(|(of, weight)| (of[grade], u64::from(*weight)));
        match operator {
            Operator::WeightedSum => each.map(|(member, weight)| member * weight).sum::<u64>(),
            // On the same scale: thousandths times the sum of the weights.
            Operator::MaxMin => {
                each.map(|(member, weight)| (member * whole).min(weight * WHOLE)).max().unwrap_or(0)
            }
        }
    };
    let belongs: [u64; GRADES] = std::array::from_fn(belongs);
    let sum: u64 = belongs.iter().sum();
    let weighed: u64 = belongs.iter().zip(0..).map(|(of, grade)| of * grade).sum();
    let most = belongs.iter().max().copied().unwrap_or(0);
    let grade = belongs.iter().position(|of| *of == most).unwrap_or(0);
    Judged { score: (weighed * WHOLE).checked_div(sum).unwrap_or(0), grade: Grade::ALL[grade] }
}

/// Deals `more` CPs in proportion to the scores, as many as `may_take` a host; what some may not take the others get, in
/// the same way. Where nobody who may take one has a score, they are dealt evenly.
pub fn deal(judged: &[Judged], standing: &[u32], may_take: &[u32], more: u32) -> Vec<u32> {
    let mut given = vec![0_u32; judged.len()];
    let mut left = u64::from(more);
    while left > 0 {
        let open: Vec<usize> = (0..judged.len())
            .filter(|&host| given[host] < may_take[host] && judged[host].score > 0)
            .collect();
        let total: u64 = open.iter().map(|&host| judged[host].score).sum();
        if total == 0 {
            return evenly(given, standing, may_take, left as u32);
        }
        let mut give = |host: usize, count: u64| {
            let count = count.min(u64::from(may_take[host] - given[host]));
            given[host] += count as u32;
            count
        };
        // Whole part and remainder of a host's share.
        let share = |host: usize| {
            let (quota, total) = (u128::from(left) * u128::from(judged[host].score), u128::from(total));
            ((quota / total) as u64, quota % total)
        };
        let mut singles = left - open.iter().map(|&host| share(host).0).sum::<u64>();
        let mut dealt: u64 = open.iter().map(|&host| give(host, share(host).0)).sum();
        let mut by_remainder = open;
        by_remainder
            .sort_by_key(|&host| (Reverse(share(host).1), Reverse(judged[host].score), standing[host], host));
        for host in by_remainder {
            let one = give(host, singles.min(1));
            singles -= one;
            dealt += one;
        }
        left -= dealt;
    }
    given
}

/// Deals what is left evenly, counting what was given.
fn evenly(mut given: Vec<u32>, standing: &[u32], may_take: &[u32], left: u32) -> Vec<u32> {
    let standing: Vec<u32> = standing.iter().zip(&given).map(|(a, b)| a.saturating_add(*b)).collect();
    let may_take: Vec<u32> = may_take.iter().zip(&given).map(|(most, given)| most - given).collect();
    let more = average::within(&standing, &may_take, left);
    given.iter_mut().zip(more).for_each(|(given, more)| *given += more);
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(free_cores: u64, idle: u64, free_memory: u64, link: u64) -> Features {
        Features { free_cores, idle, free_memory, link, accelerators_idle: None }
    }

    fn of(score: u64) -> Judged {
        Judged { score, grade: Grade::Fair }
    }

    #[test]
    fn at_its_breakpoints_a_factor_is_wholly_of_one_grade_and_between_them_of_two() {
        let cores = BREAKPOINTS[0];
        for (value, expected) in [
            (0, [1_000, 0, 0, 0]),
            (500, [1_000, 0, 0, 0]),
            (501, [998, 2, 0, 0]),
            (750, [500, 500, 0, 0]),
            (1_000, [0, 1_000, 0, 0]),
            (1_500, [0, 500, 500, 0]),
            (2_000, [0, 0, 1_000, 0]),
            (3_000, [0, 0, 500, 500]),
            (4_000, [0, 0, 0, 1_000]),
            (u64::MAX, [0, 0, 0, 1_000]),
        ] {
            assert_eq!(membership(value, cores), expected, "{value}");
        }
    }

    #[test]
    fn a_host_that_lacks_what_a_process_needs_is_poor_whatever_else_it_has() {
        let rich = at(9_000, 950, 64_000, 100_000);
        for host in [
            Features { free_cores: 500, ..rich },
            Features { idle: 100, ..rich },
            Features { free_memory: 250, ..rich },
        ] {
            assert_eq!(judge(&[host], &Weights::default()), [Judged { score: 0, grade: Grade::Poor }]);
        }
        let slow = judge(&[Features { link: 1, ..rich }], &Weights::default());
        assert_eq!(slow, [Judged { score: 2_400, grade: Grade::Excellent }]);
        assert_eq!(judge(&[rich], &Weights::default()), [Judged { score: 3_000, grade: Grade::Excellent }]);
    }

    #[test]
    fn accelerators_count_for_all_hosts_or_for_none() {
        let plain = at(2_000, 600, 4_000, 10_000);
        let cards = Features { accelerators_idle: Some(950), ..plain };
        let scores = |hosts: &[Features]| -> Vec<u64> {
            judge(hosts, &Weights::default()).iter().map(|judged| judged.score).collect()
        };
        assert_eq!(scores(&[plain]), [2_000]);
        assert_eq!(scores(&[plain, cards]), [1_666, 2_166]);
    }

    #[test]
    fn of_two_grades_that_count_alike_the_worse_is_said() {
        let weights = Weights { of: [1, 1, 1, 1, 1], operator: Operator::MaxMin };
        let host = at(1_000, 300, 4_000, 10_000);
        assert_eq!(judge(&[host], &weights), [Judged { score: 1_500, grade: Grade::Fair }]);
    }

    #[test]
    fn quotas_go_by_score_and_the_rest_by_largest_remainder() {
        assert_eq!(deal(&[of(300), of(100)], &[0, 0], &[9, 9], 4), [3, 1]);
        assert_eq!(deal(&[of(100), of(100), of(100)], &[2, 1, 1], &[9, 9, 9], 4), [1, 2, 1]);
        assert_eq!(deal(&[of(0), of(100)], &[0, 9], &[9, 9], 3), [0, 3]);
        assert_eq!(deal(&[of(0), of(0)], &[1, 0], &[9, 9], 3), [1, 2], "nobody has a score: evenly");
    }

    #[test]
    fn what_a_host_may_not_take_others_get() {
        assert_eq!(deal(&[of(300), of(100)], &[0, 0], &[1, 9], 4), [1, 3]);
        assert_eq!(deal(&[of(300), of(0)], &[0, 0], &[1, 9], 4), [1, 3], "at last those without a score");
        assert_eq!(deal(&[of(300), of(100)], &[0, 0], &[1, 1], 4), [1, 1]);
        assert_eq!(deal(&[], &[], &[], 4), [] as [u32; 0]);
    }
}
