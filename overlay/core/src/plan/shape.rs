//! How many levels of CPs a tree has, and how many CPs each.

/// Numbers of CPs by level, lowest level (the IBEs) first; empty where the back ends hang below the front end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape(Vec<u64>);

impl Shape {
    /// The shape for so many back ends, with at most `fanout` children a post.
    ///
    /// # Panics
    /// Where `fanout` is less than 2.
    pub fn of(backends: u64, fanout: u32) -> Self {
        assert!(fanout >= 2, "a tree with a fan-out of {fanout} never gets to its root");
        let fanout = u64::from(fanout);
        let mut levels = Vec::new();
        let mut below = backends;
        while below > fanout {
            below = below.div_ceil(fanout);
            levels.push(below);
        }
        Self(levels)
    }

    /// The same with at most `room` CPs: without its highest levels, or one level of as many as there may be.
    #[must_use]
    pub fn within(mut self, room: u64) -> Self {
        while self.cps() > room && self.0.len() > 1 {
            self.0.pop();
        }
        if self.cps() > room {
            self.0 = if room == 0 { Vec::new() } else { vec![room] };
        }
        self
    }

    /// CPs in all.
    pub fn cps(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Numbers by level, the IBEs first.
    pub fn levels(&self) -> &[u64] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_post_has_more_children_than_the_fan_out_and_no_level_is_needless() {
        for (backends, fanout, levels) in [
            (0, 32, &[][..]),
            (32, 32, &[]),
            (33, 32, &[2]),
            (1_024, 32, &[32]),
            (1_025, 32, &[33, 2]),
            (10_000, 32, &[313, 10]),
            (5, 2, &[3, 2]),
        ] {
            assert_eq!(Shape::of(backends, fanout).levels(), levels, "{backends} with {fanout}");
        }
    }

    #[test]
    fn where_hosts_take_fewer_the_highest_levels_go_first() {
        let shape = || Shape::of(1_025, 32);
        assert_eq!(shape().within(35).levels(), [33, 2]);
        assert_eq!(shape().within(34).levels(), [33]);
        assert_eq!(shape().within(7).levels(), [7]);
        assert_eq!(shape().within(0).levels(), [] as [u64; 0]);
    }
}
