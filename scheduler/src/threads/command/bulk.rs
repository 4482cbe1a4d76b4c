//! The bulk channel's server side: each connection has a [`Server`] of its own, which decides; contents and sockets are
//! here.

use std::io;
use std::time::Duration;

use starfarm_protocol::bulk::{BrokenOff, IDLE_US, Next, Server, Shelf};
use starfarm_protocol::ids::ContentHash;
use tokio::time::timeout;

use super::channel::Channel;
use super::desk::Desk;
use crate::store::blobs::Blobs;

/// A worker that neither asks nor takes anything for this long is hung up on.
const IDLE: Duration = Duration::from_micros(IDLE_US);

impl Desk {
    fn blobs(&self) -> std::sync::MutexGuard<'_, Blobs> {
        self.house.blobs.lock().expect("a panic under the lock ends the process")
    }
}

impl Shelf for &Desk {
    fn len(&self, hash: &ContentHash) -> io::Result<Option<u64>> {
        self.blobs().len(hash)
    }

    fn read(&self, hash: &ContentHash, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        Ok(self.blobs().read(hash, offset, max)?.unwrap_or_default())
    }

    fn put(&self, content: &[u8]) -> io::Result<()> {
        self.blobs().put(content).map(|_| ())
    }

    fn lack(&self) -> Option<String> {
        self.house.low_water.lack()
    }

    fn lament(&self, hash: &ContentHash) -> String {
        self.blobs().lament(hash)
    }

    fn broken_off<R>(&self, change: impl FnOnce(&mut BrokenOff) -> R) -> R {
        change(&mut self.broken_off.lock().expect("a panic under the lock ends the process"))
    }
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

/// Answers one worker until it hangs up or has asked nothing for a while, or takes nothing.
pub(crate) async fn serve(desk: &Desk, channel: &mut Channel) -> io::Result<()> {
    let mut server = Server::new(desk);
    loop {
        match server.step() {
            Next::Say(record) => timeout(IDLE, channel.write_record(&record)).await??,
            Next::Listen => match within(IDLE, channel.read_record()).await? {
                Some(record) => server.on_record(&record),
                None => return Ok(()),
            },
            Next::HangUp => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
