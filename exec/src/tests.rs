//! The executor with real processes. Each test holds [`OTHERS`] so that the one that counts this
//! process's descriptors can be alone, also where all tests share a process.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{RwLock, RwLockReadGuard};
use std::thread;
use std::time::{Duration, Instant};

use starfarm_protocol::wire::Cancel;

use super::*;

static OTHERS: RwLock<()> = RwLock::new(());

fn among_others() -> RwLockReadGuard<'static, ()> {
    OTHERS.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Short enough for a test, long enough for a loaded machine.
const HASTE: Patience =
    Patience { term_to_kill: Duration::from_millis(300), end_to_kill: Duration::from_millis(100) };

fn command(program: &str, args: &[&str]) -> CommandLine {
    CommandLine {
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        output_limit: 1 << 20,
        ..CommandLine::default()
    }
}

fn sh(script: &str) -> CommandLine {
    command("sh", &["-c", script])
}

fn go(command: &CommandLine) -> UnitRun {
    run_noting(command, &CancelFlag::new().unwrap(), HASTE, &mut |_| {}, &mut || None)
}

fn text(captured: &Captured) -> String {
    String::from_utf8_lossy(&captured.bytes).into_owned()
}

fn stdout_of(script: &str) -> String {
    let run = go(&sh(script));
    assert_eq!(run.end, End::Exit(0), "{}", text(&run.stderr));
    text(&run.stdout)
}

