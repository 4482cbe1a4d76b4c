//! Children that tell, in an agent that has nothing else.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use starfarm_protocol::metric::Metric;

use super::*;
use crate::runtime::Runtime;
use crate::words::StageNumber;

const SECOND_US: u64 = 1_000_000;

/// Says what it was told to when it is ready, and keeps what comes.
#[derive(Clone, Default)]
struct Desk(Rc<RefCell<Kept>>);

/// What is to be told, by whom and measured when; and what came.
type Kept = (Vec<(u64, u64, Group)>, Vec<String>);

impl Stage for Desk {
    fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
        Ok(())
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        if *word == Word::Ready {
            for (child, at_us, group) in self.0.borrow_mut().0.drain(..) {
                context.emit(0, |message| {
                    message.put_number(ids::POST, child);
                    message.put_number(ids::AT, at_us);
                    group.put(message);
                });
            }
        }
        Ok(())
    }

    fn data(&mut self, _: usize, values: Triples<'_>, _: &mut Context<'_>) {
        let mut kept = self.0.borrow_mut();
        kept.1
            .push(groups(PostId(0), 0, values, u64::MAX / 2).iter().map(said).collect::<Vec<_>>().join(", "));
    }
}

/// `job 7 at 1: 2 units of 1/2 nodes, 900` or `post 5 at 1: 900`; seconds.
fn said(group: &Group) -> String {
    let Group { post, at_us, job, units, from, of, figures, .. } = group;
    let cpu = figures.get(&Metric::Cpu).map_or(0, |summary| summary.sum);
    let at = *at_us as f64 / SECOND_US as f64;
    match job {
        Some(JobId(job)) => format!("job {job} at {at}: {units} units of {from}/{of} nodes, {cpu}"),
        None => format!("post {post} at {at}: {cpu}"),
    }
}

struct Post {
    runtime: Runtime,
    desk: Desk,
    number: StageNumber,
    late: Rc<Cell<u64>>,
}

impl Post {
    fn new() -> Self {
        let (mut runtime, desk) = (Runtime::new(&[]), Desk::default());
        let number = runtime.add("desk", Box::new(desk.clone()), Some("desk")).unwrap();
        let late = Rc::<Cell<u64>>::default();
        runtime.add("gather", Box::new(Gather::new(SECOND_US, Rc::clone(&late))), Some("gather")).unwrap();
        for (from, output, to, input) in [
            ("desk", "out", "gather", "in"),
            ("gather", "job", "kept", "in"),
            ("gather", "system", "kept", "in"),
        ] {
            if to == "kept" && output == "job" {
                runtime.add("desk", Box::new(desk.clone()), Some("kept")).unwrap();
            }
            let link = Order::Link((Who::from(from), output.into()), (Who::from(to), input.into()));
            runtime.order(link, 0).unwrap();
        }
        Self { runtime, desk, number, late }
    }

    fn tell(&mut self, child: u64, at_us: u64, now_us: u64, group: Group) -> Vec<String> {
        self.desk.0.borrow_mut().0.push((child, at_us, Group { at_us, ..group }));
        self.runtime.order(Order::Tell(Who::Number(self.number), Word::Ready), now_us).unwrap();
        self.heard()
    }

    fn heard(&mut self) -> Vec<String> {
        std::mem::take(&mut self.desk.0.borrow_mut().1)
    }

    fn on_time(&mut self, now_us: u64) -> Vec<String> {
        self.runtime.on_time(now_us);
        self.heard()
    }
}

