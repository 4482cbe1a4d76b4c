//! What the units of jobs use, on recorded folders: the worker is process 50, in group and session 40.

use std::path::Path;

use starfarm_agent_core::{Summary, ids};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::metric::Metric;

use crate::common::*;

/// A process as a test wants it; `cpu` in ticks of 10 ms.
#[derive(Clone, Copy)]
struct Process {
    number: u32,
    parent: u32,
    group: u32,
    session: u32,
    cpu: u64,
    start: u64,
    pages: u64,
    io: u64,
}

fn process(number: u32, parent: u32, cpu: u64) -> Process {
    let start = u64::from(number) * 10;
    Process { number, parent, group: number, session: 40, cpu, start, pages: 1, io: 0 }
}

fn page() -> u64 {
    rustix::param::page_size() as u64
}

impl Process {
    fn put(self, tree: &Tree) {
        let Self { number, parent, group, session, cpu, start, pages, io } = self;
        // A quarter each: its own, and of children that it has waited for.
        let [user, system, of_children] = [cpu / 4, cpu / 4, cpu / 4];
        let rest = cpu - user - system - of_children;
        let stat = format!(
            "{number} (a (b) c) S {parent} {group} {session} 0 -1 1 2 3 4 5 {user} {system} {of_children} {rest} 20 0 1 0 {start} 9\n"
        );
        tree.put(&format!("{number}/stat"), stat);
        tree.put(&format!("{number}/statm"), format!("99 {pages} 1 1 0 1 0\n"));
        let io = format!(
            "rchar: 7\nwchar: 7\nsyscr: 7\nsyscw: 7\nread_bytes: {}\nwrite_bytes: {}\n",
            io / 2,
            io - io / 2
        );
        tree.put(&format!("{number}/io"), io);
    }
}

fn put(tree: &Tree, processes: &[Process]) {
    processes.iter().for_each(|process| process.put(tree));
}

fn end(tree: &Tree, number: u32) {
    // Who has the file open can read it no more.
    tree.put(&format!("{number}/stat"), "");
    tree.remove(&number.to_string());
}

/// The system's first process, the worker, and others that are no unit's.
fn farm() -> Tree {
    let tree = Tree::new();
    put(
        &tree,
        &[process(1, 0, 9_000), Process { group: 40, ..process(50, 1, 9_000) }, process(60, 1, 9_000)],
    );
    let child = Process { group: 40, ..process(61, 50, 9_000) };
    put(&tree, &[child, process(62, 60, 9_000), process(63, 60, 9_000)]);
    tree.put("sys/kernel/ostype", "Linux\n");
    tree.put("self/stat", "");
    tree
}

/// Microseconds a second.
fn cpu(said: &Option<Said>) -> Option<u64> {
    said.as_ref().unwrap().sum(Metric::Cpu)
}

#[test]
fn a_unit_is_its_program_and_all_descendants() {
    let (tree, mut board) = (farm(), Board::new(2));
    board.run(0, (7, 3), 100);
    let mut bench = units_at(tree.path(), &board);
    put(&tree, &[process(100, 50, 400), process(101, 100, 40), process(102, 101, 4)]);
    let first = bench.said(10).unwrap();
    assert_eq!((first.of(), first.sum(Metric::Cpu), first.sum(Metric::Io)), ((7, 1), None, None));
    assert_eq!(first.summary(Metric::Memory), Some(Summary::of(3 * page())));
    let [a, b, c] = [process(100, 50, 450), process(101, 100, 90), process(102, 101, 14)];
    put(&tree, &[Process { pages: 5, io: 3_000, ..a }, Process { io: 500, ..b }, c]);
    let second = bench.said(12).unwrap();
    // 110 ticks in 2 s.
    assert_eq!(second.summary(Metric::Cpu), Some(Summary::of(550_000)));
    assert_eq!(second.summary(Metric::Memory), Some(Summary::of(7 * page())));
    assert_eq!(second.summary(Metric::Io), Some(Summary::of(1_750)));
}

