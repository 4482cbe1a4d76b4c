//! The bulk channel's server side: each connection has a [`Server`] of its own, which decides; contents and sockets are
//! here.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use starfarm_protocol::bulk::{BrokenOff, IDLE_US, Next, Request, Server, Shelf};
use starfarm_protocol::ids::{ContentHash, PublicKey};
use starfarm_protocol::seal::Peer;
use starfarm_protocol::spec::{JobSpec, Work};
use tokio::time::timeout;

use super::channel::Channel;
use super::desk::Desk;
use crate::store::blobs::Blobs;
use crate::store::unnamed::Unnamed;

/// A worker that neither asks nor takes anything for this long is hung up on.
const IDLE: Duration = Duration::from_micros(IDLE_US);
/// Connections of one node at one time: one, and some that it does not know to be broken.
const CONNECTIONS_MAX: u32 = 4;
/// Bytes that a node may put and no result has named yet: so many ...
const UNNAMED_BYTES: u64 = 64 << 20;
/// ... and so many times the longest output that any job keeps, for each slot: a result names what its unit wrote, two
/// streams, and its slot goes on with the next.
const UNNAMED_OUTPUTS: u64 = 4;
/// How long it is believed what the farm said of its jobs.
const ASK_PERIOD: Duration = Duration::from_secs(1);

/// What may be put by a node now.
#[derive(Clone, Copy, Default)]
struct Allowed {
    /// The longest output that an unfinished job keeps; none where no unfinished job runs programs.
    longest: Option<u64>,
    slots: u64,
}

/// How the contents look to one node.
struct NodeShelf<'a> {
    desk: &'a Desk,
    key: PublicKey,
    allowed: Mutex<Allowed>,
}

impl NodeShelf<'_> {
    fn blobs(&self) -> MutexGuard<'_, Blobs> {
        self.desk.house.blobs.lock().expect("a panic under the lock ends the process")
    }

    fn allowed(&self) -> MutexGuard<'_, Allowed> {
        self.allowed.lock().expect("a panic under the lock ends the process")
    }

    fn unnamed(&self) -> MutexGuard<'_, Unnamed> {
        self.desk.house.unnamed.lock().expect("a panic under the lock ends the process")
    }
}

impl Allowed {
    /// Why `total` more bytes are not taken from a node that has put so many that no result names; `None`: they are.
    fn refusal(self, unnamed: u64, total: u64) -> Option<String> {
        let Some(longest) = self.longest else {
            return Some("no unfinished job here runs programs, so nobody would want it".into());
        };
        if total > longest {
            return Some(format!("no job here keeps an output of {total} bytes: {longest} at most"));
        }
        let most = longest.saturating_mul(UNNAMED_OUTPUTS * self.slots).saturating_add(UNNAMED_BYTES);
        (unnamed.saturating_add(total) > most)
            .then(|| format!("{unnamed} bytes of this node are here already that no result has named"))
    }
}

impl Shelf for &NodeShelf<'_> {
    fn len(&self, hash: &ContentHash) -> io::Result<Option<u64>> {
        self.blobs().len(hash)
    }

    fn read(&self, hash: &ContentHash, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        Ok(self.blobs().read(hash, offset, max)?.unwrap_or_default())
    }

    fn put(&self, content: &[u8]) -> io::Result<()> {
        // The disk may have filled up since it was asked for.
        if let Some(lack) = self.desk.house.low_water.lack() {
            return Err(io::Error::new(io::ErrorKind::StorageFull, lack));
        }
        let (is_new, hash) = {
            let mut blobs = self.blobs();
            let is_new = blobs.len(&ContentHash::of(content))?.is_none();
            (is_new, blobs.put(content)?)
        };
        if is_new {
            self.unnamed().put(hash, self.key, content.len() as u64, Instant::now());
        }
        Ok(())
    }

    fn lack(&self, total: u64) -> Option<String> {
        let unnamed = self.unnamed().of(&self.key);
        self.desk.house.low_water.lack().or_else(|| self.allowed().refusal(unnamed, total))
    }

    fn lament(&self, hash: &ContentHash) -> String {
        self.blobs().lament(hash)
    }

    fn broken_off<R>(&self, change: impl FnOnce(&mut BrokenOff) -> R) -> R {
        change(&mut self.desk.broken_off.lock().expect("a panic under the lock ends the process"))
    }
}

