//! Who may do what. A role comes from the join key a peer enrolled with, never from what the peer says.
//! Which message asks for which action is decided where messages are handled.

use crate::word::words;

words! {
    /// What a key is for. The numbers are on the wire: append only.
    Role {
        /// Computes: takes tasks, returns results. It can see and steer nothing.
        Worker = 1 => "worker",
        /// Looks: status, jobs, results.
        Observer = 2 => "observer",
        /// Looks and steers: submits, cancels, drains.
        Operator = 3 => "operator",
        /// Everything but computing, keys included.
        Admin = 4 => "admin",
        /// A post that the scheduler has vouched for: it links with other posts, and nothing else. No join key gives it.
        Peer = 5 => "peer",
    }
}

/// A class of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Take tasks, return results, fetch inputs and upload outputs.
    Work,
    /// Read the farm's state, jobs and results.
    Watch,
    /// Change jobs and nodes.
    Steer,
    /// List, add and revoke keys; forget nodes; stop the farm.
    Govern,
    /// Be a neighbour in a tree of posts.
    Link,
}

impl Role {
    /// Those that a join key can give.
    pub const BY_JOIN_KEY: &'static [Self] = &[Self::Worker, Self::Observer, Self::Operator, Self::Admin];

    /// Whether a peer of this role may do `action`.
    pub fn may(self, action: Action) -> bool {
        match self {
            Self::Worker => action == Action::Work,
            Self::Peer => action == Action::Link,
            Self::Observer => action == Action::Watch,
            Self::Operator => matches!(action, Action::Watch | Action::Steer),
            Self::Admin => matches!(action, Action::Watch | Action::Steer | Action::Govern),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_do_its_own_part_only() {
        let table = [
            (Role::Worker, [true, false, false, false, false]),
            (Role::Observer, [false, true, false, false, false]),
            (Role::Operator, [false, true, true, false, false]),
            (Role::Admin, [false, true, true, true, false]),
            (Role::Peer, [false, false, false, false, true]),
        ];
        for (role, expected) in table {
            let actions = [Action::Work, Action::Watch, Action::Steer, Action::Govern, Action::Link];
            let may = actions.map(|action| role.may(action));
            assert_eq!(may, expected, "{role}");
        }
    }

    #[test]
    fn numbers_are_pinned() {
        assert_eq!(Role::ALL.iter().map(|&role| role as u8).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(Role::from_number(0), None);
        assert_eq!(Role::from_number(6), None);
        for &role in Role::ALL {
            assert_eq!(Role::from_number(role as u8), Some(role));
        }
    }
}