#[test]
fn least_and_greatest_are_of_units_and_jobs_have_a_message_each() {
    let (tree, mut board) = (farm(), Board::new(4));
    let mut bench = units_at(tree.path(), &board);
    assert_eq!(bench.wave(1), []);
    for (slot, job, number) in [(0, 7, 100), (1, 8, 200), (3, 7, 300)] {
        board.run(slot, (job, u128::from(number)), number);
        put(&tree, &[process(number, 50, u64::from(number) / 10)]);
    }
    let said = bench.wave(2);
    let cpu: Vec<_> = said.iter().map(|said| (said.of(), said.summary(Metric::Cpu))).collect();
    let seven = Summary { count: 2, sum: 400_000, min: 100_000, max: 300_000 };
    assert_eq!(cpu, [((7, 2), Some(seven)), ((8, 1), Some(Summary::of(200_000)))]);
}

/// Another post of the node tells of them, in a tree of the job's own.
#[test]
fn units_of_a_job_that_is_told_of_elsewhere_are_none_here() {
    let (tree, mut board) = (farm(), Board::new(2));
    let mut bench = units_at(tree.path(), &board);
    for (slot, job, number) in [(0, 7, 100), (1, 8, 200)] {
        board.run(slot, (job, 0), number);
        put(&tree, &[process(number, 50, 10)]);
    }
    let of = |said: Vec<Said>| said.iter().map(Said::of).collect::<Vec<_>>();
    assert_eq!(of(bench.wave(1)), [(7, 1), (8, 1)]);
    bench.set("apart", "7 9").unwrap();
    let said = bench.wave(2);
    assert_eq!(of(said.clone()), [(7, 0), (8, 1)]);
    let zero = Some(&[0; 8][..]);
    assert_eq!((said[0].value(ids::FROM), said[0].value(ids::OF)), (zero, zero));
    assert_eq!((said[0].sum(Metric::Memory), said[1].sum(Metric::Memory)), (None, Some(page())));
    assert_eq!(of(bench.wave(3)), [(8, 1)], "that is said once");
    // What it used meanwhile the other has told.
    put(&tree, &[process(100, 50, 900), process(200, 50, 20)]);
    bench.set("apart", "9").unwrap();
    let said = bench.wave(4);
    assert_eq!((of(said.clone()), said[0].sum(Metric::Cpu)), (vec![(7, 1), (8, 1)], None));
    put(&tree, &[process(100, 50, 910), process(200, 50, 30)]);
    let said = bench.wave(5);
    assert_eq!([&said[0], &said[1]].map(|said| said.sum(Metric::Cpu)), [Some(100_000); 2]);
    // That the tree of another job goes costs nobody a figure.
    bench.set("apart", "").unwrap();
    put(&tree, &[process(100, 50, 920), process(200, 50, 40)]);
    let said = bench.wave(6);
    assert_eq!([&said[0], &said[1]].map(|said| said.sum(Metric::Cpu)), [Some(100_000); 2]);
    assert!(bench.set("apart", "seven").is_err());
}

#[test]
fn a_look_that_prepares_the_next_says_nothing() {
    let (tree, mut board) = (farm(), Board::new(1));
    let mut bench = units_at(tree.path(), &board);
    board.run(0, (7, 0), 100);
    put(&tree, &[process(100, 50, 10)]);
    bench.set("prepare", "").unwrap();
    assert_eq!(bench.wave(1), []);
    put(&tree, &[process(100, 50, 20)]);
    assert_eq!(cpu(&bench.said(2)), Some(100_000));
}

#[test]
fn what_a_process_used_is_not_lost_when_its_parent_has_waited_for_it() {
    let (tree, mut board) = (farm(), Board::new(1));
    board.run(0, (7, 3), 100);
    put(&tree, &[process(100, 50, 10), process(101, 100, 500)]);
    let mut bench = units_at(tree.path(), &board);
    bench.wave(1);
    end(&tree, 101);
    put(&tree, &[process(100, 50, 515)]);
    assert_eq!(cpu(&bench.said(2)), Some(50_000));
    // Between the looks at both its time is nowhere for a moment, and then it is not counted again.
    put(&tree, &[process(100, 50, 515), process(102, 100, 80)]);
    assert_eq!(cpu(&bench.said(3)), Some(800_000));
    end(&tree, 102);
    assert_eq!(cpu(&bench.said(4)), Some(0));
    put(&tree, &[process(100, 50, 600)]);
    assert_eq!(cpu(&bench.said(5)), Some(50_000));
    // The end of the unit: the worker has the exact time.
    end(&tree, 100);
    assert_eq!(cpu(&bench.said(6)), Some(0), "the worker has not said so yet");
    board.ended(0, 6_012_345);
    let last = bench.said(7).unwrap();
    assert_eq!((last.of(), last.sum(Metric::Cpu), last.sum(Metric::Memory)), ((7, 0), Some(12_345), None));
    assert_eq!(bench.wave(8), []);
}

