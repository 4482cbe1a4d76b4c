//! A session with the scheduler over datagrams: the handshake, and messages sealed and opened.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use starfarm_protocol::ids::Boot;
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::seal::{Initiator, Introduction, Mode, Outcome, Session, StaticKey};

/// How long the scheduler may take to answer a handshake.
const PATIENCE: Duration = Duration::from_secs(5);
/// Datagrams that are read at one time.
const READ_MAX: usize = 1_024;

/// A member of the farm.
#[expect(missing_debug_implementations, reason = "it holds keys")]
pub struct Member {
    socket: UdpSocket,
    session: Session,
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
        let who = Introduction {
            key,
            scheduler: &join.scheduler_key,
            join_secret: &join.join_secret,
            name,
            boot,
            mode: Mode::default(),
        };
        let wrong = |error: &dyn std::fmt::Display| io::Error::other(error.to_string());
        let socket = UdpSocket::bind((if address.is_ipv4() { "0.0.0.0" } else { "::" }, 0))?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(patience))?;
        let mut cookie = None;
        for index in 1..=3 {
            let (mut initiator, datagram) =
                Initiator::start(&who, index, cookie.as_ref()).map_err(|e| wrong(&e))?;
            socket.send(&datagram)?;
            let mut buffer = [0; 2_000];
            let bytes = socket.recv(&mut buffer)?;
            match initiator.read_response(&buffer[..bytes]) {
                Ok(Outcome::Accepted(accepted)) => {
                    socket.set_nonblocking(true)?;
                    return Ok(Self { socket, session: accepted.into_session(0), sent: 0 });
                }
                Ok(Outcome::Refused { reason, .. }) => return Err(io::Error::other(reason)),
                // Under load it wants to see first that we receive at our address.
                Err(_) => cookie = initiator.read_cookie(&buffer[..bytes], 0).ok(),
            }
        }
        Err(io::Error::other("no handshake was answered"))
    }

    /// Sends datagrams of messages.
    pub fn say(&mut self, datagrams: &[Vec<u8>]) {
        for clear in datagrams {
            let mut sealed = vec![0; clear.len() + 64];
            if let Ok(bytes) = self.session.sealer.seal(clear, &mut sealed) {
                // What the system has no room for is lost, as on any network.
                let _ = self.socket.send(&sealed[..bytes]);
                self.sent += 1;
            }
        }
    }

    /// What has come since.
    pub fn hear(&mut self) -> Vec<Vec<u8>> {
        let (mut buffer, mut heard) = ([0; 2_000], Vec::new());
        while heard.len() < READ_MAX
            && let Ok(bytes) = self.socket.recv(&mut buffer)
        {
            let mut clear = vec![0; bytes];
            if let Ok(bytes) = self.session.opener.open(&buffer[..bytes], &mut clear) {
                clear.truncate(bytes);
                heard.push(clear);
            }
        }
        heard
    }
}