/// Waits for something that has to happen; the limit only keeps a broken build from hanging.
fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !happened() {
        assert!(Instant::now() < limit, "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Whether `pid` runs: an ended process that nobody has collected yet does not.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

fn is_listed(pid: &str) -> bool {
    Path::new(&format!("/proc/{}", pid.trim())).exists()
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("starfarm-exec-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, content: &str, mode: u32) -> String {
        use std::os::unix::fs::PermissionsExt;
        fs::write(self.path(name), content).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A shell snippet that starts a daemon outside the process group and prints its id; when it returns,
/// the daemon has left the group for sure.
const DAEMON: &str = "echo $(setsid sh -c 'echo $$; exec sleep 600 >/dev/null 2>&1' &)";

#[test]
fn exit_codes_and_both_streams_come_back() {
    let _others = among_others();
    let run = go(&sh("echo out; echo err >&2; exit 7"));
    assert_eq!(run.end, End::Exit(7));
    assert_eq!((text(&run.stdout), run.stdout.total), ("out\n".into(), 4));
    assert_eq!((text(&run.stderr), run.stderr.total), ("err\n".into(), 4));
    assert_eq!(go(&command("true", &[])).end, End::Exit(0));
    assert_eq!(go(&sh("exit 255")).end, End::Exit(255));
}

#[test]
fn a_signal_is_reported_as_one() {
    let _others = among_others();
    assert_eq!(go(&sh("kill -SEGV $$")).end, End::Signal(11));
    assert_eq!(go(&sh("kill -KILL $$")).end, End::Signal(9));
}

#[test]
fn arguments_environment_and_directory_arrive_as_given() {
    let _others = among_others();
    let folder = Folder::new();
    folder.write("show", "#!/bin/sh\nprintf '%s|' \"$@\" \"$COLOUR\" \"$PWD\"; test -n \"$PATH\"\n", 0o755);
    let mut line = command("./show", &["a b", "$HOME", "*", ""]);
    line.env = vec![("COLOUR".into(), "sky blue".into())];
    line.dir = Some(folder.0.clone());
    let run = go(&line);
    assert_eq!(run.end, End::Exit(0), "{}", text(&run.stderr));
    assert_eq!(text(&run.stdout), format!("a b|$HOME|*||sky blue|{}|", folder.0.display()));
    // A PATH of its own is the one it is found by.
    line.program = "show".into();
    line.env.push(("PATH".into(), folder.0.clone().into()));
    assert_eq!(go(&line).end, End::Exit(0));
}

#[test]
fn stdin_is_empty() {
    let _others = among_others();
    assert_eq!(stdout_of("cat; echo end"), "end\n");
}

#[test]
fn a_program_that_closes_its_streams_is_waited_for() {
    let _others = among_others();
    assert_eq!(go(&sh("exec >&- 2>&-; sleep 0.2; exit 5")).end, End::Exit(5));
}

#[test]
fn a_hanging_program_is_ended_by_its_timeout() {
    let _others = among_others();
    let mut line = sh("trap '' TERM; echo hello; while :; do sleep 600; done");
    line.timeout = Some(Duration::from_millis(500));
    assert_eq!(go(&line).end, End::Timeout);
}

/// Runs `script`, which must touch `$READY`, and kills it when it has.
fn cancelled_when_ready(script: &str, term_to_kill: Duration) -> UnitRun {
    let folder = Folder::new();
    let cancel = CancelFlag::new().unwrap();
    let mut line = sh(script);
    line.env = vec![("READY".into(), folder.path("ready").into())];
    thread::scope(|scope| {
        let slot = scope.spawn(|| {
            run_noting(&line, &cancel, Patience { term_to_kill, ..HASTE }, &mut |_| {}, &mut || None)
        });
        eventually("it is ready", || folder.path("ready").exists());
        cancel.raise(Cancel::Forced);
        slot.join().unwrap()
    })
}

#[test]
fn a_program_that_is_asked_to_end_may_tidy_up() {
    let _others = among_others();
    let script = "trap 'echo bye; exit 3' TERM; touch $READY; while :; do sleep 0.05; done";
    let run = cancelled_when_ready(script, Duration::from_secs(60));
    assert_eq!((run.end, text(&run.stdout)), (End::Cancelled, "bye\n".into()));
}

#[test]
fn a_program_that_ignores_term_is_forced_with_its_group() {
    let _others = among_others();
    let script = "trap '' TERM; sleep 600 & echo $!; touch $READY; while :; do sleep 600; done";
    let run = cancelled_when_ready(script, HASTE.term_to_kill);
    assert_eq!(run.end, End::Cancelled);
    let pid = text(&run.stdout);
    assert!(pid.trim().parse::<u32>().is_ok(), "{pid}");
    eventually("the group is gone", || !is_alive(&pid));
}

#[test]
fn one_cancel_wakes_every_run_that_waits_with_it() {
    let _others = among_others();
    let folder = Folder::new();
    let cancel = CancelFlag::new().unwrap();
    thread::scope(|scope| {
        let slots: Vec<_> = (0..3)
            .map(|slot| {
                let line = sh(&format!("touch {}; exec sleep 600", folder.path(&slot.to_string()).display()));
                let cancel = cancel.clone();
                scope.spawn(move || run(&line, &cancel).end)
            })
            .collect();
        eventually("all run", || (0..3).all(|slot| folder.path(&slot.to_string()).exists()));
        cancel.raise(Cancel::Forced);
        cancel.raise(Cancel::Forced);
        slots.into_iter().for_each(|slot| assert_eq!(slot.join().unwrap(), End::Cancelled));
    });
}

#[test]
fn a_cancelled_task_starts_nothing() {
    let _others = among_others();
    let folder = Folder::new();
    let cancel = CancelFlag::new().unwrap();
    cancel.raise(Cancel::Forced);
    let line = sh(&format!("touch {}", folder.path("ran").display()));
    assert_eq!(run(&line, &cancel).end, End::Cancelled);
    assert!(!folder.path("ran").exists());
}

#[test]
fn a_graceful_cancel_lets_the_command_finish() {
    let _others = among_others();
    let cancel = CancelFlag::new().unwrap();
    assert!(!cancel.is_raised());
    cancel.raise(Cancel::Graceful);
    assert!(cancel.is_raised() && !cancel.is_forced());
    assert_eq!(run(&sh("sleep 0.1; exit 4"), &cancel).end, End::Exit(4));
    cancel.raise(Cancel::Forced);
    cancel.raise(Cancel::Graceful);
    assert!(cancel.is_raised() && cancel.is_forced());
}

/// One holds the pipes, the other nothing of ours: neither is waited for, neither stays.
#[test]
fn what_a_program_leaves_in_its_group_is_forced() {
    let _others = among_others();
    for redirect in ["", ">/dev/null 2>&1"] {
        let pid = stdout_of(&format!("sleep 600 {redirect} & echo $!"));
        eventually("the grandchild is gone", || !is_alive(&pid));
    }
}

#[test]
fn what_leaves_the_group_is_ended_too() {
    let _others = among_others();
    become_subreaper().unwrap();
    let pid = stdout_of(DAEMON);
    eventually("the daemon is gone", || !is_alive(&pid));
}

/// The inner daemon becomes our child only when the outer one has died.
#[test]
fn a_daemon_of_a_daemon_is_ended_too() {
    let _others = among_others();
    become_subreaper().unwrap();
    let mut line = sh("echo $(setsid sh -c 'echo $$; eval \"$INNER\"; exec sleep 600 >/dev/null 2>&1' &)");
    let inner = "setsid sh -c 'echo $$; exec sleep 600 >/dev/null 2>&1' &";
    line.env = vec![("INNER".into(), inner.into())];
    let run = go(&line);
    let listed = text(&run.stdout);
    let pids: Vec<&str> = listed.split_whitespace().collect();
    assert_eq!((run.end, pids.len()), (End::Exit(0), 2), "{listed}{}", text(&run.stderr));
    eventually("both are gone", || {
        reap_strays();
        !pids.iter().any(|pid| is_listed(pid))
    });
}

#[test]
fn a_daemon_lives_as_long_as_its_unit() {
    let _others = among_others();
    become_subreaper().unwrap();
    let folder = Folder::new();
    let (started, end) = (folder.path("started"), folder.path("end"));
    let long = sh(&format!(
        "{DAEMON} >{0}.part; mv {0}.part {0}; until test -e {1}; do sleep 0.02; done",
        started.display(),
        end.display()
    ));
    thread::scope(|scope| {
        let long = scope.spawn(|| go(&long).end);
        eventually("the daemon runs", || started.exists());
        let pid = fs::read_to_string(&started).unwrap();
        assert_eq!(go(&command("true", &[])).end, End::Exit(0));
        reap_strays();
        let outlived = is_alive(&pid);
        fs::write(&end, "").unwrap();
        assert_eq!(long.join().unwrap(), End::Exit(0));
        assert!(outlived, "another unit's end took the daemon away");
        eventually("the daemon is gone", || !is_alive(&pid));
    });
}

#[test]
fn an_orphan_that_ends_by_itself_is_collected() {
    let _others = among_others();
    become_subreaper().unwrap();
    let pid = stdout_of("echo $(setsid sh -c 'echo $$' &)");
    eventually("the orphan is collected", || {
        reap_strays();
        !is_listed(&pid)
    });
}

#[test]
fn a_child_with_an_owner_is_left_to_it() {
    let _others = among_others();
    become_subreaper().unwrap();
    // Children of a thread that has ended become the main thread's, as orphans do.
    let start = || spawn(std::process::Command::new("sh").args(["-c", "exit 9"])).unwrap();
    let child = thread::spawn(start).join().unwrap();
    let pid = child.child.id().to_string();
    eventually("it has ended", || !is_alive(&pid));
    reap_strays();
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

/// An escaped writer holds the pipe and never stops: its unit ends all the same.
#[test]
fn an_endless_writer_that_left_the_group_holds_nobody() {
    let _others = among_others();
    let folder = Folder::new();
    let script = "setsid sh -c 'echo; touch $READY; exec yes' & until test -e $READY; do sleep 0.01; done";
    let mut line = sh(script);
    line.env = vec![("READY".into(), folder.path("ready").into())];
    let run = go(&line);
    assert_eq!(run.end, End::Exit(0));
    assert!(run.stdout.total > 0);
}

#[test]
fn a_flood_of_output_is_cut_and_costs_no_memory() {
    let _others = among_others();
    let before = memory_high_kib();
    let mut line = sh("echo first; yes | head -c 100000000; echo last; yes no | head -c 50000000 >&2");
    line.output_limit = 4000;
    let run = go(&line);
    assert_eq!(run.end, End::Exit(0));
    assert_eq!((run.stdout.total, run.stderr.total), (100_000_011, 50_000_000));
    let kept = text(&run.stdout);
    assert!(kept.starts_with("first\ny\ny\n") && kept.ends_with("y\ny\nlast\n"));
    assert_eq!(kept.len(), 4000, "no mark stands in it");
    let grown = memory_high_kib() - before;
    assert!(grown < 16 * 1024, "{grown} KiB for 150 MB of output");
}

fn memory_high_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn runs_side_by_side_do_not_mix() {
    let _others = among_others();
    thread::scope(|scope| {
        for slot in 0..8 {
            scope.spawn(move || {
                for round in 0..20 {
                    let code = slot * 20 + round;
                    let run = go(&sh(&format!("echo out {code}; echo err {code} >&2; exit {code}")));
                    assert_eq!(run.end, End::Exit(code));
                    assert_eq!(text(&run.stdout), format!("out {code}\n"));
                    assert_eq!(text(&run.stderr), format!("err {code}\n"));
                }
            });
        }
    });
}

#[test]
fn runs_leave_no_descriptor_open() {
    let _alone = OTHERS.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    become_subreaper().unwrap();
    let cancel = CancelFlag::new().unwrap();
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    run(&command("true", &[]), &cancel);
    let before = open();
    let mut hanging = command("sleep", &["600"]);
    hanging.timeout = Some(Duration::from_millis(1));
    for round in 0..200 {
        let end = match round % 20 {
            0 => run(&hanging, &cancel).end,
            1 => run(&command("/no/such/program", &[]), &cancel).end,
            2 => run(&sh("sleep 600 &"), &cancel).end,
            3 => run(&sh(DAEMON), &cancel).end,
            _ => run(&sh("echo hello"), &cancel).end,
        };
        assert!(!matches!(end, End::Signal(_) | End::Cancelled), "{end:?}");
    }
    assert_eq!(open(), before);
}

/// The child has its three streams and what this process itself was given by its parent, but nothing
/// that this process has opened.
#[test]
fn a_program_inherits_none_of_our_descriptors() {
    let _others = among_others();
    let ours: Vec<CancelFlag> = (0..20).map(|_| CancelFlag::new().unwrap()).collect();
    let inherited = inheritable_descriptors();
    let listed = stdout_of("echo /proc/$$/fd/*");
    let names = listed.split_whitespace().filter_map(|path| path.rsplit('/').next()?.parse().ok());
    let extra: BTreeSet<i32> = names.filter(|fd| *fd > 2 && !inherited.contains(fd)).collect();
    // One is the directory that the shell is just listing.
    assert!(extra.len() <= 1, "descriptors {extra:?} of {} cancels and others", ours.len());
}

fn inheritable_descriptors() -> BTreeSet<i32> {
    let names = fs::read_dir("/proc/self/fdinfo").unwrap().filter_map(Result::ok);
    let close_on_exec = |info: &str| {
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or("0");
        u32::from_str_radix(flags.trim(), 8).unwrap_or(0) & 0o2_000_000 != 0
    };
    names
        .filter(|entry| fs::read_to_string(entry.path()).is_ok_and(|info| !close_on_exec(&info)))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The thread that starts it blocks TERM, and Rust ignores SIGPIPE: neither may reach the program.
#[test]
fn a_program_starts_with_signals_as_it_expects_them() {
    let _others = among_others();
    sigmask::testing::block_here(libc::SIGTERM);
    // Not by way of a shell: some clear the mask themselves.
    let status = text(&go(&command("cat", &["/proc/self/status"])).stdout);
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
    };
    assert_eq!(mask("SigBlk"), 0);
    assert_eq!(mask("SigIgn") & (1 << (libc::SIGPIPE - 1)), 0);
    let own = fs::read_to_string("/proc/thread-self/status").unwrap();
    let own = own.lines().find(|line| line.starts_with("SigBlk")).unwrap();
    assert!(own.ends_with("4000"), "the thread's own mask is back: {own}");
}

#[test]
fn what_cannot_be_started_is_explained() {
    let _others = among_others();
    let folder = Folder::new();
    let why = |line: &CommandLine| match go(line).end {
        End::NotStarted(why, lack) => (why, lack),
        end => panic!("it ended as {end:?}"),
    };
    let explained = |line: CommandLine, words: &str, lack: Lack| {
        let (why, lacks) = why(&line);
        assert!(why.contains(words), "{why}");
        assert!(why.contains(line.program.to_str().unwrap()), "{why}");
        assert_eq!(lacks, lack, "{why}");
    };
    let of_program = |program: &str, words: &str| explained(command(program, &[]), words, Lack::Program);
    of_program("no-such-program-here", "not found in PATH");
    of_program("/no/such/program", "does not exist on this node");
    of_program(&folder.write("plain", "#!/bin/sh\n", 0o644), "chmod +x");
    of_program(folder.0.to_str().unwrap(), "must be a file");
    of_program(&folder.write("lost", "#!/no/such/interpreter\n", 0o755), "the interpreter");
    of_program(&folder.write("noise", "\u{1}\u{2}", 0o755), "first line names its interpreter");
    explained(command("true", &["a\0b"]), "NUL byte", Lack::Line);
    explained(command("true", &[&"x".repeat(200_000)]), "pass them in a file", Lack::Line);
    let lost = CommandLine { dir: Some(folder.path("gone")), ..command("true", &[]) };
    let (words, lack) = why(&lost);
    assert!(words.contains("gone` is not a directory on this node"));
    assert_eq!(lack, Lack::Program);
}

#[test]
fn a_program_that_is_busy_for_a_moment_is_started_all_the_same() {
    let busy = || Err(std::io::ErrorKind::ExecutableFileBusy.into());
    let started = |busy_for: usize| {
        let (mut tries, mut waited) = (0, Duration::ZERO);
        let start = || {
            tries += 1;
            if tries > busy_for { Ok(()) } else { busy() }
        };
        let outcome = process::once_not_busy(start, |pause| waited += pause);
        (outcome.is_ok(), tries, waited.as_millis())
    };
    assert_eq!(started(0), (true, 1, 0));
    assert_eq!(started(3), (true, 4, 35));
    assert_eq!(started(100), (false, 7, 315), "a job's pause between refusals is for what takes longer");
    let mut tries = 0;
    let missing = process::once_not_busy(
        || {
            tries += 1;
            Err::<(), _>(std::io::ErrorKind::NotFound.into())
        },
        |_| panic!("what is not there is not waited for"),
    );
    assert_eq!((missing.is_err(), tries), (true, 1));
}
