//! Sessions with the scheduler over datagrams: handshakes, and messages sealed and opened.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use starfarm_protocol::ids::Boot;
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::seal::{Initiator, Introduction, Kind, Mode, Outcome, Session, StaticKey, packet};

/// How long the scheduler may take to answer a handshake.
const PATIENCE: Duration = Duration::from_secs(5);
/// Datagrams that are read at one time.
const READ_MAX: usize = 1_024;

/// A member of the farm.
#[expect(missing_debug_implementations, reason = "it holds keys")]
pub struct Member {
    socket: UdpSocket,
    join: JoinFile,
    key: StaticKey,
    name: String,
    /// The newest is last.
    sessions: Vec<Session>,
    /// How long an answer to a handshake may take.
    patience: Duration,
    /// Index of the last handshake.
    index: u32,
    /// What came while a handshake was under way.
    early: Vec<(usize, Vec<u8>)>,
    /// Datagrams sent.
    pub sent: u64,
}

impl Member {
    /// Joins the farm whose scheduler listens on `address`, with that key.
    ///
    /// # Errors
    /// There is no answer, or the scheduler refuses; the words are its own.
    pub fn join(to: (&JoinFile, SocketAddr), key: &StaticKey, name: &str, boot: Boot) -> io::Result<Self> {
        Self::join_within(PATIENCE, to, key, name, boot)
    }

    /// The same, where each answer may take so long.
    pub(crate) fn join_within(
        patience: Duration,
        (join, address): (&JoinFile, SocketAddr),
        key: &StaticKey,
        name: &str,
        boot: Boot,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind((if address.is_ipv4() { "0.0.0.0" } else { "::" }, 0))?;
        socket.connect(address)?;
        let (join, key, name) = (join.clone(), key.clone(), name.to_owned());
        let mut member = Self {
            socket,
            join,
            key,
            name,
            patience,
            sessions: Vec::new(),
            index: 0,
            early: Vec::new(),
            sent: 0,
        };
        member.shake_hands(boot)?;
        Ok(member)
    }

    /// Shakes hands anew, as that incarnation. The sessions before stay.
    ///
    /// # Errors
    /// As [`Member::join`].
    pub fn shake_hands(&mut self, boot: Boot) -> io::Result<()> {
        let wrong = |error: &dyn std::fmt::Display| io::Error::other(error.to_string());
        let mut cookie = None;
        self.socket.set_nonblocking(false)?;
        for _ in 1..=3 {
            self.index += 1;
            let who = Introduction {
                key: &self.key,
                scheduler: &self.join.scheduler_key,
                join_secret: &self.join.join_secret,
                name: &self.name,
                boot,
                mode: Mode::default(),
            };
            let (mut initiator, datagram) =
                Initiator::start(&who, self.index, cookie.as_ref()).map_err(|e| wrong(&e))?;
            self.socket.send(&datagram)?;
            let answer = self.answer()?;
            match initiator.read_response(&answer) {
                Ok(Outcome::Accepted(accepted)) => {
                    self.socket.set_nonblocking(true)?;
                    self.sessions.push(accepted.into_session(0));
                    return Ok(());
                }
                Ok(Outcome::Refused { reason, .. }) => return Err(io::Error::other(reason)),
                // Under load it wants to see first that we receive at our address.
                Err(_) => cookie = initiator.read_cookie(&answer, 0).ok(),
            }
        }
        Err(io::Error::other("no handshake was answered"))
    }

    /// The answer to a handshake. What comes before it by the sessions that there are is kept.
    fn answer(&mut self) -> io::Result<Vec<u8>> {
        let (start, mut buffer) = (Instant::now(), [0; 2_000]);
        loop {
            let left = self.patience.checked_sub(start.elapsed()).filter(|left| !left.is_zero());
            self.socket.set_read_timeout(Some(left.ok_or(io::ErrorKind::TimedOut)?))?;
            let bytes = self.socket.recv(&mut buffer)?;
            match packet::kind(&buffer[..bytes]) {
                Some(Kind::Response | Kind::CookieAnswer) => return Ok(buffer[..bytes].to_vec()),
                _ => {
                    let opened = self.opened(&buffer[..bytes]);
                    self.early.extend(opened);
                }
            }
        }
    }

    /// The newest session, counted from the first one.
    pub fn newest(&self) -> usize {
        self.sessions.len() - 1
    }

    /// Sends datagrams of messages in the newest session.
    pub fn say(&mut self, datagrams: &[Vec<u8>]) {
        self.say_by(self.newest(), datagrams);
    }

    /// Sends datagrams of messages in that session, counted from the first one.
    pub fn say_by(&mut self, session: usize, datagrams: &[Vec<u8>]) {
        for clear in datagrams {
            let mut sealed = vec![0; clear.len() + 64];
            if let Ok(bytes) = self.sessions[session].sealer.seal(clear, &mut sealed) {
                // What the system has no room for is lost, as on any network.
                let _ = self.socket.send(&sealed[..bytes]);
                self.sent += 1;
            }
        }
    }

    /// What has come since, each with the session that it came by.
    pub fn hear(&mut self) -> Vec<(usize, Vec<u8>)> {
        let (mut buffer, mut heard) = ([0; 2_000], std::mem::take(&mut self.early));
        while heard.len() < READ_MAX
            && let Ok(bytes) = self.socket.recv(&mut buffer)
        {
            heard.extend(self.opened(&buffer[..bytes]));
        }
        heard
    }

    fn opened(&mut self, datagram: &[u8]) -> Option<(usize, Vec<u8>)> {
        let index = packet::index(datagram);
        let at = self.sessions.iter().position(|session| Some(session.opener.local_index()) == index)?;
        let mut clear = vec![0; datagram.len()];
        let bytes = self.sessions[at].opener.open(datagram, &mut clear).ok()?;
        clear.truncate(bytes);
        Some((at, clear))
    }
}