fn job(job: u64, units: u64, cpu: u64) -> Group {
    let figures = crate::Figures::from([(Metric::Cpu, crate::summary::Summary::of(cpu))]);
    Group { job: Some(JobId(job)), units, from: 1, of: 1, figures, ..Group::of_nobody() }
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_wave_is_over_when_all_are_in_or_after_half_a_period() {
    let mut post = Post::new();
    let s = SECOND_US;
    assert_eq!(post.tell(1, s, s, job(7, 2, 900)), ["job 7 at 1: 2 units of 1/1 nodes, 900"]);
    assert_eq!(post.tell(2, s, s + 1, job(7, 1, 50)), NOTHING, "late: nobody knew that it would come");
    assert_eq!(post.late.get(), 1);
    assert_eq!(post.tell(2, 2 * s, 2 * s, job(7, 1, 60)), NOTHING);
    assert_eq!(post.tell(1, 2 * s, 2 * s + 9, job(7, 2, 800)), ["job 7 at 2: 3 units of 2/2 nodes, 860"]);
    // One is silent: what it told last goes for the wave after that, and no longer.
    for (second, told) in [(3, "3 units of 2/2 nodes, 861"), (4, "1 units of 1/2 nodes, 61")] {
        assert_eq!(post.tell(2, second * s, second * s, job(7, 1, 61)), NOTHING);
        assert_eq!(post.on_time(second * s + s / 4), NOTHING);
        assert_eq!(post.on_time(second * s + s / 2), [format!("job 7 at {second}: {told}")]);
    }
}

#[test]
fn a_post_that_ends_says_what_is_in_of_the_waves_that_are_open() {
    let mut post = Post::new();
    let s = SECOND_US;
    for child in [1, 2] {
        post.tell(child, s, s, job(7, 1, child));
        post.tell(child, s, s, Group { post: PostId(child), job: None, ..job(7, 0, 9) });
    }
    assert_eq!(post.tell(2, 2 * s, 2 * s, job(7, 1, 60)), NOTHING);
    let flush = |post: &mut Post| {
        let word = Word::Set { key: "flush".into(), value: String::new() };
        post.runtime.order(Order::Tell("gather".into(), word), 2 * s + 1).unwrap();
        post.heard()
    };
    // What the other told last is of the wave before, and goes for it.
    assert_eq!(flush(&mut post), ["job 7 at 2: 2 units of 2/2 nodes, 61"]);
    assert_eq!(flush(&mut post), NOTHING, "it is over");
    assert_eq!(post.on_time(3 * s), NOTHING);
}

#[test]
fn the_next_wave_ends_the_one_before() {
    let mut post = Post::new();
    let s = SECOND_US;
    post.tell(1, s, s, job(7, 1, 1));
    post.tell(2, s, s, job(7, 1, 1));
    assert_eq!(post.tell(1, 2 * s, 2 * s, job(7, 1, 2)), NOTHING);
    let told = post.tell(1, 3 * s, 2 * s + 3, job(7, 1, 3));
    assert_eq!(told, ["job 7 at 2: 2 units of 2/2 nodes, 3"]);
}

#[test]
fn what_the_last_units_used_is_not_lost() {
    let mut post = Post::new();
    let s = SECOND_US;
    post.tell(1, s, s, job(7, 1, 5));
    post.tell(2, s, s, job(7, 1, 6));
    assert_eq!(post.tell(1, 2 * s, 2 * s, job(7, 0, 4)), NOTHING);
    assert_eq!(post.tell(2, 2 * s, 2 * s, job(7, 1, 7)), ["job 7 at 2: 1 units of 1/1 nodes, 11"]);
    assert_eq!(post.tell(2, 3 * s, 3 * s, job(7, 0, 3)), ["job 7 at 3: 0 units of 0/0 nodes, 3"]);
}

#[test]
fn a_job_that_nobody_runs_any_more_is_told_of_once() {
    let mut post = Post::new();
    let s = SECOND_US;
    post.tell(1, s, s, job(7, 1, 5));
    assert_eq!(post.tell(1, 2 * s, 2 * s, job(7, 0, 0)), ["job 7 at 2: 0 units of 0/0 nodes, 0"]);
    assert_eq!(post.on_time(9 * s), NOTHING);
}

/// Its units others tell of, in a tree of their own: they are no units here, and it is not over as long as its programs say
/// something.
#[test]
fn what_programs_say_of_a_job_of_whose_units_others_tell_is_of_no_unit() {
    let mut post = Post::new();
    let s = SECOND_US;
    let mut named = Amounts::default();
    assert!(named.add("job.heat", crate::named::Amount::of(3.0)));
    let apart = |named: &Amounts| Group {
        job: Some(JobId(7)),
        units: 0,
        from: 0,
        of: 0,
        named: named.clone(),
        ..Group::of_nobody()
    };
    assert_eq!(post.tell(1, s, s, job(7, 1, 5)), ["job 7 at 1: 1 units of 1/1 nodes, 5"]);
    assert_eq!(post.tell(1, 2 * s, 2 * s, apart(&named)), ["job 7 at 2: 0 units of 0/0 nodes, 0"]);
    assert_eq!(post.tell(2, 3 * s, 3 * s, job(7, 2, 6)), NOTHING, "the other is waited for");
    assert_eq!(post.tell(1, 3 * s, 3 * s, apart(&named)), ["job 7 at 3: 2 units of 1/1 nodes, 6"]);
    post.tell(2, 4 * s, 4 * s, apart(&Amounts::default()));
    assert_eq!(
        post.tell(1, 4 * s, 4 * s, apart(&Amounts::default())),
        ["job 7 at 4: 0 units of 0/0 nodes, 0"]
    );
    assert_eq!(post.on_time(5 * s), NOTHING, "it is over");
}

#[test]
fn machines_are_told_of_one_by_one_in_one_message() {
    let mut post = Post::new();
    let s = SECOND_US;
    let machine = |n: u64, cpu| Group { post: PostId(n), job: None, ..job(0, 0, cpu) };
    post.tell(1, s, s, machine(1, 1));
    post.tell(2, s, s, machine(2, 1));
    assert_eq!(post.tell(1, 2 * s, 2 * s, machine(1, 10)), NOTHING);
    let told = post.tell(2, 2 * s, 2 * s, machine(2, 20));
    assert_eq!(told, ["post 1 at 2: 10, post 2 at 2: 20"]);
}

#[test]
fn a_child_that_has_gone_is_not_waited_for_nor_counted() {
    let mut post = Post::new();
    let s = SECOND_US;
    post.tell(1, s, s, job(7, 1, 1));
    post.tell(2, s, s, job(7, 1, 1));
    let gone = Word::Set { key: "gone".into(), value: "2".into() };
    post.runtime.order(Order::Tell(Who::from("gather"), gone), s).unwrap();
    assert_eq!(post.tell(1, 2 * s, 2 * s, job(7, 1, 4)), ["job 7 at 2: 1 units of 1/1 nodes, 4"]);
}

#[test]
fn a_job_with_a_period_of_its_own_has_waves_of_its_own() {
    let mut post = Post::new();
    let s = SECOND_US;
    let periods = Word::Set { key: "periods".into(), value: "1000000 7=100000".into() };
    post.runtime.order(Order::Tell(Who::from("gather"), periods), 0).unwrap();
    for child in [1, 2] {
        post.tell(child, s, s, job(7, 1, 1));
        post.tell(child, s, s, job(8, 1, 1));
    }
    assert_eq!(post.tell(1, s + s / 10, s + s / 10, job(7, 1, 2)), NOTHING);
    let told = post.tell(2, s + s / 10, s + s / 10, job(7, 1, 3));
    assert_eq!(told, ["job 7 at 1.1: 2 units of 2/2 nodes, 5"]);
    assert_eq!(post.tell(1, s + s / 5, s + s / 5, job(7, 1, 2)), NOTHING);
    assert_eq!(post.on_time(s + s / 4), ["job 7 at 1.2: 2 units of 2/2 nodes, 5"], "half of its own period");
    for wrong in ["", "0", "x", "1000000 7", "1000000 7=0"] {
        let periods = Word::Set { key: "periods".into(), value: wrong.into() };
        assert!(post.runtime.order(Order::Tell(Who::from("gather"), periods), 0).is_err(), "{wrong}");
    }
}

#[test]
fn a_job_of_which_nobody_tells_any_more_is_forgotten_and_that_is_said() {
    let mut post = Post::new();
    let s = SECOND_US;
    post.tell(1, s, s, job(7, 1, 1));
    let machine = Group { post: PostId(1), job: None, ..job(0, 0, 1) };
    let told: Vec<_> = (2..50).flat_map(|n| post.tell(1, n * s, n * s, machine.clone())).collect();
    let of_seven: Vec<_> = told.iter().filter(|told| told.starts_with("job 7")).collect();
    assert!(of_seven.len() == 1 && of_seven[0].ends_with("0 units of 0/0 nodes, 0"), "{of_seven:?}");
}

#[test]
fn a_child_whose_clock_is_ahead_does_not_end_the_waves_of_others() {
    let mut post = Post::new();
    let s = SECOND_US;
    post.tell(1, s, s, job(7, 1, 1));
    post.tell(2, u64::MAX, s, job(7, 1, 1));
    for n in 2..8 {
        post.tell(1, n * s, n * s, job(7, 1, n));
        post.tell(2, n * s, n * s, job(7, 1, n));
    }
    assert!(post.late.get() < 6, "{}", post.late.get());
}

#[test]
fn many_machines_are_told_of_in_messages_that_a_link_takes() {
    let mut post = Post::new();
    let s = SECOND_US;
    for child in 0..1_000 {
        post.tell(child, s, s, Group { post: PostId(child), job: None, ..job(0, 0, 1) });
    }
    let mut told = Vec::new();
    for child in 0..1_000 {
        told.extend(post.tell(child, 2 * s, 2 * s, Group { post: PostId(child), job: None, ..job(0, 0, 1) }));
    }
    assert!(told.len() > 1 && told.iter().all(|message| message.split(", ").count() < 400), "{}", told.len());
}
