//! What has happened to a tree, as far as its rules need it, and those that can be judged by that alone. See `rules`.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::link::{Message, Stream};
use starfarm_protocol::orders::{Orders, PostId, Report};

use super::wires::Who;
use crate::intervals::Intervals;
use crate::violation::{Broken, rule};

/// What has happened, as far as the rules need it.
#[derive(Debug, Default)]
pub(super) struct Judge {
    /// Posts that a front has told a caller of: caller's post and key, and whom it may call.
    named: BTreeSet<(PostId, PublicKey, PostId)>,
    /// And those of which it has told the one that is called.
    vouched: BTreeSet<(PostId, PublicKey, PostId)>,
    /// Of each process and stream, the messages that somebody has taken.
    taken: BTreeMap<(Who, Stream), Intervals>,
    /// Of each taker, each child and stream, the message that comes next at the earliest.
    next: BTreeMap<(Who, Who, Stream), u32>,
    pub(super) takes: BTreeMap<Who, u64>,
}

impl Judge {
    /// A front has said something to a node.
    pub(super) fn on_orders(&mut self, report: &Report, orders: &Orders) {
        for order in &orders.posts {
            let key = report.posts.iter().find(|post| post.post == order.post).and_then(|post| post.key);
            let all = order.lineage.iter().chain(&order.watched);
            let above = all.filter_map(|above| Some((order.post, key?, above.post)));
            self.named.extend(above);
            let below = order.below.iter().chain(&order.watchers);
            self.vouched.extend(below.map(|below| (below.post, below.key, order.post)));
        }
    }

    /// T3: a link is up.
    pub(super) fn on_link(&self, (post, key): (PostId, PublicKey), to: PostId) -> Result<(), Broken> {
        let link = (post, key, to);
        // Whom the front itself calls it need not tell itself.
        let is_named = post == PostId::FRONT || self.named.contains(&link);
        let holds = is_named && (to == PostId::FRONT || self.vouched.contains(&link));
        rule(holds, "T3: both ends of a link were told of each other", || format!("{post} links with {to}"))
    }

    /// T6: a taker has taken a message of a child that has made so many, if it lives.
    pub(super) fn took(
        &mut self,
        taker: Who,
        (child, made): (Who, Option<u64>),
        record: &[u8],
    ) -> Result<(), Broken> {
        let Ok(Some(Message::Data(data))) = Message::read(record) else {
            panic!("whoever took it has read it")
        };
        let (of, sequence) = ((child, data.stream), data.sequence);
        let next = self.next.entry((taker, child, data.stream)).or_default();
        let said = || format!("{} of {} {}", sequence, data.origin, data.stream.word());
        rule(sequence >= *next, "T6: nothing is taken twice by the same process", said)?;
        rule(made.is_none_or(|made| u64::from(sequence) < made), "T6: what is taken was made", said)?;
        *next = sequence + 1;
        *self.takes.entry(taker).or_default() += 1;
        self.taken.entry(of).or_default().insert(sequence.into(), u128::from(sequence) + 1);
        Ok(())
    }

    /// A process has gone, and what it knew with it.
    pub(super) fn forget(&mut self, who: Who) {
        self.taken.retain(|(of, _), _| *of != who);
        self.next.retain(|(taker, child, _), _| *taker != who && *child != who);
        self.takes.remove(&who);
    }

    /// Messages of a process and stream before that one which nobody has taken.
    pub(super) fn missing(&self, who: Who, stream: Stream, before: u32) -> u64 {
        let Some(taken) = self.taken.get(&(who, stream)) else { return before.into() };
        let inside = taken.iter().map(|(lo, hi)| hi.min(before.into()).saturating_sub(lo));
        u64::from(before) - inside.sum::<u128>() as u64
    }
}
