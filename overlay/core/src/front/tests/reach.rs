//! Where not everybody reaches a CP.

use super::*;

impl Farm {
    /// Children of a CP: those on its own machine, and the others.
    fn children(&self, cp: PostId) -> [Vec<PostId>; 2] {
        let all = self.parents().into_iter().filter(|(_, parent)| *parent == Some(cp)).map(|(id, _)| id);
        let (near, far) = all.partition(|child| self.front.host_of(*child) == self.front.host_of(cp));
        [near, far]
    }

    /// Seconds pass in which these are linked with the front, and all others with whom they should be.
    fn strays(&mut self, seconds: u64, strays: &[PostId]) {
        for _ in 0..seconds {
            self.now_us += SECOND_US;
            let all: Vec<_> = self.front.posts().map(|(id, post)| (id, post.parent, post.level)).collect();
            for (id, parent, level) in all {
                let parent = if strays.contains(&id) { Some(PostId::FRONT) } else { parent };
                self.stands(id, parent.unwrap_or(PostId::FRONT), level);
            }
            self.front.settle(self.now_us);
        }
    }
}

/// A firewall that lets nothing in: the back end beside the CP is linked with it all the same.
#[test]
fn one_that_is_reached_from_its_own_machine_alone_goes_elsewhere() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..8);
    let cp = farm.cps().into_iter().find(|cp| farm.children(*cp).iter().all(|of| !of.is_empty())).unwrap();
    let (at, [_, far]) = (farm.node_of(cp), farm.children(cp));
    farm.strays(15, &far);
    farm.go_on(SECOND_US).go_on(SECOND_US).check();
    assert!(!farm.cps().contains(&cp) && farm.cps().iter().all(|post| farm.node_of(*post) != at));
}

/// Networks that do not reach each other.
#[test]
fn who_does_not_reach_a_cp_that_others_reach_gets_another_parent() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..8);
    let cps = farm.cps();
    let stray = *farm.children(cps[0])[1].last().unwrap();
    farm.strays(25, &[stray]);
    assert_eq!(farm.front.post(stray).unwrap().parent, Some(cps[0]), "it may be slow");
    farm.strays(10, &[stray]);
    assert_eq!(farm.front.post(stray).unwrap().parent, Some(cps[1]));
    assert_eq!(farm.cps(), cps, "they stay");
    farm.go_on(SECOND_US).check();
    assert_eq!(farm.front.state(), TreeState::Live);
    // It reaches that one as little: there is the front.
    farm.strays(35, &[stray]);
    farm.go_on(SECOND_US).check();
    assert_eq!(farm.front.post(stray).unwrap().parent, Some(PostId::FRONT));
    assert_eq!(farm.front.state(), TreeState::Live);
}
