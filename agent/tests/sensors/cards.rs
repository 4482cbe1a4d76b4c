//! What cards do, by the worker's file `cards.json`.

use std::collections::BTreeMap;

use starfarm_agent::sensors::accelerators;
use starfarm_agent_core::Summary;
use starfarm_protocol::gauges::{Gauge, Gauges};
use starfarm_protocol::metric::Metric;
use starfarm_protocol::wire::CardFigures;

use crate::common::*;

fn card(load: Option<u16>, memory_used_bytes: Option<u64>) -> Gauge {
    let figures = CardFigures { load, memory_used_bytes, ..CardFigures::default() };
    Gauge { figures, ..Gauge::default() }
}

fn file(cards: Vec<Gauge>, slots: &[(usize, &[u16])]) -> Vec<u8> {
    let slots: BTreeMap<_, _> = slots.iter().map(|(slot, cards)| (*slot, cards.to_vec())).collect();
    serde_json::to_vec(&Gauges { cards, slots }).unwrap()
}

fn spread(numbers: &[u64]) -> Option<Summary> {
    numbers.iter().copied().map(Summary::of).reduce(Summary::and)
}

#[test]
fn a_machine_has_what_all_its_cards_do() {
    let tree = Tree::new();
    let mut bench = Bench::of(accelerators::stage());
    assert_eq!(bench.said(1), None, "nobody has said where to look");
    let path = tree.path().join("cards.json").display().to_string();
    assert!(bench.set("file", "cards.json").unwrap_err().contains("absolute"));
    bench.set("file", &path).unwrap();
    assert!(bench.set("file", "/elsewhere").unwrap_err().contains("set already"));
    assert_eq!(bench.said(2), None, "a machine without cards has no such file");
    tree.put("cards.json", file(vec![card(Some(870), Some(8)), card(Some(20), None), card(None, None)], &[]));
    let said = bench.said(3).unwrap();
    assert_eq!(said.summary(Metric::Gpu), spread(&[870_000, 20_000]));
    assert_eq!(said.summary(Metric::GpuMemory), spread(&[8]));
    tree.put("cards.json", file(vec![card(None, None)], &[]));
    assert_eq!(bench.said(4), None, "what is not known is no figure");
    tree.put("cards.json", "{\"cards\":");
    assert_eq!(bench.said(5), None);
}

#[test]
fn units_have_what_the_cards_do_that_they_were_given() {
    let (tree, mut board) = (Tree::new(), Board::new(4));
    let mut bench = units_at(tree.path(), &board);
    for (slot, job) in [(0, 7), (1, 7), (2, 8)] {
        board.run(slot, (job, slot as u128), 100 + slot as u32);
    }
    // Slots 0 and 1 share the first card, slot 3 computes nothing any more.
    let cards = vec![card(Some(800), Some(1_000)), card(Some(100), Some(50)), card(Some(999), Some(1))];
    let slots: &[(usize, &[u16])] = &[(0, &[0, 1]), (1, &[0]), (3, &[2])];
    let folder = std::path::PathBuf::from(board.path());
    let path = folder.with_file_name("cards.json");
    std::fs::write(&path, file(cards, slots)).unwrap();
    let said = bench.wave(1);
    let of: Vec<_> = said.iter().map(|said| (said.of(), said.summary(Metric::Gpu))).collect();
    assert_eq!(of, [((7, 2), spread(&[500_000, 400_000])), ((8, 1), None)]);
    assert_eq!(said[0].summary(Metric::GpuMemory), spread(&[550, 500]));
    bench.set("metrics", &(1 << Metric::Cpu as u8).to_string()).unwrap();
    assert_eq!(bench.wave(2)[0].summary(Metric::Gpu), None);
}
