//! `run`: a program that runs when values come, as to write a mail.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use starfarm_agent_core::{Context, Hook, Stage, Triples, Word};

use super::values::shown;
use crate::counts::Counts;
use crate::runner::{LIMIT, Rules, Runner, alone};
use crate::settings::{number, unknown};

pub(crate) const TYPE: &str = "run";
/// Messages that wait, at most.
const WAITING_MAX: usize = 16;
/// Seconds between two starts, if nothing else is said, and what may be said.
const EVERY: f64 = 1.0;
const EVERY_MIN: f64 = 0.1;
const EVERY_MAX: f64 = 1e6;
/// Bytes of a message as text, at most: a pipe takes them at once.
const TEXT_BYTES_MAX: usize = 32 << 10;

/// Any number of inputs. For each message the program runs, and reads it from standard input: a line `name value` for each
/// value. One runs at a time, for 60 s at most, and so many messages wait; those beyond are counted as not taken, one for each. The
/// output `counts` says, whenever one of its timers fires, how many messages were taken since its start (`messages`), and how
/// many not (`lost`).
///
/// | setting | means |
/// | --- | --- |
/// | `program` | its path, relative to the file's folder, or a name that is looked for in `PATH` |
/// | `every` | seconds that lie between two starts at least; 1, at first |
pub(super) struct Run {
    program: Option<PathBuf>,
    every: f64,
    limit: Duration,
    /// From the first message on.
    runner: Option<Runner<String>>,
    counts: Counts,
    taken: u64,
    lost: u64,
}

impl Default for Run {
    fn default() -> Self {
        let (program, runner, counts) = (None, None, Counts::default());
        Self { program, every: EVERY, limit: LIMIT, runner, counts, taken: 0, lost: 0 }
    }
}

fn start(program: &PathBuf, text: &str) -> std::io::Result<Child> {
    let mut command = alone(Command::new(program));
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A program need not read it.
        let _ = input.write_all(text.as_bytes());
    }
    Ok(child)
}

/// A message as text: whole lines.
fn text_of(values: Triples<'_>) -> String {
    let mut text = String::new();
    for value in shown(values) {
        let line: String = value.chars().map(|of| if of.is_control() { ' ' } else { of }).collect();
        if text.len() + line.len() < TEXT_BYTES_MAX {
            text += &line;
            text.push('\n');
        }
    }
    text
}

impl Run {
    fn runner(&self) -> Option<Runner<String>> {
        let program = self.program.clone()?;
        let apart = Duration::from_secs_f64(self.every);
        let rules = Rules { running_max: 1, waiting_max: WAITING_MAX, limit: self.limit, apart };
        let mut said = false;
        let start = move |text: String| match start(&program, &text) {
            Ok(child) => Some(child),
            Err(error) => {
                let of = program.display();
                if !std::mem::replace(&mut said, true) {
                    starfarm_net::say(&format!("starfarm-agent: the program {of} cannot be run: {error}"));
                }
                None
            }
        };
        Runner::new(TYPE, rules, start).ok()
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "program" if value.is_empty() || value.contains('\0') => {
                return Err("`program` is the path of a program".to_owned());
            }
            "program" => self.program = Some(PathBuf::from(value)),
            "every" => {
                self.every = number(key, value, EVERY_MIN..=EVERY_MAX, "seconds, from 0.1 to 1000000")?;
            }
            _ => return Err(unknown(TYPE, key, &["program", "every"])),
        }
        // The next message begins with what is said now.
        self.runner = None;
        Ok(())
    }
}