/// 10 000 times `true`: no look ever sees one.
#[test]
fn units_that_no_look_sees_count() {
    let (tree, mut board) = (farm(), Board::new(1));
    let mut bench = units_at(tree.path(), &board);
    bench.wave(1);
    for unit in 0..1_000 {
        board.slots[0].computes(JobId(9), unit);
        board.slots[0].in_process(1_000);
        board.slots[0].ended(450);
    }
    board.run(0, (9, 1_000), 2_000);
    let said = bench.said(2).unwrap();
    assert_eq!((said.of(), said.sum(Metric::Cpu), said.sum(Metric::Memory)), ((9, 1), Some(450_000), None));
    // What nobody sees and nobody tells of is not zero.
    assert_eq!(bench.said(3).unwrap().sum(Metric::Cpu), None);
}

#[test]
fn a_daemon_of_a_unit_counts_by_its_past_its_group_its_session_or_its_mark() {
    let (tree, mut board) = (farm(), Board::new(2));
    board.run(0, (7, 3), 100);
    board.run(1, (8, 3), 200);
    put(&tree, &[process(100, 50, 0), process(200, 50, 0), process(101, 100, 0)]);
    // It is in the worker's group, which says nothing of others there.
    put(&tree, &[Process { group: 40, ..process(201, 200, 0) }]);
    let mark = |number: u32, mark: &str| {
        tree.put(&format!("{number}/environ"), format!("A=1\0STARFARM_UNIT={mark}\0B=2\0"));
    };
    mark(100, "50-1");
    mark(200, "50-2");
    mark(61, "50-9");
    let mut bench = units_at(tree.path(), &board);
    bench.wave(1);
    // One was seen before; others are in the group of the program, in the session of the one that was seen, or marked; their own
    // children come with them.
    put(&tree, &[Process { session: 101, ..process(101, 50, 10) }]);
    put(&tree, &[Process { group: 100, ..process(110, 50, 20) }, process(111, 110, 40)]);
    put(&tree, &[Process { session: 101, ..process(120, 50, 80) }]);
    put(&tree, &[Process { session: 130, ..process(130, 50, 160) }, process(131, 130, 320)]);
    mark(130, "50-1/130-7");
    // Not one of it: the worker's own group and session, and another's mark.
    put(&tree, &[Process { group: 40, ..process(140, 50, 5_000) }, process(141, 50, 5_000)]);
    mark(141, "50-11");
    let said = bench.wave(2);
    let cpu: Vec<_> = said.iter().map(|said| (said.of(), said.sum(Metric::Cpu))).collect();
    assert_eq!(cpu, [((7, 1), Some(6_300_000)), ((8, 1), Some(0))]);
    // The worker waits for those that it has inherited: what they used stays, and more comes.
    [110, 120, 130].into_iter().for_each(|number| end(&tree, number));
    put(
        &tree,
        &[process(111, 50, 40), process(131, 50, 325), Process { session: 101, ..process(101, 50, 10) }],
    );
    let said = bench.wave(3);
    assert_eq!(said[0].sum(Metric::Cpu), Some(50_000));
    // The unit is over, though a process of it is still there; the slot's next unit has nothing of it.
    board.ended(0, 0);
    end(&tree, 100);
    board.run(0, (7, 4), 150);
    put(&tree, &[process(150, 50, 3), process(131, 50, 9_000)]);
    bench.wave(4);
    put(&tree, &[process(150, 50, 8), process(131, 50, 19_000)]);
    assert_eq!(bench.wave(5)[0].sum(Metric::Cpu), Some(50_000));
}

