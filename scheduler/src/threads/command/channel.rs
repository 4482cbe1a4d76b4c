//! A connection that carries messages: a local socket as it is, or a sealed TCP stream.

use std::io;
use std::time::Duration;

use serde::de::DeserializeOwned;
use starfarm_protocol::admin::Response;
use starfarm_protocol::admin::frames::{FrameError, FrameReader, RECORD_BYTES_MAX, records};
use starfarm_protocol::admin::pieces::{PIECE_BYTES_MAX, answer_frames};
use starfarm_protocol::orders::PostId;
use starfarm_protocol::seal::stream::{self, FRAME_HEADER_BYTES, Stream, frame_bytes};
use starfarm_protocol::seal::{Peer, Pending, SealError, post_of};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::desk::Desk;
use crate::threads::enrolled;
use crate::tree::{Arrival, Tree};

/// So long a caller who hears a last word may go on sending.
const PARTING_MAX: Duration = Duration::from_secs(5);

pub(crate) enum Channel {
    Local(UnixStream),
    Sealed { socket: TcpStream, stream: Box<Stream> },
}

fn invalid(e: SealError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, e.to_string())
}

async fn read_frame(socket: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut header = [0; FRAME_HEADER_BYTES];
    socket.read_exact(&mut header).await?;
    let mut body = vec![0; frame_bytes(header).map_err(invalid)?];
    socket.read_exact(&mut body).await?;
    Ok(body)
}

/// The caller has proved its join key: it is enrolled.
fn enrol(desk: &Desk, caller: Pending, body: &[u8], first: &mut Vec<u8>) -> io::Result<(Stream, Peer)> {
    let now_unix = desk.house.shared.now_us() / 1_000_000;
    let mut keys = desk.house.keys.lock().expect("a panic under the lock ends the process");
    let (stream, peer, changed) = caller.confirm(&mut *keys, body, first, now_unix).map_err(invalid)?;
    if changed {
        let saved = desk.house.state.save_enrolled(&keys, &[peer.claim.key]);
        saved.map_err(|e| io::Error::other(e.to_string()))?;
        desk.tell(enrolled(&peer));
    }
    Ok((stream, peer))
}

impl Channel {
    /// Shakes hands; returns who it is and the first record, which says what is spoken. How long it may take is the
    /// caller's to say.
    pub(crate) async fn sealed(desk: &Desk, mut socket: TcpStream) -> io::Result<(Self, Peer, Vec<u8>)> {
        let from = socket.peer_addr()?.to_string();
        let body = read_frame(&mut socket).await?;
        // Posts have no key in the store: who they are, and whom they may call, the tree has said.
        let tree = desk.house.tree.as_deref();
        let vouched = stream::join_key(&body).zip(tree).and_then(|(key, tree)| tree.vouched(&key));
        let (frame, unconfirmed) = {
            let mut responder = desk.responder.lock().expect("a panic under the lock ends the process");
            let (from, now_us) = (from.as_bytes(), desk.house.shared.now_us());
            match &vouched {
                Some(vouchers) => stream::answer(&mut responder, vouchers, &body, from, now_us),
                None => {
                    let keys = desk.house.keys.lock().expect("a panic under the lock ends the process");
                    stream::answer(&mut responder, &*keys, &body, from, now_us)
                }
            }
            .map_err(invalid)?
        };
        socket.write_all(&frame).await?;
        let unconfirmed = unconfirmed.map_err(|_| io::ErrorKind::PermissionDenied)?;
        let body = read_frame(&mut socket).await?;
        let mut first = Vec::new();
        let (stream, peer) = match vouched {
            Some(mut vouchers) => {
                let now_unix = desk.house.shared.now_us() / 1_000_000;
                let confirmed = unconfirmed.confirm(&mut vouchers, &body, &mut first, now_unix);
                let (stream, peer, _) = confirmed.map_err(invalid)?;
                (stream, peer)
            }
            None => enrol(desk, unconfirmed, &body, &mut first)?,
        };
        Ok((Channel::Sealed { socket, stream: Box::new(stream) }, peer, first))
    }

