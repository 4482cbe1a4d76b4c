//! The bulk channel's server side: each connection has a [`Server`] of its own, which decides; contents and sockets are
//! here.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use starfarm_protocol::bulk::{Few, IDLE_US, Located, Next, Request, Server, Shelf};
use starfarm_protocol::ids::{ContentHash, JobId, NodeId, PublicKey};
use starfarm_protocol::seal::Peer;
use starfarm_protocol::spec::{JobSpec, Work};
use tokio::time::timeout;

use super::channel::Channel;
use super::desk::Desk;
use crate::descriptors::are_scarce;
use crate::store::arrivals;
use crate::store::blobs::Blobs;
use crate::store::low_water::{Lack, LowWater};
use crate::store::transfers::{Incoming, Transfers};
use crate::store::unnamed::Unnamed;

/// A worker that neither asks nor takes anything for this long is hung up on.
const IDLE: Duration = Duration::from_micros(IDLE_US);
/// Connections of one node at one time: one, and some that it does not know to be broken.
const CONNECTIONS_MAX: u32 = 4;
/// Bytes that a node may put and no result has named yet: so many ...
const UNNAMED_BYTES: u64 = 64 << 20;
/// ... and so many times the longest output that any job keeps, for each unit of a program that it may be running, or one
/// where it holds none, whose result is late: a result names what its unit wrote, two streams, and the next one begins.
const UNNAMED_OUTPUTS: u64 = 4;
/// How long it is believed what the farm said of its jobs.
const ASK_PERIOD: Duration = Duration::from_secs(1);

/// What may be put by a node now.
#[derive(Clone, Copy, Default)]
struct Allowed {
    /// The longest output that an unfinished job keeps; none where no unfinished job runs programs.
    longest: Option<u64>,
    /// Units of programs that the node may be running.
    running: u64,
    /// Which node it is; none where the farm does not know it yet.
    node: Option<NodeId>,
}

/// How the contents look to one node.
struct NodeShelf<'a> {
    desk: &'a Desk,
    key: PublicKey,
    allowed: Mutex<Allowed>,
    /// What the farm said of the unit that is asked for.
    located: Mutex<Option<Located>>,
}

impl NodeShelf<'_> {
    fn blobs(&self) -> MutexGuard<'_, Blobs> {
        self.desk.house.blobs.lock().expect("a panic under the lock ends the process")
    }

    fn allowed(&self) -> MutexGuard<'_, Allowed> {
        self.allowed.lock().expect("a panic under the lock ends the process")
    }

    /// There is room, or it is said what lacks.
    fn has_room(&self, lack: Option<Lack>) -> io::Result<()> {
        let Some(lack) = lack else { return Ok(()) };
        transfers(self.desk).drop_broken_off();
        Err(no_room(lack.to_string()))
    }

    /// Where the content is here already, it stays until the result that names it has come.
    fn offered(&self, hash: &ContentHash, bytes: u64) -> io::Result<()> {
        let node = self.allowed().node;
        node.map_or(Ok(()), |node| self.blobs().offer(hash, bytes, node, Instant::now()))
    }

    fn low_water(&self) -> &LowWater {
        &self.desk.house.low_water
    }

    fn unnamed(&self) -> MutexGuard<'_, Unnamed> {
        self.desk.house.unnamed.lock().expect("a panic under the lock ends the process")
    }
}

impl Allowed {
    /// Why contents of `total` more bytes, the longest of them of `longest_put`, are not taken from a node that has put, or is
    /// putting, so many that no result names; `None`: they are.
    fn refusal(self, unnamed: u64, (longest_put, total): (u64, u64)) -> Option<String> {
        let Some(longest) = self.longest else {
            return Some("no unfinished job here runs programs, so nobody would want it".into());
        };
        if longest_put > longest {
            return Some(format!("no job here keeps an output of {longest_put} bytes: {longest} at most"));
        }
        let most =
            longest.saturating_mul(UNNAMED_OUTPUTS * self.running.max(1)).saturating_add(UNNAMED_BYTES);
        (unnamed.saturating_add(total) > most)
            .then(|| format!("{unnamed} bytes of this node are here already that no result has named"))
    }
}

