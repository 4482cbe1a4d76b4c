//! Circles in a directed graph: sets of nodes each of which leads to each other one. Nothing here knows of files.

use std::collections::{BTreeMap, BTreeSet};

/// The sets of two or more nodes that lead to each other, nodes and sets in order.
pub(super) fn circles<'a>(edges: &[(&'a str, &'a str)]) -> Vec<Vec<&'a str>> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in edges {
        next.entry(from).or_default().insert(to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        next.keys().map(|from| (*from, all_reached(&next, from))).collect();
    let mut found = BTreeSet::new();
    for (node, there) in &reached {
        let comes_back = |other: &&&str| reached.get(**other).is_some_and(|back| back.contains(node));
        let circle: Vec<&str> = there.iter().filter(comes_back).copied().collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

/// All that one or more steps lead to.
fn all_reached<'a>(next: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        let ahead = next.get(node).into_iter().flatten();
        open.extend(ahead.filter(|node| reached.insert(**node)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_fork_and_a_node_that_names_itself_are_no_circle() {
        assert!(circles(&[("a", "b"), ("b", "c"), ("a", "c"), ("c", "c")]).is_empty());
    }

    #[test]
    fn circles_that_touch_are_one_and_others_are_told_apart() {
        let edges =
            [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("c", "x"), ("x", "y"), ("y", "x"), ("z", "a")];
        assert_eq!(circles(&edges), [vec!["a", "b", "c"], vec!["x", "y"]]);
    }
}