#[test]
fn a_number_may_be_another_processs_by_now() {
    let (tree, mut board) = (farm(), Board::new(1));
    board.run(0, (7, 3), 100);
    put(&tree, &[process(100, 50, 10), process(101, 100, 30)]);
    let mut bench = units_at(tree.path(), &board);
    bench.wave(1);
    // Its child's number is that of a stranger.
    let stranger = Process { start: 9_999, ..process(101, 1, 7_000) };
    put(&tree, &[process(100, 50, 45), stranger]);
    assert_eq!(cpu(&bench.said(2)), Some(50_000));
    // A stranger's number is that of a child: nobody looks at strangers at each wave, but they are seen after 10 s.
    put(&tree, &[process(100, 50, 45), Process { start: 10_000, ..process(62, 100, 40) }]);
    assert_eq!(cpu(&bench.said(3)), Some(0));
    assert_eq!(cpu(&bench.said(23)), Some(20_000));
    // The next unit's program has the number of a stranger, of whom something else is known, and who had children.
    board.ended(0, 850_000);
    board.run(0, (7, 4), 60);
    put(&tree, &[Process { start: 10_001, ..process(60, 50, 25) }]);
    assert_eq!(cpu(&bench.said(24)), Some(250_000));
    put(&tree, &[Process { start: 10_001, ..process(60, 50, 75) }]);
    assert_eq!(cpu(&bench.said(25)), Some(500_000));
}

#[test]
fn processes_are_listed_again_where_there_is_a_new_one() {
    let (tree, mut board) = (farm(), Board::new(1));
    let newest = |number: u32| tree.put("loadavg", format!("1.00 1.00 1.00 1/9 {number}\n"));
    newest(101);
    board.run(0, (7, 3), 100);
    put(&tree, &[process(100, 50, 10), process(101, 100, 20)]);
    let mut bench = units_at(tree.path(), &board);
    bench.wave(1);
    // The system says that it is not there yet; those that are there are looked at nonetheless.
    put(&tree, &[process(102, 100, 40), process(101, 100, 25)]);
    assert_eq!(cpu(&bench.said(2)), Some(50_000));
    newest(102);
    assert_eq!(cpu(&bench.said(3)), Some(400_000));
    // Ends are seen without a list: it is the worker's child from then on.
    end(&tree, 101);
    put(&tree, &[process(100, 50, 35), process(102, 50, 45)]);
    assert_eq!(cpu(&bench.said(4)), Some(50_000));
}

#[test]
fn a_unit_in_a_thread_has_cpu_time_and_no_memory() {
    let (tree, mut board) = (farm(), Board::new(1));
    board.slots[0].computes(JobId(7), 0);
    board.slots[0].in_thread(55, 1_000_000);
    board.write();
    tree.put("55/task/55/schedstat", "1200000000 5 6\n");
    let mut bench = units_at(tree.path(), &board);
    bench.wave(1);
    tree.put("55/task/55/schedstat", "1700000999 5 6\n");
    let said = bench.said(2).unwrap();
    assert_eq!((said.of(), said.sum(Metric::Cpu)), ((7, 1), Some(500_000)));
    assert_eq!((said.sum(Metric::Memory), said.sum(Metric::Io)), (None, None));
    // Where the system counts in ticks only.
    tree.put("55/task/55/schedstat", "0 0 0\n");
    tree.put("55/task/55/stat", "55 (slot 0) R 1 50 40 0 -1 1 2 3 4 5 150 30 7 8 20 0 1 0 9 9\n");
    assert_eq!(bench.said(3).unwrap().sum(Metric::Cpu), Some(100_000));
    tree.remove("55");
    let said = bench.said(4).unwrap();
    assert_eq!((said.of(), said.sum(Metric::Cpu)), ((7, 1), None));
}

