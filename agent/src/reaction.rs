//! What is done when there is an alarm: a program of the user's runs, once for each.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use starfarm_protocol::link::Alarm;

use crate::runner::{LIMIT, Rules, Runner, alone};

/// So many programs run at once, and so many wait; for alarms beyond that none is run, which is said.
const RUNNING_MAX: usize = 4;
const WAITING_MAX: usize = 1_000;

/// Has a program run for each alarm.
pub(crate) struct Reaction(Runner<Alarm>);

impl Reaction {
    /// By that program.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn start(program: PathBuf) -> std::io::Result<Self> {
        Self::within(program, LIMIT)
    }

    fn within(program: PathBuf, limit: Duration) -> std::io::Result<Self> {
        let (running_max, waiting_max) = (RUNNING_MAX, WAITING_MAX);
        let rules = Rules { running_max, waiting_max, limit, apart: Duration::ZERO };
        let start = move |alarm: Alarm| match start(&program, &alarm) {
            Ok(child) => Some(child),
            Err(error) => {
                let program = program.display();
                starfarm_net::say(&format!("the program for alarms, {program}, cannot be run: {error}"));
                None
            }
        };
        Runner::new("reaction", rules, start).map(Self)
    }

    /// Runs it for an alarm, as soon as there is room.
    pub(crate) fn run(&mut self, alarm: Alarm) {
        if !self.0.run(alarm) {
            starfarm_net::say("too many alarms: no program runs for one of them");
        }
    }
}

fn start(program: &Path, alarm: &Alarm) -> std::io::Result<Child> {
    let key = &alarm.key;
    let mut command = alone(Command::new(program));
    command
        .env("STARFARM_ALARM_ID", alarm.id())
        .env("STARFARM_ALARM_NODE", &alarm.node)
        .env("STARFARM_ALARM_SENSOR", &key.sensor)
        .env("STARFARM_ALARM_LEVEL", alarm.level.map_or("over", |level| level.word()))
        .env("STARFARM_ALARM_VALUE", alarm.value.map(|value| value.to_string()).unwrap_or_default())
        .env("STARFARM_ALARM_TEXT", &alarm.text);
    command.spawn()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    use starfarm_protocol::link::{AlarmKey, AlarmLevel};
    use starfarm_protocol::orders::PostId;

    use super::*;

    /// A program in a folder of its own, and where it notes what it does.
    fn program(name: &str, body: &str) -> (PathBuf, PathBuf) {
        let folder = std::env::temp_dir().join(format!("starfarm-reaction-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (program, notes) = (folder.join("program"), folder.join("notes"));
        fs::write(&program, format!("#!/bin/sh\n{}", body.replace("NOTES", notes.to_str().unwrap())))
            .unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        (program, notes)
    }

    fn alarm(sensor: &str) -> Alarm {
        Alarm {
            key: AlarmKey { origin: PostId(7), sensor: sensor.into() },
            episode: 5,
            version: 1,
            level: Some(AlarmLevel::Critical),
            drains: false,
            reacted: false,
            drained: false,
            is_first: true,
            value: Some(0.5),
            node: "n1".into(),
            text: "it is full; $(touch x)".into(),
        }
    }

    fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_program_hears_what_an_alarm_is_about() {
        let (program, notes) =
            program("hears", "env | grep ^STARFARM_ALARM_ | sort > NOTES.new; mv NOTES.new NOTES\n");
        Reaction::start(program).unwrap().run(alarm("disk"));
        until("the program was run", || notes.exists());
        let said = fs::read_to_string(&notes).unwrap();
        let all = [
            "ID=7-disk-5",
            "LEVEL=critical",
            "NODE=n1",
            "SENSOR=disk",
            "TEXT=it is full; $(touch x)",
            "VALUE=0.5",
        ];
        assert_eq!(said, all.map(|of| format!("STARFARM_ALARM_{of}\n")).concat());
        fs::remove_dir_all(notes.parent().unwrap()).unwrap();
    }

    #[test]
    fn one_that_hangs_is_ended_with_all_that_it_started_and_others_run_meanwhile() {
        let body = "sleep 1000 & echo $STARFARM_ALARM_SENSOR $! >> NOTES\n\
                    [ $STARFARM_ALARM_SENSOR = slow ] || kill $!\nwait\n";
        let (program, notes) = program("hangs", body);
        let mut reaction = Reaction::within(program, Duration::from_secs(1)).unwrap();
        // More than run at once.
        (0..=RUNNING_MAX).for_each(|_| reaction.run(alarm("slow")));
        reaction.run(alarm("quick"));
        // The last of the slow ones and the quick one begin at the same time.
        let said = || fs::read_to_string(&notes).unwrap_or_default();
        until("all were run", || said().lines().count() == RUNNING_MAX + 2 && said().contains("quick"));
        let lines = said();
        let started = lines.lines().filter_map(|line| line.split_once(' ')).map(|(_, pid)| pid);
        for pid in started {
            let stat = Path::new("/proc").join(pid).join("stat");
            until("what it started is ended", || {
                fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z"))
            });
        }
        fs::remove_dir_all(notes.parent().unwrap()).unwrap();
    }

    #[test]
    fn one_that_is_not_there_costs_nothing() {
        let mut reaction = Reaction::start("/nowhere/at/all".into()).unwrap();
        reaction.run(alarm("disk"));
        reaction.run(alarm("disk"));
    }
}
