//! Best-effort average: the numbers of processes on the hosts are as even as they can be made by adding some.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How many of `more` processes each host gets, where `standing` of them stand on it already. Steps 1 to 8 of the source.
/// All are placed, unless there is no host.
pub fn average(standing: &[u32], more: u32) -> Vec<u32> {
    let all: u64 = standing.iter().map(|count| u64::from(*count)).sum();
    let mut sum = all + u64::from(more);
    // Hosts whose total is not decided; the others have more than their share already, and get nothing.
    let mut open: Vec<usize> = (0..standing.len()).collect();
    let mut total = vec![0; standing.len()];
    while !open.is_empty() {
        let (share, rest) = (sum / open.len() as u64, sum % open.len() as u64);
        for (place, &host) in open.iter().enumerate() {
            total[host] = share + u64::from((place as u64) < rest);
        }
        // All are judged against one share, then their processes leave the sum together.
        let before = open.len();
        open.retain(|&host| {
            let is_over = u64::from(standing[host]) > total[host];
            if is_over {
                total[host] = u64::from(standing[host]);
                sum -= total[host];
            }
            !is_over
        });
        if open.len() == before {
            break;
        }
    }
    let added = standing.iter().zip(total).map(|(standing, total)| (total - u64::from(*standing)) as u32);
    added.collect()
}

/// The same where host i takes `may_take[i]` at most: each goes to the host with the fewest processes that may take one
/// more, the first of these by index. Fewer than `more` are placed where the hosts may not take so many.
pub fn within(standing: &[u32], may_take: &[u32], more: u32) -> Vec<u32> {
    if may_take.iter().all(|cap| *cap >= more) {
        return average(standing, more);
    }
    let mut given = vec![0; standing.len()];
    let open = (0..standing.len()).filter(|&host| may_take[host] > 0);
    let mut least: BinaryHeap<_> = open.map(|host| Reverse((u64::from(standing[host]), host))).collect();
    for _ in 0..more {
        let Some(Reverse((total, host))) = least.pop() else { break };
        given[host] += 1;
        if given[host] < may_take[host] {
            least.push(Reverse((total + 1, host)));
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_source() {
        assert_eq!(average(&[5, 1, 0, 0], 4), [0, 1, 2, 1]);
        assert_eq!(average(&[4, 2, 1], 3), [0, 1, 2]);
    }

    #[test]
    fn without_hosts_or_processes_there_is_nothing_to_place() {
        assert_eq!(average(&[], 4), [] as [u32; 0]);
        assert_eq!(average(&[3, 1], 0), [0, 0]);
        assert_eq!(within(&[], &[], 4), [] as [u32; 0]);
    }

    #[test]
    fn who_may_take_none_gets_none_and_the_others_are_even() {
        assert_eq!(within(&[0, 0, 0], &[9, 0, 9], 4), [2, 0, 2]);
        assert_eq!(within(&[0, 5, 0], &[1, 9, 9], 8), [1, 1, 6]);
        assert_eq!(within(&[0, 0], &[1, 2], 9), [1, 2], "as many as they may take");
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        assert_eq!(average(&[u32::MAX, u32::MAX], u32::MAX), [u32::MAX / 2 + 1, u32::MAX / 2]);
    }
}