#[test]
fn what_may_not_be_looked_at_is_not_known() {
    let (tree, mut board) = (farm(), Board::new(1));
    board.run(0, (7, 3), 100);
    put(&tree, &[process(100, 50, 10)]);
    ["100/io", "100/statm"].into_iter().for_each(|file| tree.remove(file));
    let mut bench = units_at(tree.path(), &board);
    bench.wave(1);
    let said = bench.said(2).unwrap();
    assert_eq!(
        (said.sum(Metric::Cpu), said.sum(Metric::Memory), said.sum(Metric::Io)),
        (Some(0), None, None)
    );
    // Where it can be read no more, it is as it was.
    put(&tree, &[Process { io: 3_000, ..process(100, 50, 10) }, Process { io: 500, ..process(101, 100, 0) }]);
    bench.wave(3);
    tree.put("100/io", "");
    put(&tree, &[Process { io: 700, ..process(101, 100, 0) }]);
    assert_eq!(bench.said(4).unwrap().sum(Metric::Io), Some(200));
    // Files that are no such files, and a circle of parents.
    put(&tree, &[Process { start: 5, ..process(300, 301, 1) }, Process { start: 5, ..process(301, 300, 1) }]);
    tree.put("302/stat", "302 (x");
    tree.put("99999999999/stat", "");
    tree.put("100/statm", "x y\n");
    tree.put("100/io", "read_bytes: 18446744073709551615\nwrite_bytes: 2\n");
    assert_eq!(bench.said(5).unwrap().sum(Metric::Cpu), Some(0));
    let mut nowhere = units_at(Path::new("/nowhere"), &board);
    assert_eq!(nowhere.said(1).unwrap().of(), (7, 1));
    assert_eq!(nowhere.said(2).unwrap().sum(Metric::Cpu), None);
}

#[test]
fn a_file_that_is_away_or_damaged_says_nothing_and_its_return_is_a_first_look() {
    let (tree, mut board) = (farm(), Board::new(2));
    board.run(0, (7, 3), 100);
    put(&tree, &[process(100, 50, 60)]);
    let mut bench = units_at(tree.path(), &board);
    board.remove();
    assert_eq!(bench.wave(1), []);
    for ticks in [10, 60] {
        // As a worker does at its start.
        std::fs::write(board.path(), "").unwrap();
        assert_eq!(bench.wave(ticks), []);
        board.write();
        put(&tree, &[process(100, 50, ticks)]);
        assert_eq!(cpu(&bench.said(ticks + 1)), None);
    }
    put(&tree, &[process(100, 50, 110)]);
    assert_eq!(cpu(&bench.said(62)), Some(500_000));
    put(&tree, &[process(101, 100, 7)]);
    assert_eq!(cpu(&bench.said(63)), Some(70_000));
    // A damaged record says nothing, and the next one makes up for it.
    board.put(&[0x55; 3 * 64]);
    assert_eq!(bench.wave(64), []);
    put(&tree, &[process(100, 50, 140), process(101, 100, 17)]);
    board.write();
    assert_eq!(cpu(&bench.said(65)), Some(200_000));
}

#[test]
fn the_file_and_the_farm_are_set_once() {
    let (tree, mut board) = (farm(), Board::new(1));
    board.run(0, (7, 3), 100);
    let mut bench = Bench::of(starfarm_agent::sensors::units::stage(tree.path()));
    assert_eq!(bench.wave(1), []);
    assert_eq!(bench.set("running", "running"), Err("`running` is no absolute path".to_owned()));
    assert!(bench.set("farm", "12").unwrap_err().starts_with("`12` is no farm's id: expected 32"));
    bench.set("running", &board.path()).unwrap();
    assert_eq!(bench.wave(2), []);
    bench.set("farm", &FARM.to_string()).unwrap();
    for (key, value) in [("running", "/elsewhere"), ("farm", &FARM.to_string())] {
        assert_eq!(bench.set(key, value), Err(format!("`{key}` of `units` is set already")));
    }
    assert_eq!(bench.set("period", "1"), Err("`units` has no setting `period`".to_owned()));
    assert_eq!(bench.said(3).unwrap().of(), (7, 1));
    // Another farm's file says nothing.
    let mut other = Bench::of(starfarm_agent::sensors::units::stage(tree.path()));
    other.set("running", &board.path()).unwrap();
    other.set("farm", &"06".repeat(16)).unwrap();
    assert_eq!(other.wave(1), []);
}
