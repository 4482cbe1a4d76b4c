//! The bulk channel's server side: contents by their hash, both ways. A transfer belongs to its connection alone:
//! two nodes may well send equal contents at one time.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use starfarm_protocol::bulk::{BulkError, CHUNK_BYTES, Chunk, Incoming, Reply, Request};
use starfarm_protocol::ids::ContentHash;
use tokio::time::timeout;

use super::broken_off::BrokenOff;
use super::channel::Channel;
use super::desk::Desk;
use crate::store::blobs::Blobs;

/// A worker that neither asks nor takes anything for this long is hung up on.
const IDLE: Duration = Duration::from_secs(30);

/// A content that is on its way in.
struct Putting {
    incoming: Incoming,
    total: u64,
    /// Another connection brought the start of it.
    resumed: bool,
}

/// What one connection stores. Nothing of a transfer under way is seen by another one.
struct Puts<'a> {
    blobs: &'a Mutex<Blobs>,
    broken_off: &'a Mutex<BrokenOff>,
    now: Option<Putting>,
}

impl<'a> Puts<'a> {
    fn new(blobs: &'a Mutex<Blobs>, broken_off: &'a Mutex<BrokenOff>) -> Self {
        Self { blobs, broken_off, now: None }
    }

    fn begin(&mut self, hash: ContentHash, total: u64) -> Reply<'static> {
        self.now = None;
        match self.blobs.lock().expect("a panic under the lock ends the process").len(&hash) {
            Ok(Some(_)) => return Reply::Have { bytes: total },
            Ok(None) => {}
            Err(e) => return Reply::Refused(format!("the scheduler cannot read what it has: {e}")),
        }
        let mut broken_off = self.broken_off.lock().expect("a panic under the lock ends the process");
        let incoming = broken_off.take(hash, total);
        let bytes = incoming.offset();
        self.now = Some(Putting { incoming, total, resumed: bytes > 0 });
        Reply::Have { bytes }
    }

    /// Takes a chunk; a reply where the content is whole. An error breaks the connection.
    fn take(&mut self, chunk: &Chunk<'_>) -> io::Result<Option<Reply<'static>>> {
        let mut putting = self.now.take().ok_or_else(|| broken(BulkError::OutOfPlace))?;
        putting.incoming.take(chunk, putting.total).map_err(broken)?;
        if putting.incoming.offset() < putting.total {
            self.now = Some(putting);
            return Ok(None);
        }
        let bytes = match putting.incoming.finish() {
            Ok(bytes) => bytes,
            // It is sent again, all of it.
            Err(e) if putting.resumed => return Err(broken(e)),
            Err(e) => return Ok(Some(Reply::Refused(e.to_string()))),
        };
        Ok(Some(match self.blobs.lock().expect("a panic under the lock ends the process").put(&bytes) {
            Ok(_) => Reply::Stored,
            Err(e) if e.kind() == io::ErrorKind::StorageFull => Reply::NoRoom(e.to_string()),
            Err(e) => Reply::Refused(format!("the scheduler cannot keep it: {e}")),
        }))
    }
}

impl Drop for Puts<'_> {
    fn drop(&mut self) {
        if let Some(Putting { incoming, .. }) = self.now.take() {
            self.broken_off.lock().expect("a panic under the lock ends the process").keep(incoming);
        }
    }
}

fn broken(e: BulkError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, e)
}

/// What is read, unless the other end hangs up or says nothing for so long: it opens another connection when it needs
/// one.
async fn within<T>(idle: Duration, read: impl Future<Output = io::Result<T>>) -> io::Result<Option<T>> {
    match timeout(idle, read).await {
        Err(_) => Ok(None),
        Ok(Err(e)) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Ok(read) => read.map(Some),
    }
}

/// Answers one worker until it hangs up or has asked nothing for a while. What is no question, or does not continue
/// what it said before, breaks the connection: an answer would be taken for that to its next question.
pub(crate) async fn serve(desk: &Desk, channel: &mut Channel) -> io::Result<()> {
    let mut puts = Puts::new(&desk.blobs, &desk.broken_off);
    loop {
        let Some(record) = within(IDLE, channel.read_record()).await? else { return Ok(()) };
        match Request::read(&record) {
            Ok(Request::Get { hash, offset }) => get(desk, channel, hash, offset).await?,
            Ok(Request::Put { hash, total }) => {
                let reply = puts.begin(hash, total);
                // The worker waits with it, and goes on when there is room.
                let lack = match reply {
                    Reply::Have { bytes } if bytes < total => desk.low_water.lack(),
                    _ => None,
                };
                say(channel, &lack.map_or(reply, Reply::NoRoom)).await?;
            }
            Ok(Request::Chunk(chunk)) => {
                if let Some(reply) = puts.take(&chunk)? {
                    say(channel, &reply).await?;
                }
            }
            Err(e @ BulkError::Crc) => return Err(broken(e)),
            Err(e) => return say(channel, &Reply::Refused(e.to_string())).await,
        }
    }
}

