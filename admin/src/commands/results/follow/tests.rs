//! A job of a few units, followed in one look, in two, and to its end.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::super::pages::Seen;
use super::super::pages::testing::Fake;
use super::super::streams::StreamFiles;
use super::*;
use crate::jobfile;
use crate::output::Format;
use crate::output::Style;
use crate::output::testing::printed;

fn follower(sinks: Sinks) -> Follower {
    let text =
        "[space]\nkind = \"range\"\nfrom = 0\nto = 9\n[task]\nexecutor = \"command\"\nprogram = [\"true\"]\n";
    Follower::new(JobId(7), &jobfile::parse(text, "demo.toml", Path::new("")).unwrap(), sinks).unwrap()
}

fn printer() -> Printer {
    Printer::new(Format::Quiet, Style::PLAIN, Box::new(io::sink()))
}

/// What is printed of the first outputs of a fake, and then of all.
fn printed_in_two_looks(keep_order: bool, first: u64, fake: Fake) -> [String; 2] {
    let sinks = Sinks { print: Some(Print::Bare), keep_order, ..Sinks::default() };
    let mut follower = follower(sinks);
    let (mut fake, all) = (Fake { hidden: fake.outputs - first, ..fake }, fake.outputs);
    let before = printed(Format::Quiet, |printer| follower.read(&mut fake, printer, None));
    assert_eq!(fake.outputs, all);
    fake.hidden = 0;
    let after = printed(Format::Quiet, |printer| follower.finish_at(&mut fake, printer, true));
    [before, after]
}

#[test]
fn outputs_are_printed_once_as_they_come() {
    let fake = || Fake { backwards: true, ..Fake::new(0, 1, 5) };
    let printed = printed_in_two_looks(false, 3, fake());
    assert_eq!(printed, ["out 4\nout 3\nout 2\n", "out 1\nout 0\n"]);
    let fake = Fake { superseded: vec![3], ..fake() };
    assert_eq!(printed_in_two_looks(false, 3, fake), ["out 4\nout 2\n", "out 1\nout 0\n"]);
}

#[test]
fn in_order_an_output_waits_for_those_before_it() {
    let fake = || Fake::new(0, 0, 5);
    assert_eq!(printed_in_two_looks(true, 2, fake()), ["out 0\nout 1\n", "out 2\nout 3\nout 4\n"]);
    let backwards = Fake { backwards: true, ..fake() };
    assert_eq!(printed_in_two_looks(true, 4, backwards), ["", "out 0\nout 1\nout 2\nout 3\nout 4\n"]);
    // A unit without an output holds the others up no longer than to the end.
    let lacking = Fake { superseded: vec![1], ..fake() };
    assert_eq!(printed_in_two_looks(true, 4, lacking), ["out 0\n", "out 2\nout 3\nout 4\n"]);
}

#[test]
fn a_look_that_is_over_goes_on_at_the_next_one() {
    let sinks = Sinks { print: Some(Print::Bare), ..Sinks::default() };
    let (mut follower, mut fake) = (follower(sinks), Fake::new(0, 0, 5));
    let mut look = |until| printed(Format::Quiet, |printer| follower.read(&mut fake, printer, until));
    assert_eq!(look(Some(Instant::now())), "");
    assert_eq!(look(None), "out 0\nout 1\nout 2\nout 3\nout 4\n");
}

/// It would wait for ever for a unit that killed its workers.
#[test]
fn nothing_waits_for_a_unit_that_failed_without_an_output() {
    let sinks = Sinks { print: Some(Print::Bare), keep_order: true, ..Sinks::default() };
    // Units 0 and 1 have failed; unit 0 has no output.
    let (mut follower, mut fake) = (follower(sinks), Fake { superseded: vec![0], ..Fake::new(0, 2, 4) });
    let look = |failed| {
        printed(Format::Quiet, |printer| {
            follower.read(&mut fake, printer, None)?;
            follower.pass_over(&mut fake, failed, printer)
        })
    };
    assert_eq!([0, 2].map(look), ["", "out 1\nout 2\nout 3\n"]);
}

struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("starfarm-follow-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        Self(dir)
    }

    /// A follower that writes what units wrote into files.
    fn follower(&self, keep_order: bool) -> Follower {
        let folder = Folder::open(&self.0).unwrap();
        let streams = StreamFiles::testing("{}.txt");
        let sinks = Sinks { keep_order, ..Sinks::default() };
        follower(sinks.saving_all(Some(Saving::new(folder, Some(streams)))))
    }

    fn files(&self) -> Vec<(String, String)> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = fs::read_dir(&self.0).unwrap().map(name).collect();
        names.sort();
        let content = |name: &String| fs::read_to_string(self.0.join(name)).unwrap();
        names.iter().map(|name| (name.clone(), content(name))).collect()
    }

    fn names(&self) -> Vec<String> {
        self.files().into_iter().map(|(name, _)| name).collect()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn look(follower: &mut Follower, fake: &mut Fake) {
    printed(Format::Quiet, |printer| follower.read(fake, printer, None));
}

#[test]
fn files_are_there_while_the_job_runs_and_in_order_where_that_is_asked_for() {
    let fake = || Fake { backwards: true, hidden: 2, ..Fake::new(0, 0, 5) };
    for (keep_order, before) in [(false, vec!["2.txt", "3.txt", "4.txt"]), (true, vec![])] {
        let home = Home::new(&format!("order-{keep_order}"));
        let (mut follower, mut fake) = (home.follower(keep_order), fake());
        look(&mut follower, &mut fake);
        assert_eq!(home.names(), before);
        fake.hidden = 0;
        look(&mut follower, &mut fake);
        assert_eq!(home.names(), ["0.txt", "1.txt", "2.txt", "3.txt", "4.txt"]);
    }
}

#[test]
fn in_order_what_waits_is_not_written_where_the_job_has_not_ended() {
    let home = Home::new("paused");
    let mut fake = Fake { superseded: vec![1], ..Fake::new(0, 0, 3) };
    let mut finish = |has_ended| {
        let mut follower = home.follower(true);
        printed(Format::Quiet, |printer| follower.finish_at(&mut fake, printer, has_ended));
    };
    finish(false);
    assert_eq!(home.names(), ["0.txt"]);
    finish(true);
    assert_eq!(home.names(), ["0.txt", "2.txt"]);
}

#[test]
fn the_last_run_of_a_unit_counts_and_what_is_not_ours_stays() {
    let home = Home::new("replaced");
    let (mut follower, mut fake) = (home.follower(false), Fake { again: Some(1), ..Fake::new(0, 0, 3) });
    fake.hidden = 1;
    look(&mut follower, &mut fake);
    assert_eq!(home.files()[1].1, "out 1\n");
    // The first run of unit 1 does not count any more, the last output is that of its second run.
    fake.hidden = 0;
    look(&mut follower, &mut fake);
    assert_eq!(home.files(), [("0.txt".into(), "out 0\n".into()), ("1.txt".into(), "again 1\n".into())]);
    fs::write(home.0.join("0.txt"), "mine").unwrap();
    let mut other = home.follower(false);
    let refused = other.take(&mut fake, (0, Fake::default().output(0)), &mut printer());
    assert!(refused.unwrap_err().message.contains("is there and has other bytes"));
    assert_eq!(home.files()[0].1, "mine");
}

#[test]
fn a_look_costs_as_much_as_is_new_and_the_end_nothing_where_all_is_there() {
    let home = Home::new("cost");
    let (mut follower, mut fake) = (home.follower(false), Fake { hidden: 1, ..Fake::new(0, 0, 9) });
    let mut asked = |follower: &mut Follower, hidden| {
        (fake.hidden, fake.asked) = (hidden, 0);
        look(follower, &mut fake);
        fake.asked
    };
    assert_eq!(asked(&mut follower, 1), 5, "two of a page");
    assert_eq!([asked(&mut follower, 1), asked(&mut follower, 0)], [1, 1]);
    fake.asked = 0;
    let (saving, units) = (follower.sinks.saving.as_mut().unwrap(), UnitSet::from_iter([(0, 9)]));
    assert_eq!(saving.settle(&mut fake, &units).unwrap(), Seen::default());
    assert_eq!(fake.asked, 0);
}

#[test]
fn what_could_not_be_had_is_tried_again_at_the_end() {
    let home = Home::new("lost");
    let mut follower = home.follower(false);
    let mut fake = Fake { long: Some(b"long".to_vec()), gone: true, ..Fake::new(0, 0, 2) };
    look(&mut follower, &mut fake);
    assert_eq!(home.names(), [""; 0]);
    let units = UnitSet::from_iter([(0, 2)]);
    let saving = follower.sinks.saving.as_mut().unwrap();
    assert_eq!(saving.settle(&mut fake, &units).unwrap().lost.len(), 2);
    fake.gone = false;
    assert_eq!(saving.settle(&mut fake, &units).unwrap().lost, []);
    assert_eq!(home.names(), ["0.txt", "1.txt"]);
}
