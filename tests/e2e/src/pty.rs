//! A program on a terminal of its own, as a person has it: what it draws is kept as a screen, keys are pressed, the
//! window is made larger and smaller.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::patience::until;
use crate::process::Daemon;

/// A program and its terminal. Dropping it ends the program.
pub struct Pty {
    /// The program.
    pub program: Daemon,
    controller: File,
    /// Held open, so that the terminal outlives the program.
    user: OwnedFd,
    before: String,
    screen: Arc<Mutex<vt100::Parser>>,
    bytes: Arc<AtomicU64>,
}

impl Pty {
    /// Starts `command` on a terminal of so many columns and lines; what it writes to standard error goes to a file
    /// in `dir`.
    ///
    /// # Panics
    /// The system has no terminal to give; so do all below where the terminal is gone.
    pub fn start(command: &Command, dir: &std::path::Path, columns: u16, lines: u16) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("the system has terminals");
        grantpt(&controller).and_then(|()| unlockpt(&controller)).expect("a terminal of ours can be opened");
        let name = ptsname(&controller, Vec::new()).expect("it has a name").into_string().expect("in ASCII");
        let open = || File::options().read(true).write(true).open(&name).expect("the terminal is there");
        let user = open();
        tcsetwinsize(&controller, winsize(columns, lines)).expect("a terminal has a size");
        // A session with this terminal as its own: otherwise no signal tells of a new size.
        let mut session = Command::new("setsid");
        session.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => session.env(name, value),
                None => session.env_remove(name),
            };
        }
        let before = settings(&tcgetattr(&user).expect("a terminal has settings"));
        let program = Daemon::start_with("top", session, dir, Stdio::from(open()), Some(Stdio::from(open())));
        let controller = File::from(controller);
        let parser = vt100::Parser::new(nonzero(lines), nonzero(columns), 0);
        let (screen, bytes) = (Arc::new(Mutex::new(parser)), Arc::new(AtomicU64::new(0)));
        let mut output = controller.try_clone().expect("a file that is open can be cloned");
        let (to_screen, count) = (Arc::clone(&screen), Arc::clone(&bytes));
        std::thread::spawn(move || {
            let mut piece = [0; 4_096];
            while let Ok(length) = output.read(&mut piece) {
                count.fetch_add(length as u64, Ordering::Relaxed);
                to_screen.lock().unwrap_or_else(PoisonError::into_inner).process(&piece[..length]);
            }
        });
        Self { program, controller, user: user.into(), before, screen, bytes }
    }

    /// What the terminal shows, without blanks at the ends of lines.
    pub fn text(&self) -> String {
        let text = self.screen.lock().unwrap_or_else(PoisonError::into_inner).screen().contents();
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    /// Bytes that the program has written.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether the program has the terminal's second screen.
    pub fn is_taken(&self) -> bool {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).screen().alternate_screen()
    }

    /// Whether the terminal is as it was before the program came: its screen, its cursor, its settings.
    pub fn is_restored(&self) -> bool {
        let parser = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        let screen = parser.screen();
        let now = settings(&tcgetattr(&self.user).expect("a terminal has settings"));
        !screen.alternate_screen() && !screen.hide_cursor() && now == self.before
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.controller.write_all(keys.as_bytes()).expect("the terminal is there");
    }

    /// Gives the window another size.
    pub fn resize(&mut self, columns: u16, lines: u16) {
        let mut parser = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        parser.set_size(nonzero(lines), nonzero(columns));
        drop(parser);
        tcsetwinsize(&self.controller, winsize(columns, lines)).expect("a terminal has a size");
    }

    /// Waits until the terminal shows `words`.
    ///
    /// # Panics
    /// It never does.
    #[track_caller]
    pub fn until_shows(&self, words: &str) {
        self.until(&format!("the screen shows `{words}`"), |text| text.contains(words));
    }

    /// Waits until what the terminal shows is right.
    ///
    /// # Panics
    /// It never is.
    #[track_caller]
    pub fn until(&self, what: &str, is_right: impl Fn(&str) -> bool) {
        let guard = ShowOnPanic(self);
        until(what, || is_right(&self.text()));
        drop(guard);
    }
}

/// Prints the screen where a test fails.
struct ShowOnPanic<'a>(&'a Pty);

impl Drop for ShowOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the screen:\n{}\n---", self.0.text());
        }
    }
}

fn settings(termios: &Termios) -> String {
    format!("{:?}", (termios.input_modes, termios.output_modes, termios.control_modes, termios.local_modes))
}

fn winsize(columns: u16, lines: u16) -> Winsize {
    Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn nonzero(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("a terminal has lines and columns")
}
