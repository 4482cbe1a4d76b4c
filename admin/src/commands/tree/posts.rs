//! The posts of the farm's tree, and another shape of it.

use starfarm_protocol::admin::{OwnTree, PlaceCps, PostInfo, TreeInfo, TreeState};
use starfarm_protocol::orders::{PostId, PostKind, PostState};

use crate::cli::{Strategy, TreeForm};
use crate::commands::Context;
use crate::failure::Failure;
use crate::human;
use crate::output::table::{Cell, Column, Table, left, right};
use crate::output::{Document, Style};

pub(super) fn show(context: &mut Context) -> Result<(), Failure> {
    let tree = context.connect()?.tree()?;
    context.printer.document(&tree)
}

pub(super) fn form(context: &mut Context, asked: &TreeForm) -> Result<(), Failure> {
    let strategy = match asked.strategy {
        Strategy::Average => PlaceCps::Average,
        Strategy::Fuzzy => PlaceCps::Fuzzy,
    };
    let topology =
        asked.topology.as_deref().map(|file| super::hosts::text(file, "topology file")).transpose()?;
    let strategy = if topology.is_some() { PlaceCps::Topology } else { strategy };
    let tree = context.connect()?.form_tree(strategy, asked.fanout, topology)?;
    context.printer.document(&tree)
}

const COLUMNS: &[Column<PostInfo>] = &[
    left("post", |post| Cell::new(format!("{:1$}{2}", "", 2 * post.depth as usize, number(post.post)))),
    left("kind", |post| Cell::new(post.kind.word())),
    left("node", |post| Cell::new(post.node.as_deref().unwrap_or("-"))),
    left("host", |post| Cell::new(&post.host)),
    left("parent", |post| Cell::new(post.parent.map_or("-".to_owned(), number))),
    left("state", state),
    right("children", |post| Cell::new(count(post.children.map(u64::from)))),
    right("sent", |post| Cell::new(count(post.sent))),
    right("received", |post| Cell::new(count(post.received))),
    right("dropped", |post| Cell::new(count(post.dropped))),
    right("late", |post| Cell::new(count(post.late))),
    right("gaps", |post| Cell::new(count(post.gaps))),
    // Only where a job has a tree of its own.
    right("job", |post| Cell::new(post.job.map_or("-".to_owned(), |job| job.0.to_string()))),
];

/// The columns that say something of this tree.
fn columns(tree: &TreeInfo) -> &'static [Column<PostInfo>] {
    let has_jobs = tree.posts.iter().any(|post| post.job.is_some());
    &COLUMNS[..if has_jobs { COLUMNS.len() } else { COLUMNS.len() - 1 }]
}

/// A post's number as people say it: of which incarnation of the scheduler it is, and which of that.
fn number(post: PostId) -> String {
    let (epoch, number) = (post.0 >> 24, post.0 & 0xFF_FFFF);
    if epoch == 0 { number.to_string() } else { format!("{epoch}.{number}") }
}

fn count(count: Option<u64>) -> String {
    count.map_or("-".to_owned(), |count| human::count(count as f64))
}

fn state(post: &PostInfo) -> Cell {
    match post.state {
        PostState::Joined => Cell::state("up"),
        PostState::Orphan => Cell { text: "orphan".to_owned(), ..Cell::state("suspect") },
        other => Cell::new(other.word()),
    }
}

/// The posts as a table, a line each, the headings first.
pub(in crate::commands) fn rows(tree: &TreeInfo, style: Style) -> Vec<String> {
    Table::of(&tree.posts, columns(tree)).render(style).lines().map(str::to_owned).collect()
}

/// How the tree is, in a line.
pub(in crate::commands) fn in_short(tree: &TreeInfo) -> String {
    let of = |kind| tree.posts.iter().filter(|post| post.kind == kind && post.job.is_none()).count();
    let cps = of(PostKind::Cp) + of(PostKind::Ibe);
    let mut words = format!(
        "{}: {} back ends, {cps} CPs, {} children each at most, placed by {}",
        tree.tree.state.word(),
        of(PostKind::Be),
        tree.tree.fanout,
        tree.tree.strategy.word()
    );
    if tree.tree.state != TreeState::Live {
        words.push_str("; figures may lack some nodes");
    }
    words
}

/// How a tree of a job's own is, in a line.
fn own_in_short(OwnTree { job, state, posts, .. }: &OwnTree) -> String {
    let told = if *state == TreeState::Live { "" } else { "; the farm's tells of its units meanwhile" };
    format!("job {} has a tree of its own, {}: {posts} posts{told}", job.0, state.word())
}

