//! Where there is no room for a CP.

use super::*;

#[test]
fn where_no_node_may_take_a_cp_one_comes_once_a_node_may() {
    let mut farm = Farm::new(1, 2);
    farm.join(0..2);
    let until_us = farm.now_us + 600 * SECOND_US;
    farm.front.nodes.values_mut().for_each(|node| node.not_before_us = until_us);
    farm.closed.insert(2);
    farm.join(2..3).go_on(SECOND_US);
    assert_eq!((farm.cps(), farm.fans()), (vec![], vec![(FRONT_LEVEL, 3)]));
    farm.now_us = until_us;
    farm.go_on(80 * SECOND_US);
    assert_eq!(farm.cps().len(), 2, "nobody has said anything new");
}
