//! Who is above each post by what is ordered, and who was lately: what a CP tells of a post may arrive after that one has moved.

use std::collections::BTreeMap;

use starfarm_protocol::orders::PostId;

/// A CP speaks for so long for posts that are below it no more.
const LATELY_US: u64 = 120_000_000;
/// CPs that a post is below no more, as far as they are remembered: the latest.
const BEFORE_MAX: usize = 32;

/// Who is above each post, and who was lately.
#[derive(Default)]
pub(super) struct Voices(BTreeMap<PostId, Above>);

#[derive(Default)]
struct Above {
    now: Vec<PostId>,
    /// And until when they speak.
    before: Vec<(PostId, u64)>,
}

impl Voices {
    /// The lineages of all posts, as they are ordered from now on.
    pub(super) fn renew(&mut self, mut lineages: BTreeMap<PostId, Vec<PostId>>, now_us: u64) {
        for (post, above) in &mut self.0 {
            let now = lineages.remove(post).unwrap_or_default();
            // By a clock that was set back they would speak for long.
            let latest_us = now_us + LATELY_US;
            above
                .before
                .retain(|(of, until_us)| *until_us > now_us && *until_us <= latest_us && !now.contains(of));
            let gone = std::mem::take(&mut above.now).into_iter().filter(|of| !now.contains(of));
            above.before.extend(gone.map(|of| (of, latest_us)));
            let over = above.before.len().saturating_sub(BEFORE_MAX);
            above.before.drain(..over);
            above.now = now;
        }
        self.0.retain(|_, above| !above.now.is_empty() || !above.before.is_empty());
        let new = lineages.into_iter().filter(|(_, now)| !now.is_empty());
        self.0.extend(new.map(|(post, now)| (post, Above { now, before: Vec::new() })));
    }

    /// This one is above that post, or was lately.
    pub(super) fn has_above(&self, cp: PostId, post: PostId, now_us: u64) -> bool {
        self.0.get(&post).is_some_and(|above| {
            above.now.contains(&cp)
                || above.before.iter().any(|(of, until_us)| *of == cp && *until_us > now_us)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;
    const POST: PostId = PostId(9);

    fn renew(voices: &mut Voices, above: &[u64], now_us: u64) {
        let lineage = (POST, above.iter().copied().map(PostId).collect());
        voices.renew(BTreeMap::from([lineage]), now_us);
    }

    #[test]
    fn who_was_above_a_post_speaks_for_it_for_two_minutes_more() {
        let mut voices = Voices::default();
        let has = |voices: &Voices, cp, now_us| voices.has_above(PostId(cp), POST, now_us);
        renew(&mut voices, &[1, 2], 0);
        renew(&mut voices, &[3, 2], SECOND_US);
        let at = |voices: &Voices, now_us| [1, 2, 3, 4].map(|cp| has(voices, cp, now_us));
        assert_eq!(at(&voices, 120 * SECOND_US), [true, true, true, false]);
        assert_eq!(at(&voices, 121 * SECOND_US), [false, true, true, false]);
        // It is nobody's any more, and then it is forgotten.
        voices.renew(BTreeMap::new(), 200 * SECOND_US);
        assert_eq!(at(&voices, 201 * SECOND_US), [false, true, true, false]);
        voices.renew(BTreeMap::new(), 320 * SECOND_US);
        assert!(voices.0.is_empty());
    }

    #[test]
    fn those_before_are_bounded_and_a_clock_that_was_set_back_keeps_nobody() {
        let mut voices = Voices::default();
        (0..100).for_each(|n| renew(&mut voices, &[n], SECOND_US));
        assert_eq!(voices.0[&POST].before.len(), BEFORE_MAX);
        assert!(
            voices.has_above(PostId(98), POST, SECOND_US) && !voices.has_above(PostId(5), POST, SECOND_US)
        );
        renew(&mut voices, &[7], 0);
        assert_eq!(voices.0[&POST].before, [(PostId(99), LATELY_US)]);
    }
}
