//! Who is whose child: on the same host first, then with whoever has fewest.

use starfarm_protocol::orders::PostKind;

use super::post::Post;
use super::shape::Shape;

/// For each child the index of its parent. Child and parent i stand on hosts `children[i]` and `parents[i]`. No parent has
/// more than the number of children divided by that of parents, rounded up; every child has one, if there are any.
pub fn attach(children: &[usize], parents: &[usize]) -> Vec<usize> {
    let fan = children.len().div_ceil(parents.len().max(1));
    let mut waiting = by_host(children);
    let mut parent_of = vec![None; children.len()];
    let mut has = vec![0; parents.len()];
    for (parent, host) in parents.iter().enumerate() {
        let own = waiting.get_mut(*host).map(|own| own.split_off(own.len().saturating_sub(fan)));
        for child in own.into_iter().flatten() {
            parent_of[child] = Some(parent);
            has[parent] += 1;
        }
    }
    // The parents by how many children they have, then by index.
    let mut least: std::collections::BTreeSet<(usize, usize)> =
        has.iter().enumerate().map(|(parent, has)| (*has, parent)).collect();
    let mut next = || {
        let (has, parent) = least.pop_first().expect("whoever attaches children has a parent for them");
        least.insert((has + 1, parent));
        parent
    };
    parent_of.into_iter().map(|parent| parent.unwrap_or_else(&mut next)).collect()
}

/// The children of each host; the first in order is last, where it is taken from.
fn by_host(children: &[usize]) -> Vec<Vec<usize>> {
    let hosts = children.iter().max().map_or(0, |last| last + 1);
    let mut by_host = vec![Vec::new(); hosts];
    for (child, host) in children.iter().enumerate().rev() {
        by_host[*host].push(child);
    }
    by_host
}

/// The tree of a shape: `backends` and `cps` stand on each host.
pub(super) fn tree(backends: &[u32], cps: &[u32], shape: &Shape) -> Vec<Post> {
    let levels = levels(backends, cps, shape);
    let mut posts = vec![Post { kind: PostKind::Fe, host: None, parent: None }];
    // The front end, which stands on none of the hosts.
    let mut above = vec![usize::MAX];
    let mut above_from = 0;
    for (height, level) in levels.iter().enumerate().rev() {
        let kind = match height {
            0 => PostKind::Be,
            1 => PostKind::Ibe,
            _ => PostKind::Cp,
        };
        let from = posts.len();
        let parents = attach(level, &above);
        posts.extend(level.iter().zip(parents).map(|(host, parent)| Post {
            kind,
            host: Some(*host),
            parent: Some(above_from + parent),
        }));
        (above, above_from) = (level.clone(), from);
    }
    posts
}

/// The hosts of each level's posts: the back ends, the IBEs, then the levels above.
fn levels(backends: &[u32], cps: &[u32], shape: &Shape) -> Vec<Vec<usize>> {
    let bes = backends.iter().enumerate().flat_map(|(host, count)| (0..*count).map(move |_| host));
    let mut levels = vec![bes.collect()];
    // Each host's first CP, then each one's second ...
    let mut dealt: Vec<(u32, usize)> = cps
        .iter()
        .enumerate()
        .flat_map(|(host, count)| (0..*count).map(move |round| (round, host)))
        .collect();
    dealt.sort_unstable();
    // ... and of these the ones beside most back ends are the IBEs.
    let by_round: Vec<usize> = dealt.into_iter().map(|(_, host)| host).collect();
    let ibes = shape.levels().first().map_or(0, |count| *count as usize);
    let mut order: Vec<usize> = (0..by_round.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(backends[by_round[at]]));
    let mut is_ibe = vec![false; by_round.len()];
    order.iter().take(ibes).for_each(|&at| is_ibe[at] = true);
    let of = |which: bool| {
        by_round.iter().zip(&is_ibe).filter(move |(_, ibe)| **ibe == which).map(|(host, _)| *host)
    };
    let mut rest = of(false);
    for (height, count) in shape.levels().iter().enumerate() {
        levels.push(if height == 0 {
            of(true).collect()
        } else {
            rest.by_ref().take(*count as usize).collect()
        });
    }
    levels
}
