//! What keys and answers lead to.

use starfarm_protocol::admin::{JobCommand, NodeCommand, Request, Rule, SizeInfo};
use starfarm_protocol::job::JobState;
use starfarm_protocol::units::Units;

use super::*;
use crate::failure::{Exit, Failure};

fn look(after: u64, whole: Option<Subject>) -> Vec<Ask> {
    vec![Ask::Look { after, shows: whole.map_or(Shows::Nothing, Shows::Whole) }]
}

fn job_verb(id: u64, command: JobCommand) -> Vec<Ask> {
    vec![Ask::Do(Request::Job { id: JobId(id), command }, SECOND * 3)]
}

#[test]
fn the_farm_is_looked_at_once_an_interval_and_never_twice_at_a_time() {
    let mut seat = Seat::new(false, 80, 24);
    assert_eq!(seat.asks(), []);
    assert_eq!(seat.passes(SECOND / 2), []);
    assert_eq!(seat.app.next_look(seat.now), SECOND / 2);
    assert_eq!(seat.passes(SECOND / 2), look(6, None));
    assert_eq!(seat.passes(SECOND * 9), [], "the last one is not answered yet");
    seat.sees(Picture { events: events(7..=8), ..picture() });
    assert_eq!(seat.asks(), look(8, None), "it is late already");
}

#[test]
fn the_tree_is_asked_for_while_it_is_shown() {
    let mut seat = Seat::new(false, 80, 24);
    seat.press("t").shows("waiting for the tree");
    assert_eq!(seat.asks(), [Ask::Look { after: 6, shows: Shows::Tree }]);
    seat.sees(Picture { tree: Some(Ok(tree())), ..picture() });
    for words in ["live: 38 back ends, 1 CPs", "post", "received", "lab-2 ", "21 more lines"] {
        seat.shows(words);
    }
    seat.shows_not("lab-39");
    // The headings stay where they are.
    seat.press("<end>").shows("lab-39");
    seat.shows("received");
    seat.shows_not("more lines");
    // What a look brings that was asked for before is no reason to forget the tree.
    seat.sees(picture());
    seat.shows("lab-39");
    seat.press("p").shows("p pauses a job");
    seat.press("t").shows("JOBS");
    seat.passes(SECOND);
    seat.press("t");
    seat.sees(Picture { tree: Some(Err("there is no tree".into())), ..picture() });
    seat.shows("there is no tree");
    seat.press("<esc>").shows("JOBS");
}

#[test]
fn what_was_used_of_late_is_a_line() {
    let mut seat = Seat::new(false, 80, 40);
    seat.press("<enter>");
    seat.sees(Picture { whole: Some(whole(job_4())), ..picture() });
    seat.shows("cpu, last 2 min");
    seat.shows("0 to 3.00");
    seat.shows("███▇▇▇▇▆▆▆▆▅▅    ▄▄▃▃▃▃▂▂▂▂▃▃");
    let mut blank = whole(job_4());
    blank.line = Some(UsageLine::default());
    seat.sees(Picture { whole: Some(blank), ..picture() });
    seat.shows_not("last 2 min");
}

#[test]
fn a_job_is_paused_with_a_confirmation_and_resumed() {
    let mut seat = Seat::new(false, 80, 24);
    seat.press("p").shows("pause job 4 (keys)? y/n");
    assert_eq!(seat.asks(), [], "nothing without a yes");
    seat.press("x").shows("left as it is");
    assert_eq!(seat.asks(), []);
    seat.press("py");
    assert_eq!(seat.asks(), job_verb(4, JobCommand::Pause));
    seat.hears(Input::Did(Ok(())));
    seat.shows("done");
    assert_eq!(seat.asks(), look(6, None), "what changed is seen at once");
    seat.press("<down>p<enter>");
    assert_eq!(seat.asks(), job_verb(5, JobCommand::Resume));
    seat.hears(Input::Did(Err(Failure::new(Exit::Conflict, "job 5 has just ended"))));
    seat.shows("job 5 has just ended");
}

#[test]
fn a_role_that_may_only_look_on_is_refused_once() {
    let mut seat = Seat::new(false, 80, 24);
    seat.shows("p pause");
    seat.press("py");
    assert_eq!(seat.asks(), job_verb(4, JobCommand::Pause));
    seat.press("c");
    seat.hears(Input::Did(Err(Failure::new(Exit::Refused, "the role observer may not do that"))));
    seat.shows("read-only now: the role observer may not do that");
    assert_eq!(seat.asks(), look(6, None));
    seat.press("y").shows("(read-only)");
    seat.shows_not("p pause");
    seat.press("cy").shows("(read-only)");
    assert_eq!(seat.asks(), [], "it would be refused again");
}