impl Document for TreeInfo {
    const NAME: &'static str = "tree";

    fn table(&self, style: Style) -> String {
        let lines = std::iter::once(in_short(self)).chain(self.own_trees.iter().map(own_in_short));
        let lines: Vec<_> = lines.collect();
        format!("{}\n{}\n", Table::of(&self.posts, columns(self)).render(style), lines.join("\n"))
    }

    fn quiet(&self) -> String {
        self.tree.state.word().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use starfarm_protocol::admin::TreeSummary;
    use starfarm_protocol::ids::JobId;

    use super::*;
    use crate::output::Format;
    use crate::output::testing::printed;

    fn post(post: u64, kind: PostKind, parent: Option<u64>, depth: u32) -> PostInfo {
        let is_front = kind == PostKind::Fe;
        PostInfo {
            post: PostId(post),
            kind,
            node: (!is_front).then(|| "n1".to_owned()),
            host: "lab".to_owned(),
            parent: parent.map(PostId),
            job: None,
            depth,
            state: if parent.is_some() || is_front { PostState::Joined } else { PostState::Orphan },
            children: Some(1),
            pid: Some(7),
            sent: Some(12_000),
            received: Some(0),
            dropped: None,
            late: Some(3),
            gaps: Some(0),
        }
    }

    #[test]
    fn a_tree_is_shown_with_each_post_below_its_parent() {
        let first = 3 << 24;
        let posts = vec![
            post(0, PostKind::Fe, None, 0),
            post(first + 2, PostKind::Ibe, Some(0), 1),
            post(first + 1, PostKind::Be, Some(first + 2), 2),
            post(first + 3, PostKind::Be, None, 1),
        ];
        let tree = TreeSummary {
            state: TreeState::Attaching,
            strategy: PlaceCps::Average,
            fanout: 32,
            depth: 2,
            posts: 4,
            lost: 0,
            dropped: 0,
        };
        let tree = TreeInfo { tree, posts, own_trees: Vec::new() };
        expect![[r#"
            post     kind  node  host  parent  state   children    sent  received  dropped  late  gaps
            0        fe    -     lab   -       up             1  12.0 K         0        -     3     0
              3.2    ibe   n1    lab   0       up             1  12.0 K         0        -     3     0
                3.1  be    n1    lab   3.2     up             1  12.0 K         0        -     3     0
              3.3    be    n1    lab   -       orphan         1  12.0 K         0        -     3     0

            attaching: 2 back ends, 1 CPs, 32 children each at most, placed by average; figures may lack some nodes
        "#]].assert_eq(&printed(Format::Table, |printer| printer.document(&tree)));
        expect![[r#"
            attaching
        "#]]
        .assert_eq(&printed(Format::Quiet, |printer| printer.document(&tree)));
    }

    #[test]
    fn posts_of_a_jobs_own_tree_come_behind_the_farms_and_name_it() {
        let first = 3 << 24;
        let own = PostInfo { job: Some(JobId(7)), ..post(first + 2, PostKind::Be, Some(0), 1) };
        let posts = vec![post(0, PostKind::Fe, None, 0), post(first + 1, PostKind::Be, Some(0), 1), own];
        let (state, strategy) = (TreeState::Live, PlaceCps::Average);
        let tree = TreeSummary { state, strategy, fanout: 32, depth: 1, posts: 2, lost: 0, dropped: 0 };
        let of = |job, state| OwnTree { job: JobId(job), state, depth: 1, posts: job - 6 };
        let own_trees = vec![of(7, TreeState::Live), of(8, TreeState::Building)];
        let tree = TreeInfo { tree, posts, own_trees };
        expect![[r#"
            post   kind  node  host  parent  state  children    sent  received  dropped  late  gaps  job
            0      fe    -     lab   -       up            1  12.0 K         0        -     3     0    -
              3.1  be    n1    lab   0       up            1  12.0 K         0        -     3     0    -
              3.2  be    n1    lab   0       up            1  12.0 K         0        -     3     0    7

            live: 1 back ends, 0 CPs, 32 children each at most, placed by average
            job 7 has a tree of its own, live: 1 posts
            job 8 has a tree of its own, building: 2 posts; the farm's tells of its units meanwhile
        "#]]
        .assert_eq(&printed(Format::Table, |printer| printer.document(&tree)));
    }
}