/// A worker that takes nothing for a while is gone.
async fn say(channel: &mut Channel, reply: &Reply<'_>) -> io::Result<()> {
    timeout(IDLE, channel.write_record(&reply.to_bytes())).await?
}

async fn get(desk: &Desk, channel: &mut Channel, hash: ContentHash, mut offset: u64) -> io::Result<()> {
    let (total, lament) = {
        let blobs = desk.blobs.lock().expect("a panic under the lock ends the process");
        (blobs.len(&hash)?, blobs.lament(&hash))
    };
    let Some(total) = total else {
        return say(channel, &Reply::Refused(lament)).await;
    };
    say(channel, &Reply::Found { total }).await?;
    while offset < total {
        let bytes = {
            let blobs = desk.blobs.lock().expect("a panic under the lock ends the process");
            blobs.read(&hash, offset, CHUNK_BYTES)?.unwrap_or_default()
        };
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        say(channel, &Reply::Chunk(Chunk { offset, bytes: &bytes })).await?;
        offset += bytes.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use starfarm_protocol::bulk::chunks;

    use super::*;

    fn stores(name: &str) -> (PathBuf, Mutex<Blobs>, Mutex<BrokenOff>) {
        let path = std::env::temp_dir().join(format!("starfarm-bulk-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let blobs = Mutex::new(Blobs::open(&path).unwrap().0);
        (path, blobs, Mutex::default())
    }

    fn content() -> (Vec<u8>, ContentHash, u64) {
        let content: Vec<u8> = (0..200_000_u32).map(|i| (i / 7) as u8).collect();
        let (hash, total) = (ContentHash::of(&content), content.len() as u64);
        (content, hash, total)
    }

    #[test]
    fn a_connection_that_says_nothing_for_a_while_is_hung_up_on() {
        assert_eq!(IDLE, Duration::from_secs(30), "docs/operations.md says so");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let read = |idle, read: io::Result<u8>| runtime.block_on(within(idle, std::future::ready(read)));
        let silent = within::<u8>(Duration::from_millis(1), std::future::pending());
        assert_eq!(runtime.block_on(async { timeout(IDLE, silent).await }).unwrap().unwrap(), None);
        assert_eq!(read(IDLE, Ok(7)).unwrap(), Some(7));
        assert_eq!(read(IDLE, Err(io::ErrorKind::UnexpectedEof.into())).unwrap(), None);
        assert!(read(IDLE, Err(io::ErrorKind::ConnectionReset.into())).is_err());
    }

    #[test]
    fn equal_contents_of_two_connections_at_one_time_are_both_stored() {
        let (path, blobs, broken_off) = stores("equal");
        let (content, hash, total) = content();
        let mut nodes = [Puts::new(&blobs, &broken_off), Puts::new(&blobs, &broken_off)];
        for node in &mut nodes {
            assert_eq!(node.begin(hash, total), Reply::Have { bytes: 0 });
        }
        let mut replies = Vec::new();
        for chunk in chunks(&content, 0) {
            replies.extend(nodes.iter_mut().map(|node| node.take(&chunk).unwrap()));
        }
        let last = replies.len() - 2;
        assert_eq!(replies[last..], [Some(Reply::Stored), Some(Reply::Stored)]);
        assert!(replies[..last].iter().all(Option::is_none), "{replies:?}");
        assert_eq!(blobs.lock().unwrap().len(&hash).unwrap(), Some(total));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_transfer_that_broke_off_goes_on_for_one_connection_only() {
        let (path, blobs, broken_off) = stores("broken");
        let (content, hash, total) = content();
        let mut first = Puts::new(&blobs, &broken_off);
        first.begin(hash, total);
        chunks(&content, 0).take(2).for_each(|chunk| assert_eq!(first.take(&chunk).unwrap(), None));
        drop(first);
        let (mut second, mut third) = (Puts::new(&blobs, &broken_off), Puts::new(&blobs, &broken_off));
        let half = 2 * CHUNK_BYTES as u64;
        assert_eq!(second.begin(hash, total), Reply::Have { bytes: half });
        assert_eq!(third.begin(hash, total), Reply::Have { bytes: 0 });
        let replies = chunks(&content, half).map(|chunk| second.take(&chunk).unwrap());
        assert_eq!(replies.last(), Some(Some(Reply::Stored)));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_chunk_that_continues_nothing_breaks_the_connection() {
        let (path, blobs, broken_off) = stores("stray");
        let (content, hash, total) = content();
        let mut node = Puts::new(&blobs, &broken_off);
        let second = chunks(&content, 0).nth(1).unwrap();
        assert!(node.take(&second).is_err());
        node.begin(hash, total);
        assert!(node.take(&second).is_err());
        std::fs::remove_file(path).unwrap();
    }
}