#[test]
fn one_load_for_all_slots_is_not_that_of_the_first() {
    let mut seat = Seat::new(false, 80, 24);
    let mut status = status(3);
    let node = status.nodes.iter_mut().find(|node| node.name == "lab-1").unwrap();
    (node.slots, node.load) = (70, vec![500]);
    seat.press("<tab><enter>");
    seat.sees(Picture { status, ..picture() });
    seat.shows("load               mean of 70 slots:  50% ██");
    seat.shows_not("load of slot");
}

#[test]
fn where_the_speed_was_measured_is_told_as_job_explain_does() {
    let size = |units, units_per_s, measured| SizeInfo {
        device: None,
        job: JobId(4),
        node: "lab-1".into(),
        units: Units(units),
        rule: Rule::First,
        units_per_s,
        measured,
        start_seconds: None,
        target_seconds: None,
        target_units: None,
        growth_units_max: None,
        tail_units_max: None,
        units_max: Units(9),
    };
    let mut known = whole(job_4());
    let why = known.why.as_mut().unwrap();
    why.sizes = vec![size(1, 0.0, false), size(2, 3.0, false), size(4, 5.0, true)];
    let mut seat = Seat::new(false, 80, 60);
    seat.press("<enter>");
    seat.sees(Picture { whole: Some(known), ..picture() });
    seat.shows("job  node   size  decided by  units/s  measured\n");
    seat.shows("  4  lab-1     1  first             0  nowhere\n");
    seat.shows("  4  lab-1     2  first             3  elsewhere\n");
    seat.shows("  4  lab-1     4  first             5  here\n");
}

#[test]
fn hints_that_have_no_room_are_left_out_whole() {
    let mut seat = Seat::new(false, 60, 15);
    seat.shows("\n? help  q quit  / filter  s sort  p pause  c cancel  t tree\n");
    seat.press("<enter>").shows("scroll, 12 more lines  p pause\n");
    seat.hears(Input::Resize(80, 24));
    seat.press("<esc>")
        .shows("\n? help  q quit  / filter  s sort  p pause  c cancel  Tab next  Enter open\n");
}

#[test]
fn what_was_said_gives_way_to_the_keys() {
    let mut seat = Seat::new(false, 80, 24);
    seat.passes(SECOND);
    seat.press("py");
    seat.hears(Input::Did(Err(Failure::unreachable("the scheduler has stopped"))));
    seat.sees(picture());
    seat.shows("the scheduler has stopped");
    seat.shows_not("p pause");
    seat.passes(SECOND * 9);
    seat.shows("the scheduler has stopped");
    seat.sees(picture());
    seat.shows_not("the scheduler has stopped");
    seat.shows("p pause");
}

#[test]
fn a_cancel_wants_a_y_and_nothing_else() {
    let mut seat = Seat::new(false, 80, 24);
    seat.press("c").shows("cancel job 4 (keys) for good? type y");
    seat.press("<enter>");
    assert_eq!(seat.asks(), []);
    seat.press("c<esc>");
    assert_eq!(seat.asks(), []);
    seat.press("cy");
    assert_eq!(seat.asks(), job_verb(4, JobCommand::Cancel));
    seat.press("<end>c").shows("job 1 has ended");
    seat.press("p").shows("job 1 has ended");
    assert_eq!(seat.asks(), []);
}

#[test]
fn a_node_is_drained_and_resumed() {
    let mut seat = Seat::new(false, 80, 24);
    seat.press("d").shows("d drains a node: select one");
    seat.press("<tab>p").shows("p pauses a job: select one");
    let verb = |name: &str, command| vec![Ask::Do(Request::Node { name: name.into(), command }, SECOND * 3)];
    seat.press("d").shows("drain node lab-1? y/n");
    seat.press("y");
    assert_eq!(seat.asks(), verb("lab-1", NodeCommand::Drain));
    seat.press("<down><down><down>dy");
    assert_eq!(seat.asks(), verb("lab-4", NodeCommand::Resume), "it drains already");
}

#[test]
fn an_onlooker_is_shown_no_key_that_does_not_work() {
    let mut seat = Seat::new(true, 80, 24);
    seat.shows_not("p pause");
    for keys in ["p", "c", "<tab>d"] {
        seat.press(keys).shows("read-only: nothing is changed from here");
        seat.press("y");
        assert_eq!(seat.asks(), []);
    }
    seat.press("?").shows_not("cancel the job");
}

