//! A node's end of the bulk channel, one record at a time, so that a test chooses the order of two of them.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use starfarm_protocol::bulk::{BULK, Chunk, Reply, Request};
use starfarm_protocol::ids::{Boot, ContentHash};
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::seal::handshake::Introduction;
use starfarm_protocol::seal::stream::{
    FRAME_HEADER_BYTES, Stream, StreamInitiator, StreamOutcome, frame_bytes,
};
use starfarm_protocol::seal::{Mode, StaticKey};

use crate::patience::GUARD;

/// A connection that has shaken hands.
#[expect(missing_debug_implementations, reason = "it holds keys")]
pub struct BulkClient {
    socket: TcpStream,
    stream: Stream,
}

impl BulkClient {
    /// Joins a farm as a new node and opens the channel.
    ///
    /// # Panics
    /// The scheduler does not take it.
    pub fn open(address: SocketAddr, join: &Path, name: &str) -> Self {
        let text = std::fs::read_to_string(join).unwrap_or_else(|e| panic!("{}: {e}", join.display()));
        let join = JoinFile::from_text(&text).unwrap_or_else(|e| panic!("{e}"));
        let key = StaticKey::generate().expect("the system has random numbers");
        let who = Introduction {
            key: &key,
            scheduler: &join.scheduler_key,
            join_secret: &join.join_secret,
            name,
            boot: Boot(1),
            mode: Mode::default(),
        };
        let (initiator, hello) = StreamInitiator::start(&who).expect("the name is a good one");
        let mut socket = TcpStream::connect(address).unwrap_or_else(|e| panic!("{address}: {e}"));
        socket.set_read_timeout(Some(GUARD)).expect("a time above 0");
        socket.write_all(&hello).unwrap_or_else(|e| panic!("{address}: {e}"));
        let welcome = read_frame(&mut socket).unwrap_or_else(|e| panic!("{name} is not answered: {e}"));
        let Ok(StreamOutcome::Accepted { stream, .. }) = initiator.finish(&welcome) else {
            panic!("{name} is not accepted");
        };
        let mut client = Self { socket, stream };
        client.send(&[BULK]);
        client
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
        let body = read_frame(&mut self.socket)?;
        let mut record = Vec::new();
        self.stream.opener.open(&body, &mut record).expect("the scheduler seals what it says");
        Ok(format!("{:?}", Reply::read(&record).expect("a scheduler says what the protocol has")))
    }

    fn send(&mut self, record: &[u8]) {
        let mut frame = Vec::new();
        self.stream.sealer.seal(record, &mut frame).expect("it fits into a record");
        // A scheduler that has hung up is noticed where its reply is read.
        let _ = self.socket.write_all(&frame);
    }
}

fn read_frame(socket: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut header = [0; FRAME_HEADER_BYTES];
    socket.read_exact(&mut header)?;
    let mut body = vec![0; frame_bytes(header).map_err(io::Error::other)?];
    socket.read_exact(&mut body)?;
    Ok(body)
}