/// Asks the farm what a node may put now. The limits of jobs are read from their specifications, each once.
async fn allowed(desk: &Desk, name: String, limits: &mut HashMap<ContentHash, u64>) -> Allowed {
    let find =
        desk.find(move |farm| Ok((farm.specs_of_programs().collect::<Vec<_>>(), farm.slots_of(&name))));
    // A scheduler that stops takes nothing.
    let Ok((specs, slots)) = find.await else { return Allowed::default() };
    limits.retain(|spec, _| specs.contains(spec));
    for spec in specs {
        if limits.contains_key(&spec) {
            continue;
        }
        let mut blobs = desk.house.blobs.lock().expect("a panic under the lock ends the process");
        let bytes = blobs.read(&spec, 0, usize::MAX).ok().flatten().unwrap_or_default();
        drop(blobs);
        let work = JobSpec::from_bytes(&bytes).map(|spec| spec.work);
        if let Ok(Work::Command(command)) = work {
            limits.insert(spec, command.output_limit.bytes);
        }
    }
    Allowed { longest: limits.values().max().copied(), slots: slots.unwrap_or(1).into() }
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

/// A connection of a node, counted as long as the value lives.
struct Place<'a>(&'a Desk, PublicKey);

impl<'a> Place<'a> {
    fn take(desk: &'a Desk, key: PublicKey) -> Option<Self> {
        let mut connections = desk.bulk.lock().expect("a panic under the lock ends the process");
        let count = connections.entry(key).or_default();
        if *count == CONNECTIONS_MAX {
            return None;
        }
        *count += 1;
        Some(Self(desk, key))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut connections = self.0.bulk.lock().expect("a panic under the lock ends the process");
        let left = connections.get(&self.1).map_or(0, |count| count - 1);
        match left {
            0 => connections.remove(&self.1),
            left => connections.insert(self.1, left),
        };
    }
}

/// Answers one worker until it hangs up or has asked nothing for a while, or takes nothing.
pub(crate) async fn serve(desk: &Desk, channel: &mut Channel, peer: &Peer) -> io::Result<()> {
    let key = peer.claim.key;
    let Some(_place) = Place::take(desk, key) else { return Ok(()) };
    let shelf = NodeShelf { desk, key, allowed: Mutex::default() };
    let (mut server, mut asked, mut limits) = (Server::new(&shelf), None::<Instant>, HashMap::new());
    loop {
        match server.step() {
            Next::Say(record) => timeout(IDLE, channel.write_record(&record)).await??,
            Next::Listen => match within(IDLE, channel.read_record()).await? {
                Some(record) => {
                    let is_old = asked.is_none_or(|asked| asked.elapsed() >= ASK_PERIOD);
                    if is_old && matches!(Request::read(&record), Ok(Request::Put { .. })) {
                        let now = allowed(desk, peer.claim.name.clone(), &mut limits).await;
                        *shelf.allowed() = now;
                        asked = Some(Instant::now());
                    }
                    server.on_record(&record);
                }
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
    fn a_node_may_put_what_some_job_keeps_as_long_as_results_name_it() {
        let mib = 1 << 20;
        let says = |allowed: Allowed, unnamed, total| allowed.refusal(unnamed, total).unwrap_or_default();
        assert!(says(Allowed::default(), 0, 1).starts_with("no unfinished job here runs programs"));
        let allowed = Allowed { longest: Some(mib), slots: 2 };
        assert_eq!(says(allowed, 0, mib), "");
        assert!(says(allowed, 0, mib + 1).contains("1048576 at most"));
        assert_eq!(says(allowed, 71 * mib, mib), "");
        assert!(says(allowed, 71 * mib + 1, mib).starts_with("74448897 bytes of this node"));
        let large = Allowed { longest: Some(1 << 30), slots: 1_024 };
        assert_eq!(says(large, 1 << 40, 1 << 30), "", "all slots may have written that much");
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
}