#[test]
fn a_filter_works_as_it_is_written() {
    let mut seat = Seat::new(false, 80, 24);
    seat.press("/KEY").shows("JOBS 1 of 6  /KEY");
    seat.press("<back><back><back>paus").shows("JOBS 1 of 6  /paus");
    seat.press("<enter>p").shows("resume job 5");
    seat.press("n<esc>").shows("JOBS 6");
    seat.press("/nothing is so").shows("JOBS 0 of 6");
    seat.press("<enter>pcq");
    assert!(seat.app.has_quit, "no row, no question");
    seat.press("<esc><tab>/lab-1<enter>").shows("NODES 4 of 12  /lab-1");
    seat.shows("JOBS 6");
    seat.press("<tab>/lab-3<enter>").shows("EVENTS 1 of 6  /lab-3");
    seat.shows("node lab-3 joined");
    seat.shows_not("node lab-2 joined");
}

#[test]
fn what_is_selected_stays_so_while_rows_move() {
    let mut seat = Seat::new(false, 80, 24);
    seat.press("<down><down>");
    assert_eq!(seat.app.job().unwrap().id, JobId(6));
    let mut jobs = jobs();
    jobs[5].state = JobState::Running;
    seat.sees(Picture { jobs: jobs.clone(), ..picture() });
    assert_eq!((seat.app.job().unwrap().id, seat.app.jobs.place()), (JobId(6), 1));
    jobs.remove(5);
    seat.sees(Picture { jobs, ..picture() });
    assert_eq!(seat.app.job().unwrap().id, JobId(5), "the neighbour of one that is gone");
    seat.sees(Picture { jobs: Vec::new(), ..picture() });
    assert!(seat.app.job().is_none());
    seat.press("<down><up><pgdn><pgup><end><home><enter>pcd");
    assert_eq!(seat.asks(), []);
}

#[test]
fn sorting_goes_through_the_columns_and_round() {
    let mut seat = Seat::new(false, 80, 24);
    let names = |seat: &Seat| seat.app.nodes.rows().iter().map(|node| node.name.clone()).collect::<Vec<_>>();
    seat.press("<tab>");
    assert_eq!(names(&seat)[..3], ["lab-1", "lab-2", "lab-3"]);
    seat.press("s").shows("state▾");
    assert_eq!(names(&seat)[..4], ["lab-3", "lab-7", "lab-10", "lab-4"], "what needs a person first");
    seat.press("S").shows("state▴");
    assert_eq!(names(&seat)[11], "lab-3");
    // Columns that this screen has no room for are passed over.
    for heading in ["slots▴", "load▴", "cpu▴", "queue▴", "speed▴", "done▴", "silent▴", "name▴"]
    {
        seat.press("s").shows(heading);
    }
}

#[test]
fn a_job_and_a_node_are_opened_and_left() {
    let mut seat = Seat::new(false, 80, 24);
    seat.press("<enter>");
    assert_eq!(seat.asks(), look(6, Some(job_4())));
    seat.shows("specification");
    seat.sees(Picture { whole: Some(whole(job_4())), events: Vec::new(), ..picture() });
    seat.shows("why                It is as it should be.");
    seat.shows("↑↓ scroll, 9 more lines");
    seat.press("p").shows("pause job 4");
    seat.press("n<pgdn><pgdn><end>").shows("- It is made up.");
    seat.press("<end><up>");
    let screen = seat.screen();
    seat.press("<down><up>");
    assert_eq!(seat.screen(), screen, "there is nothing below the end");
    seat.press("<esc>").shows("JOBS 6");
    seat.press("<tab><enter>").shows("last heard");
    seat.press("d").shows("drain node lab-1");
    // What comes late for something else is not shown.
    seat.press("n");
    seat.sees(Picture { whole: Some(whole(job_4())), events: Vec::new(), ..picture() });
    seat.shows_not("It is as it should be.");
    seat.sees(Picture { status: StatusInfo { nodes: Vec::new(), ..status(3) }, ..picture() });
    seat.shows("node lab-1 is gone");
}

