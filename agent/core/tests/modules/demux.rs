//! Each job's values go their own way.

use starfarm_agent_core::Order;

use crate::bench::*;
use crate::common::*;

#[test]
fn a_message_goes_to_its_jobs_output_and_the_rest_to_the_rest() {
    let mut bench = Bench::without_output("demux");
    let [seven, eight, rest] = ["7", "8", "rest"].map(|output| bench.sink(output));
    bench.say(1, "1003=1 1000=7 1=5;1000=8 1=6;1000=9 1=7;1=8;1000='seven 1=9");
    assert_eq!(messages_of(&seven), ["1003=1 1000=7 1=5"]);
    assert_eq!(messages_of(&eight), ["1000=8 1=6"]);
    assert_eq!(messages_of(&rest), ["1000=9 1=7", "1=8", "1000='seven 1=9"]);
}

#[test]
fn a_message_with_the_values_of_several_jobs_is_cut_into_theirs() {
    let mut bench = Bench::without_output("demux");
    let [seven, rest] = ["7", "rest"].map(|output| bench.sink(output));
    bench.say(1, "2=1 1002=3 1000=8 1=8 1000=7 1001=2 1=7 1002=4 1=70 1000=9 1=9");
    assert_eq!(messages_of(&seven), ["1002=3 1000=7 1001=2 1=7 1002=4 1=70"]);
    assert_eq!(messages_of(&rest), ["2=1", "1002=3 1000=8 1=8", "1002=4 1000=9 1=9"]);
}

#[test]
fn outputs_come_and_go_with_their_jobs() {
    let mut bench = Bench::without_output("demux");
    let (seven, rest) = (bench.sink("7"), bench.sink("rest"));
    order(&mut bench.runtime, Order::End(who("end-it-7")));
    bench.say(1, "1000=7 1=5");
    assert_eq!((messages_of(&seven).len(), messages_of(&rest)), (0, vec!["1000=7 1=5".to_owned()]));
    // Another job's output has the hook that the one before had.
    let nine = bench.sink("9");
    bench.say(2, "1000=7 1=5;1000=9 1=6");
    assert_eq!((messages_of(&nine), messages_of(&rest).len()), (vec!["1000=9 1=6".to_owned()], 1));
    order(&mut bench.runtime, Order::End(who("end-it-rest")));
    // So has another job's the hook that the rest had.
    let eleven = bench.sink("11");
    bench.say(3, "1000=7 1=5;1000=9 1=6");
    assert_eq!(messages_of(&eleven), NOTHING);
    assert_eq!((messages_of(&nine).len(), messages_of(&rest).len()), (1, 0));
}

#[test]
fn what_messages_go_by_may_change_while_it_runs() {
    let mut bench = Bench::without_output("demux");
    let seven = bench.sink("7");
    bench.set("by", "post").unwrap();
    bench.say(1, "1000=7 1002=1 1=1;1000=1 1002=7 1=2");
    assert_eq!(messages_of(&seven), ["1000=1 1002=7 1=2"]);
    bench.set("by", "1000001").unwrap();
    bench.say(2, "1000=7 1=1;1=2 1000001=7 1=3 1000001=8 1=4");
    assert_eq!(messages_of(&seven), ["1=2 1000001=7 1=3 1000001=8 1=4"], "by its first value, and whole");
}