impl Stage for Run {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        self.counts.edge_made(TYPE, hook)
    }

    fn edge_gone(&mut self, hook: Hook<'_>) {
        self.counts.edge_gone(hook);
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        // The thread is started once it is needed: a stage may be made for a check alone.
        if self.runner.is_none() {
            self.runner = self.runner();
        }
        if self.runner.as_ref().is_some_and(|runner| runner.run(text_of(values))) {
            self.taken += 1;
        } else {
            self.lost += 1;
            context.not_taken(1);
        }
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::Set { key, value } => self.set(key, value)?,
            Word::Fired(_) => self.counts.tell((self.taken, self.lost), context),
            Word::Ready | Word::WaveIsOver => {}
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::time::Instant;

    use starfarm_agent_core::{Order, Runtime};

    use super::*;

    fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A stage `run` behind a stage that sends what it is told, and where its program writes.
    fn bench(name: &str, body: &str, limit: Duration) -> (Runtime, PathBuf) {
        let folder = std::env::temp_dir().join(format!("starfarm-run-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (program, notes) = (folder.join("program"), folder.join("notes"));
        fs::write(&program, format!("#!/bin/sh\n{}", body.replace("NOTES", notes.to_str().unwrap())))
            .unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let mut runtime = Runtime::new(&crate::graph::modules());
        runtime.add(TYPE, Box::new(Run { limit, ..Run::default() }), Some("run")).unwrap();
        let create = Order::Create { type_name: "blackhole".into(), name: Some("hole".into()) };
        runtime.order(create, 0).unwrap();
        let link = Order::Link(("hole".into(), "out".into()), ("run".into(), "in".into()));
        runtime.order(link, 0).unwrap();
        set(&mut runtime, "program", program.to_str().unwrap()).unwrap();
        set(&mut runtime, "every", "0.1").unwrap();
        (runtime, notes)
    }

    fn set(runtime: &mut Runtime, key: &str, value: &str) -> Result<(), String> {
        let word = Word::Set { key: key.into(), value: value.into() };
        let set = runtime.order(Order::Tell("run".into(), word), 0);
        set.map(drop).map_err(|refusal| refusal.to_string())
    }

    fn message(runtime: &mut Runtime) {
        runtime.order(Order::Tell("hole".into(), Word::Fired(vec![])), 0).unwrap();
    }

    fn said(notes: &Path) -> String {
        fs::read_to_string(notes).unwrap_or_default()
    }

    #[test]
    fn the_program_reads_what_has_come_and_one_runs_at_a_time() {
        let body = "mkdir NOTES.lock || echo two >> NOTES\ncat >> NOTES\nsleep 0.2\nrmdir NOTES.lock\n";
        let (mut runtime, notes) = bench("reads", body, LIMIT);
        (0..3).for_each(|_| message(&mut runtime));
        until("it has run three times", || said(&notes).lines().count() >= 3);
        assert_eq!(said(&notes), "messages 0\n".repeat(3));
        // One does not read, and the messages of a flood are counted.
        until("the last has ended", || !notes.with_extension("lock").exists());
        let before = runtime.losses().not_taken;
        (0..100).for_each(|_| message(&mut runtime));
        assert!((80..100).contains(&(runtime.losses().not_taken - before)));
        fs::remove_dir_all(notes.parent().unwrap()).unwrap();
    }

    #[test]
    fn one_that_hangs_is_ended_with_all_that_it_started() {
        let (mut runtime, notes) =
            bench("hangs", "sleep 1000 & echo $! >> NOTES\nwait\n", Duration::from_secs(1));
        (0..2).for_each(|_| message(&mut runtime));
        until("the next one runs", || said(&notes).lines().count() == 2);
        let first = said(&notes).lines().next().unwrap().to_owned();
        let stat = Path::new("/proc").join(first).join("stat");
        until("what the first has started is ended", || {
            fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z"))
        });
        // The second one is ended as well.
        until("all is over", || {
            let second = said(&notes).lines().nth(1).unwrap().to_owned();
            let stat = fs::read_to_string(Path::new("/proc").join(second).join("stat"));
            stat.map_or(true, |stat| stat.contains(") Z"))
        });
        fs::remove_dir_all(notes.parent().unwrap()).unwrap();
    }

    #[test]
    fn starts_lie_apart_and_what_it_cannot_be_told_is_refused() {
        let (mut runtime, notes) = bench("apart", "date +%s%N >> NOTES\n", LIMIT);
        for (key, value, why) in [
            ("every", "0", "`every` is seconds, from 0.1 to 1000000, not `0`"),
            ("every", "NaN", "not `NaN`"),
            ("program", "", "the path of a program"),
            ("colour", "red", "it has `program`, `every`"),
        ] {
            assert!(set(&mut runtime, key, value).unwrap_err().contains(why), "{key}");
        }
        set(&mut runtime, "every", "1.5").unwrap();
        (0..2).for_each(|_| message(&mut runtime));
        until("it has run twice", || said(&notes).lines().count() == 2);
        let times: Vec<u64> = said(&notes).lines().map(|line| line.parse().unwrap()).collect();
        assert!(times[1] - times[0] > 1_000_000_000, "{times:?}");
        fs::remove_dir_all(notes.parent().unwrap()).unwrap();
    }
}