/// A content that a node is putting: its bytes are counted as long as the value lives.
struct Announced<'a> {
    desk: &'a Desk,
    key: PublicKey,
    total: u64,
    /// They lie in memory.
    in_memory: bool,
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        let mut transfers = transfers(self.desk);
        transfers.end(self.key, self.total);
        if self.in_memory {
            transfers.free_memory(self.total);
        }
    }
}

fn transfers(desk: &Desk) -> MutexGuard<'_, Transfers> {
    desk.house.transfers.lock().expect("a panic under the lock ends the process")
}

fn no_room(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, why.into())
}

impl<'a> Shelf for &NodeShelf<'a> {
    type Transfer = (Incoming, Announced<'a>);

    fn len(&self, hash: &ContentHash) -> io::Result<Option<u64>> {
        self.blobs().len(hash)
    }

    fn read(&self, hash: &ContentHash, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        Ok(self.blobs().read(hash, offset, max)?.unwrap_or_default())
    }

    fn begin(&self, hash: ContentHash, total: u64) -> io::Result<(Self::Transfer, u64)> {
        self.has_room(self.low_water().lack_for(total))?;
        let (unnamed, allowed) = (self.unnamed().of(&self.key), *self.allowed());
        let (before, in_memory) = {
            let mut transfers = transfers(self.desk);
            if let Some(why) = allowed.refusal(unnamed + transfers.of(&self.key), (total, total)) {
                return Err(no_room(why));
            }
            transfers.begin(self.key, total);
            let before = transfers.take(&self.key, &hash).filter(|incoming| incoming.offset() < total);
            let in_memory = before.is_none() && transfers.take_memory(total);
            (before, in_memory)
        };
        let announced = Announced { desk: self.desk, key: self.key, total, in_memory };
        let incoming = match before {
            Some(before) => Ok(before),
            None if in_memory => Ok(Incoming::in_memory(hash)),
            None => Incoming::new(hash, total, self.desk.house.state.path()),
        };
        // Descriptors come back.
        let incoming = incoming.map_err(|e| if are_scarce(&e) { no_room(e.to_string()) } else { e })?;
        let offset = incoming.offset();
        Ok(((incoming, announced), offset))
    }

    fn take(&self, (incoming, announced): &mut Self::Transfer, bytes: &[u8]) -> io::Result<()> {
        // The disk may have filled up since it was asked for.
        self.has_room(self.low_water().lack_amid(announced.total, 0))?;
        incoming.take(bytes)
    }

    fn keep(&self, (incoming, announced): Self::Transfer) -> io::Result<bool> {
        self.has_room(self.low_water().lack_amid(announced.total, announced.total))?;
        let Some(whole) = incoming.finish() else { return Ok(false) };
        let (node, now) = (self.allowed().node, Instant::now());
        arrivals::of_node(self.desk.house.arrivals(), (self.key, now), |blobs, new| {
            new.extend(blobs.put_incoming(&whole)?.then_some((whole.hash, whole.bytes)));
            if let Some(node) = node {
                blobs.names.bring(whole.hash, node, now);
            }
            Ok(())
        })?;
        Ok(true)
    }

    fn keep_all(&self, contents: Few<'_>) -> io::Result<()> {
        let total = contents.contents().map(|content| content.len() as u64).sum();
        let longest = contents.contents().map(|content| content.len() as u64).max().unwrap_or(0);
        self.has_room(self.low_water().lack_for(total))?;
        let (held, allowed) = (self.unnamed().of(&self.key), *self.allowed());
        let held = held + transfers(self.desk).of(&self.key);
        if let Some(why) = allowed.refusal(held, (longest, total)) {
            return Err(no_room(why));
        }
        let now = Instant::now();
        arrivals::of_node(self.desk.house.arrivals(), (self.key, now), |blobs, new| {
            contents.contents().try_for_each(|content| {
                let (hash, is_new) = blobs.bring(content, allowed.node, now)?;
                new.extend(is_new.then_some((hash, content.len() as u64)));
                Ok(())
            })
        })
    }

    fn break_off(&self, (mut incoming, announced): Self::Transfer) {
        // What the disk does not take, or has hardly room for, is sent again.
        let has_room = incoming.is_on_disk() || self.low_water().lacks_disk().is_none();
        if has_room && incoming.move_to_disk(self.desk.house.state.path()).is_ok() {
            transfers(self.desk).keep(self.key, incoming, Instant::now());
        }
        drop(announced);
    }

    fn lament(&self, hash: &ContentHash) -> String {
        self.blobs().lament(hash)
    }

    fn locate(&self, job: JobId, unit: u128) -> Result<Located, String> {
        let located = self.located.lock().expect("a panic under the lock ends the process").take();
        located.ok_or_else(|| format!("job {} has no unit {unit} that its decomposer named", job.0))
    }
}

/// Asks the farm what a node may put now. The limits of jobs are read from their specifications, each once.
async fn allowed(desk: &Desk, name: String, limits: &mut HashMap<ContentHash, u64>) -> Allowed {
    let find = desk.find(move |farm| {
        Ok((farm.specs_of_programs().collect::<Vec<_>>(), farm.programs_of(&name), farm.node_named(&name)))
    });
    // A scheduler that stops takes nothing.
    let Ok((specs, running, node)) = find.await else { return Allowed::default() };
    limits.retain(|spec, _| specs.contains(spec));
    for spec in specs {
        if limits.contains_key(&spec) {
            continue;
        }
        let mut blobs = desk.house.blobs.lock().expect("a panic under the lock ends the process");
        let bytes = blobs.read(&spec, 0, usize::MAX).ok().flatten().unwrap_or_default();
        drop(blobs);
        let work = JobSpec::from_bytes(&bytes).map(|spec| spec.work);
        let most = match work {
            Ok(Work::Command(command)) => command.upload_max(),
            Ok(Work::OpenCl(kernel)) => kernel.upload_max(),
            _ => continue,
        };
        limits.insert(spec, most);
    }
    Allowed { longest: limits.values().max().copied(), running, node }
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
pub(crate) async fn serve(desk: &Desk, channel: &mut Channel, peer: &Peer) -> io::Result<()> {
    let key = peer.claim.key;
    let Some(_place) = desk.bulk.take(key, CONNECTIONS_MAX) else { return Ok(()) };
    let shelf = NodeShelf { desk, key, allowed: Mutex::default(), located: Mutex::default() };
    let (mut server, mut asked, mut limits) = (Server::new(&shelf), None::<Instant>, HashMap::new());
    loop {
        match server.step() {
            Next::Say(record) => {
                desk.house.rate.pay(record.len()).await;
                timeout(IDLE, channel.write_record(&record)).await??;
            }
            Next::Listen => match within(IDLE, channel.read_record()).await? {
                Some(record) => {
                    desk.house.rate.pay(record.len()).await;
                    let request = Request::read(&record);
                    match request {
                        Ok(Request::Put { .. } | Request::PutAll(_))
                            if asked.is_none_or(|asked| asked.elapsed() >= ASK_PERIOD) =>
                        {
                            let now = allowed(desk, peer.claim.name.clone(), &mut limits).await;
                            *shelf.allowed() = now;
                            asked = Some(Instant::now());
                        }
                        Ok(Request::Locate { job, unit }) => {
                            // A scheduler that stops knows none.
                            let found =
                                desk.find(move |farm| Ok(farm.locate(job, unit))).await.ok().flatten();
                            *shelf.located.lock().expect("a panic under the lock ends the process") = found;
                        }
                        _ => {}
                    }
                    if let Ok(Request::Put { hash, total }) = request {
                        shelf.offered(&hash, total)?;
                    }
                    server.on_request(request);
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
        let says =
            |allowed: Allowed, unnamed, total| allowed.refusal(unnamed, (total, total)).unwrap_or_default();
        assert!(says(Allowed::default(), 0, 1).starts_with("no unfinished job here runs programs"));
        let allowed = Allowed { longest: Some(mib), running: 2, node: None };
        assert_eq!(says(allowed, 0, mib), "");
        assert!(says(allowed, 0, mib + 1).contains("1048576 at most"));
        assert_eq!(says(allowed, 71 * mib, mib), "");
        assert_eq!(allowed.refusal(0, (mib, 3 * mib)), None, "several that are no longer come together");
        assert!(says(allowed, 71 * mib + 1, mib).starts_with("74448897 bytes of this node"));
        let late = Allowed { longest: Some(1 << 30), running: 0, node: None };
        assert_eq!(says(late, 0, 1 << 30), "", "it may bring what it did before a restart");
        assert_ne!(says(late, 5 << 30, 1), "");
        let large = Allowed { longest: Some(1 << 30), running: 1_024, node: None };
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
