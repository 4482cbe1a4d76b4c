//! `journal`: a line a message in the machine's journal, by the native protocol of systemd's: a datagram of `FIELD=value` lines
//! to a socket.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use starfarm_agent_core::{Context, Hook, Stage, Triples, Word};
use starfarm_protocol::foreign;

use super::lines::Lines;
use crate::counts::Counts;
use crate::settings::{number, refusal, unknown};

pub(super) const TYPE: &str = "journal";
/// Where the journal listens.
const SOCKET: &str = "/run/systemd/journal/socket";
/// How bad a line is, as syslog counts: 6 is `info`, and 7 the most harmless.
const PRIORITY: u8 = 6;
const PRIORITY_MAX: u8 = 7;
/// What the journal calls the program that has written a line.
const IDENTIFIER: &str = "starfarm-agent";

/// Any number of inputs. Each message is an entry. The output `counts` says, whenever one of its timers fires, how many the journal has
/// taken (`messages`), and how many it has not (`lost`), since the stage's start: it was not there, or had no room. Nobody waits
/// for it.
///
/// | setting | means |
/// | --- | --- |
/// | `socket` | the path of the journal's socket; that of systemd's, at first |
/// | `priority` | 0, `emerg`, to 7, `debug`; 6, `info`, at first |
/// | `label`, `rate` | see [`Lines`] |
pub(super) struct Journal {
    lines: Lines,
    path: PathBuf,
    priority: u8,
    /// From the first message on.
    socket: Option<UnixDatagram>,
    counts: Counts,
    taken: u64,
    lost: u64,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            lines: Lines::new(TYPE),
            path: SOCKET.into(),
            priority: PRIORITY,
            socket: None,
            counts: Counts::default(),
            taken: 0,
            lost: 0,
        }
    }
}

impl Journal {
    fn send(&mut self, entry: &[u8]) -> std::io::Result<()> {
        let socket = match &self.socket {
            Some(socket) => socket,
            None => {
                let socket = UnixDatagram::unbound()?;
                socket.set_nonblocking(true)?;
                self.socket.insert(socket)
            }
        };
        // By its path each time: the journal may have been started again.
        socket.send_to(entry, &self.path).map(drop)
    }
}

impl Stage for Journal {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        self.counts.edge_made(TYPE, hook)
    }

    fn edge_gone(&mut self, hook: Hook<'_>) {
        self.counts.edge_gone(hook);
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        let Some(line) = self.lines.next(values) else { return context.not_taken(1) };
        let (line, priority) = (foreign::line(&line), self.priority);
        let entry = format!("MESSAGE={line}\nPRIORITY={priority}\nSYSLOG_IDENTIFIER={IDENTIFIER}\n");
        match self.send(entry.as_bytes()) {
            Ok(()) => self.taken += 1,
            Err(_) => self.lost += 1,
        }
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::Set { key, value } => match key.as_str() {
                "socket" if value.starts_with('/') => self.path = value.into(),
                "socket" => return Err(refusal(key, value, &format!("an absolute path, as `{SOCKET}`"))),
                "priority" => {
                    self.priority =
                        number(key, value, 0..=PRIORITY_MAX, "a number from 0 to 7, as syslog counts")?;
                }
                _ if self.lines.set(key, value)? => {}
                _ => return Err(unknown(TYPE, key, &["socket", "priority", "label", "rate"])),
            },
            Word::Fired(_) => self.counts.tell((self.taken, self.lost), context),
            Word::Ready | Word::WaveIsOver => {}
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use starfarm_agent_core::{Order, Runtime, When};

    use super::*;

    /// The path of a socket of this test's own.
    struct Own(PathBuf);

    impl Own {
        fn new(name: &str) -> Self {
            let path = format!("starfarm-journal-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(path);
            let _ = std::fs::remove_file(&path);
            Self(path)
        }
    }

    impl Drop for Own {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Sends a message to a journal that listens there.
    fn send_one(socket: &Path, settings: &[(&str, &str)]) {
        let mut runtime = Runtime::new(&crate::graph::modules());
        let mut order = |order| runtime.order(order, 0).unwrap();
        let of = |type_name: &str, name: &str| Order::Create {
            type_name: type_name.into(),
            name: Some(name.into()),
        };
        order(of("blackhole", "hole"));
        order(of(TYPE, "journal"));
        let socket = [("socket", socket.to_str().unwrap())];
        for (key, value) in socket.iter().chain(settings) {
            let word = Word::Set { key: (*key).to_owned(), value: (*value).to_owned() };
            order(Order::Tell("journal".into(), word));
        }
        order(Order::Link(("hole".into(), "out".into()), ("journal".into(), "in".into())));
        order(Order::Timer("t".into(), When::Every(1_000_000)));
        order(Order::Subscribe("t".into(), "hole".into(), true));
        runtime.on_time(1_000_000);
    }

    #[test]
    fn a_message_is_an_entry_of_the_journal() {
        let own = Own::new("entry");
        let journal = UnixDatagram::bind(&own.0).unwrap();
        send_one(&own.0, &[("label", "a\nPRIORITY=0"), ("priority", "4")]);
        let mut entry = [0; 4_096];
        let length = journal.recv(&mut entry).unwrap();
        let entry = std::str::from_utf8(&entry[..length]).unwrap();
        assert_eq!(
            entry, "MESSAGE=a\\nPRIORITY=0: messages 0\nPRIORITY=4\nSYSLOG_IDENTIFIER=starfarm-agent\n",
            "no label writes a field of its own"
        );
    }

    #[test]
    fn what_the_journal_does_not_take_is_counted_and_nobody_waits() {
        let own = Own::new("counts");
        let path = &own.0;
        let mut journal = Journal { path: path.clone(), ..Journal::default() };
        assert!(journal.send(b"MESSAGE=a\n").is_err(), "it is not there");
        // It reads nothing, so that its queue is full after a while.
        let full = UnixDatagram::bind(path).unwrap();
        let sent = (0..10_000).take_while(|_| journal.send(b"MESSAGE=a\n").is_ok()).count();
        assert!((1..10_000).contains(&sent), "{sent}");
        drop(full);
        std::fs::remove_file(path).unwrap();
        let again = UnixDatagram::bind(path).unwrap();
        journal.send(b"MESSAGE=b\n").unwrap();
        assert_eq!(again.recv(&mut [0; 64]).unwrap(), 10);
    }

    #[test]
    fn settings_that_it_has_not_are_refused_in_words() {
        let mut runtime = Runtime::new(&crate::graph::modules());
        runtime.order(Order::Create { type_name: TYPE.into(), name: Some("j".into()) }, 0).unwrap();
        for (key, value, why) in [
            ("socket", "run/socket", "`socket` is an absolute path, as `/run/systemd/journal/socket`"),
            ("priority", "8", "`priority` is a number from 0 to 7"),
            ("rate", "0", "`rate` is lines a second"),
            ("colour", "red", "it has `socket`, `priority`, `label`, `rate`"),
        ] {
            let set = Word::Set { key: key.into(), value: value.into() };
            let refused = runtime.order(Order::Tell("j".into(), set), 0).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