#[test]
fn long_words_go_on_in_the_next_line_and_are_scrolled_to() {
    let mut seat = Seat::new(false, 80, 24);
    seat.press("<enter>");
    let mut known = whole(job_4());
    let why = known.why.as_mut().unwrap();
    why.verdict = "It waits, since all of the nodes that could compute it hold as much as they may.".into();
    why.reasons[0].text = "many words ".repeat(20) + "at lab-3's end";
    seat.sees(Picture { whole: Some(known), ..picture() });
    let indent = " ".repeat(19);
    let why = "why                It waits, since all of the nodes that could compute it hold";
    seat.shows(&format!("{why}\n{indent}as much as they may.\n"));
    seat.shows(&format!("{}0\n{indent}707\n", "07".repeat(30)));
    seat.press("<end>").shows("at lab-3's\n  end\n? help");
    // A wider screen needs fewer lines: nothing is left empty below them.
    seat.hears(Input::Resize(200, 24));
    seat.shows("at lab-3's end\n? help");
}

#[test]
fn a_scheduler_that_is_silent_or_away_is_told_and_asked_again() {
    let mut seat = Seat::new(false, 80, 24);
    assert_eq!(seat.passes(SECOND), look(6, None));
    seat.passes(SECOND * 2);
    seat.shows_not("no answer");
    seat.passes(SECOND * 2);
    seat.shows("no answer for 5 s, trying again");
    seat.shows("lab-1");
    seat.hears(Input::Lost("the scheduler in d has stopped".into()));
    assert_eq!(seat.asks(), look(6, None));
    seat.shows("trying again");
    seat.shows("\nthe scheduler in d has stopped\n? help");
    seat.sees(picture());
    seat.shows_not("no answer");
    // A look that fails at once is told at once.
    seat.passes(SECOND);
    seat.hears(Input::Lost("gone".into()));
    seat.shows("no answer for 1 s");
}

#[test]
fn another_incarnation_tells_its_lines_from_the_first() {
    let mut seat = Seat::new(false, 80, 24);
    seat.passes(SECOND);
    seat.sees(Picture { status: status(4), events: Vec::new(), ..picture() });
    seat.shows("epoch 4");
    seat.shows_not("node lab-1 joined");
    assert_eq!(seat.asks(), look(0, None));
    seat.sees(Picture { status: status(4), events: events(1..=2), ..picture() });
    seat.shows("node lab-2 joined");
}

#[test]
fn event_lines_are_scrolled_and_holes_are_told() {
    let mut seat = Seat::new(false, 80, 24);
    seat.sees(Picture { events: events(10..=60), missed: 3, ..picture() });
    seat.shows("node lab-60 joined");
    seat.press("<backtab><pgup>").shows("older: End goes to the newest");
    seat.shows_not("node lab-60 joined");
    seat.shows("EVENTS 58  52-55  older");
    let before = seat.screen();
    seat.sees(Picture { events: events(61..=61), ..picture() });
    assert_eq!(seat.screen(), before.replace("EVENTS 58", "EVENTS 59"), "what is read stands still");
    seat.press("<end>").shows("node lab-61 joined");
    seat.press("<home>").shows("node lab-1 joined");
    seat.press("<down><down><down><down>").shows("(3 lines are missing here)");
    for numbers in (62..).step_by(100).take(30) {
        seat.sees(Picture { events: events(numbers..=numbers + 99), ..picture() });
    }
    assert_eq!(seat.app.lines.len(), 1_000);
}

#[test]
fn foreign_words_cannot_steer_the_terminal() {
    let seat = Seat::new(false, 80, 24);
    seat.shows("tea\\u{7}time");
}

#[test]
fn a_thread_that_fails_ends_the_screen() {
    let (to_app, inputs) = std::sync::mpsc::channel();
    crate::commands::top::spawn(to_app, |_| panic!("on purpose")).unwrap();
    assert!(matches!(inputs.recv(), Ok(Input::Gone)));
}

#[test]
fn it_ends() {
    let ends = |input: Input| {
        let mut seat = Seat::new(false, 80, 24);
        seat.hears(input);
        seat.app.has_quit
    };
    let key = |letter, modifiers| Input::Key(KeyEvent::new(KeyCode::Char(letter), modifiers));
    assert!(ends(key('q', KeyModifiers::NONE)));
    assert!(ends(key('c', KeyModifiers::CONTROL)));
    assert!(!ends(key('x', KeyModifiers::NONE)));
    // While something is written or asked, a q is a letter.
    let mut seat = Seat::new(false, 80, 24);
    seat.press("/q<enter>cq");
    assert!(!seat.app.has_quit);
}

#[test]
fn a_question_is_asked_whole_however_long_the_name() {
    let mut seat = Seat::new(false, 60, 15);
    let long = JobInfo { name: "東京".repeat(40), ..job(9) };
    let nodes = vec![node(&"n".repeat(64))];
    seat.sees(Picture { jobs: vec![long], status: StatusInfo { nodes, ..status(3) }, ..picture() });
    seat.press("c").shows("\ncancel job 9 (東");
    seat.shows("…) for good? type y\n");
    seat.press("n<tab>d").shows(&format!("\ndrain node {}…? y/n\n", "n".repeat(60 - 17)));
}

