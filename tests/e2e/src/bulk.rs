//! A node's end of the bulk channel, one record at a time, so that a test chooses the order of two of them.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use starfarm_protocol::bulk::{BULK, Chunk, Reply, Request};
use starfarm_protocol::ids::{Boot, ContentHash};
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::seal::{Introduction, Line, Mode, StaticKey};

use crate::patience::GUARD;

/// A connection that has shaken hands.
#[expect(missing_debug_implementations, reason = "it holds keys")]
pub struct BulkClient(Line<TcpStream>);

impl BulkClient {
    /// Joins a farm as a new node and opens the channel.
    ///
    /// # Panics
    /// The scheduler does not take it.
    pub fn open(address: SocketAddr, join: &Path, name: &str) -> Self {
        Self::open_as(&StaticKey::generate().expect("the system has random numbers"), address, join, name)
    }

    /// The same for the node of this key, which may have other connections.
    ///
    /// # Panics
    /// As [`BulkClient::open`].
    pub fn open_as(key: &StaticKey, address: SocketAddr, join: &Path, name: &str) -> Self {
        let text = std::fs::read_to_string(join).unwrap_or_else(|e| panic!("{}: {e}", join.display()));
        let join = JoinFile::from_text(&text).unwrap_or_else(|e| panic!("{e}"));
        let who = Introduction {
            key,
            scheduler: &join.scheduler_key,
            join_secret: &join.join_secret,
            name,
            boot: Boot(1),
            mode: Mode::default(),
        };
        let socket = TcpStream::connect(address).unwrap_or_else(|e| panic!("{address}: {e}"));
        socket.set_nodelay(true).expect("a socket");
        socket.set_read_timeout(Some(GUARD)).expect("a time above 0");
        let line = Line::open(socket, &who, join.farm, &[BULK]);
        Self(line.unwrap_or_else(|e| panic!("{name} is not accepted: {e}")))
    }

    /// Asks for a content from `offset` on.
    pub fn get(&mut self, hash: ContentHash, offset: u64) {
        self.send(&Request::Get { hash, offset }.to_bytes());
    }

    /// Begins to store a content of so many bytes.
    pub fn put(&mut self, hash: ContentHash, total: u64) {
        self.send(&Request::Put { hash, total }.to_bytes());
    }

    /// Sends a piece of it.
    pub fn chunk(&mut self, chunk: Chunk<'_>) {
        self.send(&Request::Chunk(chunk).to_bytes());
    }

    /// What the scheduler says next, as the debug text of a [`Reply`].
    ///
    /// # Errors
    /// It has hung up.
    pub fn reply(&mut self) -> io::Result<String> {
        let record = self.0.receive()?;
        Ok(format!("{:?}", Reply::read(record).expect("a scheduler says what the protocol has")))
    }

    fn send(&mut self, record: &[u8]) {
        // A scheduler that has hung up is noticed where its reply is read.
        let _ = self.0.send(record);
    }
}
