//! Who may speak for whom at the front. A post speaks for itself, and a CP for the posts that are below it by what was ordered
//! now or lately: orphans move before what they told arrives, and orders take a moment. Nobody but the front speaks for the
//! front. So one node's key decides nothing for nodes that do not hang below a CP of its.

use starfarm_protocol::orders::PostId;

use super::known::{Front, Role};

impl Front {
    /// Whether a child of the front may speak of that post.
    pub fn may_speak(&self, child: PostId, about: PostId, now_us: u64) -> bool {
        about != PostId::FRONT
            && (child == about || self.is_above(child, about) || self.voices.has_above(child, about, now_us))
    }

    /// The same of alarms, which back ends raise, and the second root. What it has heard of all of them the second root says
    /// as well: that is the other way by which alarms come. But it alone has no node drained.
    pub fn may_alarm(&self, child: PostId, about: PostId, now_us: u64) -> bool {
        let raises = self.posts.get(&about).is_some_and(|post| post.level == 0);
        raises && self.may_speak(child, about, now_us)
            || self.second() == Some(child) && (raises || child == about)
    }

    /// The same of silence: beside the posts below it a member of the ring tells of the other members.
    pub fn may_suspect(&self, child: PostId, about: PostId, now_us: u64) -> bool {
        let is_member = |post| {
            let of_tree = self.posts.get(&post).is_some_and(|post| post.level > 0);
            of_tree || self.roots.role(Role::Second).is_some_and(|(second, _)| second == post)
        };
        self.may_speak(child, about, now_us) || is_member(child) && is_member(about)
    }
}
