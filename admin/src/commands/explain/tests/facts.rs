//! What is told beside the reasons, and an explanation without any.

use expect_test::expect;
use starfarm_protocol::admin::explain::Silence;
use starfarm_protocol::admin::{Explanation, Fact, FactValue, Reason, Subject};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::resources::Resource;
use starfarm_protocol::units::Units;

use super::Said;

#[test]
fn facts() {
    let values = [
        FactValue::Word("queued".into()),
        FactValue::Count(Units(u128::MAX)),
        FactValue::Amounts(vec![(Resource::Slots, 1), (Resource::Memory, 1 << 20)]),
        FactValue::Place(2, 5),
        FactValue::Lasts(8_000_000),
        FactValue::Ago(90_000_000),
        FactValue::Silence(Silence::For(500_000)),
        FactValue::Silence(Silence::SinceBefore(61_000_000)),
    ];
    let facts = values.map(|value| Fact { name: "it".into(), value }).into();
    let (subject, reasons) = (Subject::Job(JobId(3)), vec![Reason::NoDisk]);
    let said = Said::from(Explanation { subject, reasons, verdict: 0, sizes: Vec::new(), facts });
    let values: Vec<_> = said.facts.iter().map(|fact| fact.value.as_str()).collect();
    expect![[r#"
        queued
        340282366920938463463374607431768211455
        1 slot and 1.0 MiB of memory
        2 of 5
        8 s
        1 min 30 s ago
        0.5 s ago
        not since before this scheduler started, 1 min 01 s ago"#]]
    .assert_eq(&values.join("\n"));
}

#[test]
fn a_scheduler_that_names_no_reason_as_its_verdict_is_no_panic() {
    let subject = Subject::Node("ä".into());
    let why = Explanation { subject, reasons: Vec::new(), verdict: 9, sizes: Vec::new(), facts: Vec::new() };
    assert_eq!(Said::from(why).verdict, "Node ä .");
}
