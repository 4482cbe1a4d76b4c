//! What is refused, in words that say what would be right, and changes nothing.

use starfarm_agent_core::{Order, Refusal};

use crate::bench::*;
use crate::common::*;

const TYPES: [&str; 10] = [
    "aggregate",
    "blackhole",
    "demux",
    "derivative",
    "filter",
    "prepend",
    "rate",
    "threshold",
    "wavebuf",
    "window",
];

#[test]
fn a_setting_that_a_type_has_not_is_refused_with_those_that_it_has() {
    for (type_name, has) in TYPES.into_iter().zip([
        "it has `op`, `per`, `by`",
        "it has none",
        "it has `by`",
        "it has `match`, `as`, `wrap`, `forget`",
        "it has `match`, `notmatch`",
        "it has `job`, `post`, `sequence`",
        "it has `every`, `nth`, `forget`",
        "it has `metric`, `above`, `below`, `clear`, `forget`",
        "it has none",
        "it has `size`, `seconds`, `op`, `forget`",
    ]) {
        let why = format!("`{type_name}` has no setting `colour`: {has}");
        assert_eq!(Bench::without_output(type_name).set("colour", "red"), Err(why));
    }
}

#[test]
fn a_value_that_a_setting_cannot_have_is_refused_with_what_would_be_right() {
    for (type_name, key, value, why) in [
        ("derivative", "wrap", "16", "`wrap` is one of `32`, `64`, `none`, not `16`"),
        ("derivative", "forget", "0", "`forget` is a time from 0.000001 to 1000000000 seconds, not `0`"),
        ("derivative", "as", "job", "`as` is a figure: what says whose values follow is none, not `job`"),
        ("rate", "every", "soon", "`every` is a time from 0.000001 to 1000000000 seconds, not `soon`"),
        ("rate", "nth", "0", "`nth` is a number from 1 to 18446744073709551615, not `0`"),
        ("aggregate", "op", "mean", "`op` is one of `count`, `sum`, `min`, `max`, `all`, not `mean`"),
        ("aggregate", "per", "core", "`per` is one of `whole`, `element`, not `core`"),
        ("aggregate", "by", "1,2,3,4,5,6,7,8,9", "`by` is a list of 8 at most"),
        ("window", "size", "65537", "`size` is a number from 1 to 65536, not `65537`"),
        ("window", "op", "all", "`op` is one of `mean`, `min`, `max`, `sum`, not `all`"),
        ("threshold", "above", "90 %", "`above` is a number from 0 to 18446744073709551615, not `90 %`"),
        ("threshold", "clear", "", "`clear` is a number or `none`, not ``"),
        ("filter", "match", "", "`match` is a list of figures, as `cpu,memory`, or `all`"),
        (
            "filter",
            "notmatch",
            "cpu,job",
            "`notmatch` is a figure: what says whose values follow is none, not `job`",
        ),
        ("prepend", "sequence", "yes", "`sequence` is one of `on`, `off`, not `yes`"),
        ("prepend", "post", "-1", "`post` is a number or `none`, not `-1`"),
    ] {
        assert_eq!(Bench::without_output(type_name).set(key, value), Err(why.into()), "{type_name} {key}");
    }
    let why = Bench::without_output("demux").set("by", "colour").unwrap_err();
    assert!(why.starts_with("`by` is an id's number, or one of `cpu`, `memory`"), "{why}");
    assert!(why.ends_with("`alarm-value`, `alarm-text`, not `colour`"), "{why}");
}

#[test]
fn a_refused_value_leaves_the_one_before() {
    let mut bench = Bench::with("filter", &[("match", "cpu")]);
    bench.set("match", "memory,colour").unwrap_err();
    assert_eq!(bench.say(1, "1=1 2=2"), ["1=1"]);
    let mut bench = Bench::with("rate", &[("nth", "2")]);
    bench.set("every", "0").unwrap_err();
    assert_eq!(bench.say(1, "1=1;1=2;1=3"), ["1=1", "1=3"]);
}

#[test]
fn an_output_that_a_type_has_not_is_refused() {
    for type_name in TYPES {
        let mut bench = Bench::without_output(type_name);
        bench.create("wavebuf", "next", &[]);
        let why = match type_name {
            "demux" => "`demux` has outputs that are named by numbers, as `7`, and `rest`, not `07`".into(),
            _ => format!("`{type_name}` has one output, `out`, not `07`"),
        };
        let refused = bench.runtime.order(link_order(("it", "07"), ("next", "in")), 0);
        assert_eq!(refused, Err(Refusal::ByStage(why)));
        assert_eq!(bench.runtime.edges().len(), 1);
    }
}

#[test]
fn inputs_are_called_as_one_likes() {
    for type_name in TYPES {
        let mut bench = Bench::without_output(type_name);
        let more = Order::Link((who("feed"), "out".into()), (who("it"), "load-u64".into()));
        assert!(bench.runtime.order(more, 0).is_ok(), "{type_name}");
    }
}

/// A figure that has a name only, whose value is as long as some numbers are.
#[test]
fn the_text_of_a_name_is_no_number() {
    let id = starfarm_agent_core::named::id("switch.pressure").0;
    // Length and name, and a float whose bytes can be written here.
    let pressure = format!("{id}='\u{f}switch.pressureAAAAAAAA");
    let shown = Bench::new("rate").say(1, &pressure);
    for (type_name, settings) in [("window", &[("size", "3")][..]), ("derivative", &[]), ("aggregate", &[])] {
        let mut bench = Bench::with(type_name, settings);
        let passes = matches!(type_name, "window" | "derivative");
        for second in 1..=3 {
            let came = bench.say(second, &pressure);
            assert_eq!(came, if passes { shown.clone() } else { Vec::new() }, "{type_name}");
        }
        assert_eq!(bench.not_taken(), if passes { 0 } else { 3 }, "{type_name}");
    }
}