    /// Hands the connection to the tree, as the link of a post.
    pub(crate) fn hand_over(self, tree: &Tree, peer: &Peer, first: Vec<u8>) -> io::Result<()> {
        let (Channel::Sealed { socket, stream }, Some(post)) = (self, post_of(&peer.claim.name)) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let (post, key) = (PostId(post), peer.claim.key);
        tree.arrive(Arrival { socket: socket.into_std()?, stream, post, key, first });
        Ok(())
    }

    pub(crate) async fn read_record(&mut self) -> io::Result<Vec<u8>> {
        let Channel::Sealed { socket, stream, .. } = self else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let body = read_frame(socket).await?;
        let mut plain = Vec::new();
        stream.opener.open(&body, &mut plain).map_err(invalid)?;
        Ok(plain)
    }

    pub(crate) async fn write_record(&mut self, plain: &[u8]) -> io::Result<()> {
        let Channel::Sealed { socket, stream, .. } = self else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let mut frame = Vec::new();
        stream.sealer.seal(plain, &mut frame).map_err(invalid)?;
        socket.write_all(&frame).await
    }

    /// The next admin message; `None` at the end of the stream.
    pub(crate) async fn read_message<T: DeserializeOwned>(
        &mut self,
        reader: &mut FrameReader,
    ) -> io::Result<Option<Result<T, FrameError>>> {
        self.read_next(reader, FrameReader::next_message).await
    }

    /// The next piece of a content; `None` at the end of the stream.
    pub(crate) async fn read_piece(
        &mut self,
        reader: &mut FrameReader,
    ) -> io::Result<Option<Result<Vec<u8>, FrameError>>> {
        self.read_next(reader, |reader| reader.next_bytes(PIECE_BYTES_MAX)).await
    }

    async fn read_next<T>(
        &mut self,
        reader: &mut FrameReader,
        next: impl Fn(&mut FrameReader) -> Result<Option<T>, FrameError>,
    ) -> io::Result<Option<Result<T, FrameError>>> {
        let mut piece = vec![0; RECORD_BYTES_MAX];
        loop {
            if let Some(found) = next(reader).transpose() {
                return Ok(Some(found));
            }
            match self {
                Channel::Local(socket) => match socket.read(&mut piece).await? {
                    0 => return Ok(None),
                    count => reader.push(&piece[..count]),
                },
                Channel::Sealed { .. } => match self.read_record().await {
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                    record => reader.push(&record?),
                },
            }
        }
    }

    /// An answer, and the bytes that follow it.
    pub(crate) async fn write_answer(&mut self, answer: &Response) -> io::Result<()> {
        for frame in answer_frames(answer).map_err(|e| io::Error::other(e.to_string()))? {
            if let Channel::Local(socket) = self {
                socket.write_all(&frame).await?;
                continue;
            }
            for record in records(&frame) {
                self.write_record(record).await?;
            }
        }
        Ok(())
    }

    /// Says a last word. A caller who is still sending would not hear it if the connection were closed on bytes that
    /// nobody has read: so they are read for a while, and forgotten.
    pub(crate) async fn part(&mut self, last: &Response) -> io::Result<()> {
        self.write_answer(last).await?;
        let hear_out = async {
            let mut forgotten = vec![0; RECORD_BYTES_MAX];
            match self {
                Channel::Local(socket) => {
                    socket.shutdown().await?;
                    while socket.read(&mut forgotten).await? > 0 {}
                }
                Channel::Sealed { socket, .. } => {
                    socket.shutdown().await?;
                    while socket.read(&mut forgotten).await? > 0 {}
                }
            }
            Ok(())
        };
        timeout(PARTING_MAX, hear_out).await.unwrap_or(Ok(()))
    }
}