#[test]
fn what_is_cut_says_so() {
    let mut seat = Seat::new(false, 80, 24);
    let mut events = events(1..=1);
    events[0].text = "long words ".repeat(10);
    let long = JobInfo { name: "a-name-too-long-for-its-column".into(), ..job(9) };
    seat.sees(Picture { jobs: vec![long], events, ..picture() });
    seat.shows("   9 a-name-too-… running");
    let screen = seat.screen();
    let last = screen.lines().rev().nth(1).unwrap();
    assert!(last.chars().count() == 80 && last.ends_with('…'), "{last}");
    // A character of two columns is cut as a whole.
    seat.sees(Picture { jobs: vec![JobInfo { name: "東京都".repeat(9), ..job(9) }], ..picture() });
    seat.shows("9 東 京 都 東 京  … running");
}

#[test]
fn what_to_do_about_a_scheduler_that_is_away_is_readable_to_its_end() {
    let mut seat = Seat::new(false, 80, 24);
    seat.hears(Input::Lost("the reason is ".to_owned() + &"long ".repeat(20) + "and what to do"));
    seat.shows("and what to do\n? help");
    seat.shows("p pause");
}

#[test]
fn only_what_a_key_would_do_is_offered() {
    let mut seat = Seat::new(false, 80, 24);
    seat.shows("p pause  c cancel");
    seat.press("<down>").shows("p resume  c cancel");
    seat.press("<end>").shows_not("c cancel");
    seat.shows_not("p pause");
    seat.press("<tab>").shows("d drain");
    seat.press("<down><down><down>").shows("d resume");
    seat.press("<enter>").shows("d resume");
}

#[test]
fn a_lost_node_that_is_drained_is_resumed() {
    let mut seat = Seat::new(false, 80, 24);
    let mut status = status(3);
    let node = status.nodes.iter_mut().find(|node| node.name == "lab-10").unwrap();
    (node.drained, node.idle_us, node.memory_bytes, node.accelerators) =
        (true, 9_000_000, Some(0), Some(String::new()));
    (node.memory_claimable_bytes, node.slots_taken) = (0, 0);
    seat.press("<tab>/lab-10<enter>");
    seat.sees(Picture { status, ..picture() });
    seat.press("d").shows("resume node lab-10? y/n");
    seat.press("n<enter>").shows("state              lost, drained\n");
    seat.shows("memory             -\naccelerators       none\nslots              0 of 2 taken\n");
}

#[test]
fn no_number_is_cut_while_names_can_give_way() {
    for width in [60, 80, 120] {
        let mut seat = Seat::new(false, width, 24);
        let numbers = JobInfo { eta_seconds: Some(1e12), age_seconds: 754.0, ..job(1_234_567) };
        let waits = NodeInfo { silent_seconds: Some(86_000.0), ..node("lab-1") };
        let status = StatusInfo { nodes: vec![waits], ..status(3) };
        seat.sees(Picture { jobs: vec![numbers], status, ..picture() });
        for number in ["1234567 keys", "over 100 years", "23 h 53 min"] {
            seat.shows(number);
        }
        assert_eq!(width >= 100, seat.screen().contains("12 min 34 s"));
    }
}

#[test]
fn the_title_tells_what_is_in_sight_and_an_order_that_no_column_shows() {
    let mut seat = Seat::new(false, 120, 24);
    seat.shows("JOBS 6 ─");
    seat.press("<backtab><backtab><end>").shows("▶ NODES 12  7-12 ─");
    seat.press("<tab><tab>sssssssss").shows("age▾");
    seat.hears(Input::Resize(80, 24));
    seat.shows("▶ JOBS 6  by age▾ ─");
    seat.press("S").shows("by age▴");
}

#[test]
fn a_long_message_is_readable_to_its_end() {
    let mut seat = Seat::new(false, 60, 15);
    seat.hears(Input::Did(Err(Failure::new(Exit::Conflict, "many words ".repeat(9) + "and what to do"))));
    seat.shows("many words");
    seat.shows("and what to do\n");
}

#[test]
fn a_filter_is_written_while_rows_are_gone_through() {
    let mut seat = Seat::new(false, 80, 24);
    seat.press("<tab>/lab-1<down><enter>");
    assert_eq!(seat.app.node().unwrap().name, "lab-10");
}
