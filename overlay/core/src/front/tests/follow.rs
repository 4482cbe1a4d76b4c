//! A tree as a topology file says.

use super::*;
use crate::plan::topology::Topology;

fn follow(farm: &mut Farm, text: &str) {
    let topology = Topology::read(text).unwrap();
    assert_eq!(farm.front.cannot_follow(&topology), None);
    let settings = Settings { fanout: 2, topology: Some(topology), ..Settings::default() };
    farm.front.form(settings, farm.now_us);
    farm.go_on(SECOND_US).check();
}

/// The tree, as a file would have it: by nodes, back ends in brackets.
fn drawn(farm: &Farm) -> String {
    let mut below = BTreeMap::<PostId, Vec<PostId>>::new();
    farm.front.posts().for_each(|(id, post)| below.entry(post.parent.unwrap()).or_default().push(id));
    fn of(farm: &Farm, below: &BTreeMap<PostId, Vec<PostId>>, post: PostId) -> String {
        let level = farm.front.post(post).map_or(FRONT_LEVEL, |post| post.level);
        let name = if post == PostId::FRONT { "fe".to_owned() } else { farm.node_of(post).to_string() };
        let mut children: Vec<_> =
            below.get(&post).into_iter().flatten().map(|child| of(farm, below, *child)).collect();
        children.sort();
        match level {
            0 => format!("[{name}]"),
            _ => format!("{name}({})", children.join(" ")),
        }
    }
    of(farm, &below, PostId::FRONT)
}

const FILE: &str = "x:0 => host-0:0 host-1:0 ; host-0:0 => host-2:0 host-3:0 ;";

#[test]
fn cps_stand_where_the_file_says_and_back_ends_below_its_leaves() {
    let mut farm = Farm::new(1, 32);
    farm.join(0..6);
    follow(&mut farm, FILE);
    assert_eq!(drawn(&farm), "fe(0(2([2] [4]) 3([3] [5])) 1([0] [1]))");
    assert_eq!(farm.front.state(), TreeState::Live);
    // More nodes than the fan-out is for: nobody adds CPs, and nobody takes any away.
    farm.join(6..9);
    farm.go_on(3_600 * SECOND_US).check();
    assert_eq!(farm.cps().len(), 4);
    // Two of the same host, and the root alone.
    follow(&mut farm, "x:0 => host-5:0 host-5:7 ;");
    assert_eq!(farm.cps().into_iter().map(|post| farm.node_of(post)).collect::<Vec<_>>(), [5, 5]);
    follow(&mut farm, "host-5:0 ;");
    assert_eq!((farm.cps(), farm.fans()), (vec![], vec![(FRONT_LEVEL, 9)]));
    // By a strategy again.
    farm.front.form(Settings { fanout: 3, ..Settings::default() }, farm.now_us);
    farm.go_on(SECOND_US).check();
    assert_eq!(farm.cps().len(), 3);
}

#[test]
fn whoever_is_below_one_that_cannot_stand_hangs_above_it_until_it_can() {
    let mut farm = Farm::new(1, 32);
    farm.join(0..6);
    follow(&mut farm, FILE);
    let host_0 = node(0);
    farm.nodes.remove(&0);
    farm.front.forget(&host_0);
    farm.go_on(SECOND_US).check();
    assert_eq!(drawn(&farm), "fe(1([1]) 2([2] [4]) 3([3] [5]))");
    // A leaf goes as well: its back ends are the others'.
    farm.nodes.remove(&1);
    farm.front.forget(&node(1));
    farm.go_on(SECOND_US).check();
    assert_eq!(drawn(&farm), "fe(2([2] [4]) 3([3] [5]))");
    farm.join(0..2);
    farm.go_on(SECOND_US).check();
    assert_eq!(drawn(&farm), "fe(0(2([2] [4]) 3([3] [5])) 1([0] [1]))");
}

#[test]
fn what_the_farm_cannot_do_is_said_of_the_first_process_that_has_no_place() {
    let mut farm = Farm::new(1, 32);
    farm.closed.insert(1);
    farm.join(0..3);
    let refused = |text: &str| {
        let topology = Topology::read(text).unwrap();
        let (at, why) = farm.front.cannot_follow(&topology).unwrap();
        topology.fault(text, at, why).to_string()
    };
    assert_eq!(
        refused("x:0 => host-0:0\n  host-9:0 ;"),
        "line 2, column 3: host-9:0: no node of the farm is on a host of this name: `starfarm tree` shows their hosts"
    );
    assert_eq!(
        refused("x:0 => host-0:0 host-1:0 ;"),
        "line 1, column 17: host-1:0: its nodes take no connections of others (--no-peers)"
    );
    let many: String = (0..64).map(|number| format!("host-2:{number} ")).collect();
    assert_eq!(
        refused(&format!("x:0 => {many};")),
        "line 1, column 628: host-2:63: its nodes take 63 CPs, and no more"
    );
}
