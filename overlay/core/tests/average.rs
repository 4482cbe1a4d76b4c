//! The average strategy against what it promises: all small cases against brute force, and larger ones at random against
//! its greedy form.

use starfarm_overlay_core::plan::average::{average, within};
use starfarm_protocol::random::SplitMix64;

/// All ways to put `more` on `hosts`, sorted totals of each.
fn least_totals(standing: &[u32], more: u32) -> Vec<u32> {
    fn deal(totals: &mut Vec<u32>, from: usize, more: u32, best: &mut Vec<u32>) {
        if from + 1 == totals.len() {
            totals[from] += more;
            let mut sorted = totals.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            if best.is_empty() || sorted < *best {
                *best = sorted;
            }
            totals[from] -= more;
            return;
        }
        for here in 0..=more {
            totals[from] += here;
            deal(totals, from + 1, more - here, best);
            totals[from] -= here;
        }
    }
    let mut best = Vec::new();
    deal(&mut standing.to_vec(), 0, more, &mut best);
    best
}

fn greedy(standing: &[u32], may_take: &[u32], more: u32) -> Vec<u32> {
    let mut given = vec![0; standing.len()];
    for _ in 0..more {
        let open = (0..standing.len()).filter(|&host| given[host] < may_take[host]);
        let Some(host) = open.min_by_key(|&host| (standing[host] + given[host], host)) else { break };
        given[host] += 1;
    }
    given
}

/// Every list of `hosts` numbers below `below`.
fn lists(hosts: usize, below: u32) -> Vec<Vec<u32>> {
    (0..hosts).fold(vec![Vec::new()], |lists, _| {
        let longer =
            |list: &Vec<u32>| (0..below).map(|last| [&list[..], &[last]].concat()).collect::<Vec<_>>();
        lists.iter().flat_map(longer).collect()
    })
}

#[test]
fn in_all_small_cases_no_other_way_is_more_even() {
    let mut cases = 0;
    for hosts in 1..5 {
        for standing in lists(hosts, 6) {
            for more in 0..9 {
                let added = average(&standing, more);
                assert_eq!(added.iter().sum::<u32>(), more, "{standing:?} and {more}");
                let mut totals: Vec<u32> = standing.iter().zip(&added).map(|(a, b)| a + b).collect();
                totals.sort_unstable_by(|a, b| b.cmp(a));
                assert_eq!(totals, least_totals(&standing, more), "{standing:?} and {more}");
                assert_eq!(added, greedy(&standing, &vec![more; hosts], more), "{standing:?} and {more}");
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 9 * (6 + 36 + 216 + 1_296));
}

#[test]
fn large_farms_get_what_one_process_after_the_other_on_the_emptiest_host_gives() {
    let mut random = SplitMix64(1);
    let mut next = |below| random.below(below);
    for _ in 0..300 {
        let hosts = 1 + next(40) as usize;
        let most = 1 + next(50);
        let standing: Vec<u32> = (0..hosts).map(|_| next(most) as u32).collect();
        let may_take: Vec<u32> = (0..hosts).map(|_| next(12) as u32).collect();
        let more = next(300) as u32;
        assert_eq!(
            average(&standing, more),
            greedy(&standing, &vec![more; hosts], more),
            "{standing:?} {more}"
        );
        let capped = within(&standing, &may_take, more);
        assert_eq!(capped, greedy(&standing, &may_take, more), "{standing:?} {may_take:?} {more}");
    }
}
