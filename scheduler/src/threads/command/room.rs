//! Room that contents give back: those of deleted jobs, and those that were there at the start and belong to nothing. Who
//! stored these is not known any more; a node that stores what no result names would else fill the disk a little more
//! with each start of the scheduler.
//!
//! A content that a deleted job named goes at once, unless another job names it. That must not be told to anybody as
//! being here while it goes, so it is done in steps: what the job named is let go, in a turn of the dispatcher; when all
//! that turn's records are on the disk, every result that was told that a content is here has noted so; what has no name
//! then is removed. A crash between any two steps leaves a content too many, never one too few.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use starfarm_net::say;
use starfarm_protocol::admin::Response;
use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::spec::JobSpec;
use starfarm_scheduler_core::Farm;

use super::desk::Desk;
use crate::store::blobs::Blobs;
use crate::store::outputs::OutputStore;
use crate::store::unnamed::UNNAMED_KEPT;

/// Contents that nobody needs stay for so long after they were last named.
const LATELY: Duration = UNNAMED_KEPT;
/// Contents that are let go in one turn of the dispatcher.
const LET_GO: usize = 10_000;

fn locked(blobs: &Mutex<Blobs>) -> MutexGuard<'_, Blobs> {
    blobs.lock().expect("a panic under the lock ends the process")
}

/// Does what takes long beside the runtime's only thread.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(io::Error::other(e)))
}

/// What a specification names; none where it cannot be read.
fn named_by(desk: &Desk, spec: &ContentHash) -> io::Result<Option<Arc<[ContentHash]>>> {
    let mut known = desk.contents.lock().expect("a panic under the lock ends the process");
    if let Some(contents) = known.get(spec) {
        return Ok(Some(Arc::clone(contents)));
    }
    let bytes = locked(&desk.house.blobs).read(spec, 0, usize::MAX)?;
    let Some(read) = bytes.and_then(|bytes| JobSpec::from_bytes(&bytes).ok()) else { return Ok(None) };
    let contents: Arc<[ContentHash]> = read.contents().collect();
    known.insert(*spec, Arc::clone(&contents));
    Ok(Some(contents))
}

/// What the farm's jobs are made from; none where the scheduler stops, or a job cannot be read: it may need any content.
async fn needed(desk: &Desk) -> io::Result<Option<HashSet<ContentHash>>> {
    let find = |farm: &Farm| Ok((farm.specs().collect::<HashSet<_>>(), farm.grown_contents().collect()));
    let Ok((specs, mut needed)) = desk.find::<(_, HashSet<_>)>(find).await else { return Ok(None) };
    desk.contents
        .lock()
        .expect("a panic under the lock ends the process")
        .retain(|spec, _| specs.contains(spec));
    for spec in specs {
        let Some(contents) = named_by(desk, &spec)? else { return Ok(None) };
        needed.insert(spec);
        needed.extend(contents.iter());
    }
    Ok(Some(needed))
}

/// What a job is made from.
pub(super) async fn made_from(desk: &Desk, id: JobId) -> io::Result<Vec<ContentHash>> {
    let Ok(Some((spec, mut contents))) = desk.find(move |farm| Ok(farm.made_from(id))).await else {
        return Ok(Vec::new());
    };
    contents.extend(named_by(desk, &spec)?.iter().flat_map(|contents| contents.iter()));
    contents.push(spec);
    Ok(contents)
}

/// What a deleted job wrote goes, and the contents that it was `made_from` or named, and no other job is or does.
pub(super) async fn give_back(desk: &Arc<Desk>, id: JobId, made_from: Vec<ContentHash>) -> io::Result<()> {
    desk.house.outputs.lock().expect("a panic under the lock ends the process").delete(id)?;
    // What cannot be removed there, and is told, keeps nothing else from going.
    let merged = desk.house.merges.delete(id);
    let mut contents = locked(&desk.house.blobs).names.forget(id)?;
    contents.extend(made_from);
    let stay = remove(desk, contents).await?;
    if !stay.is_empty() {
        tokio::spawn(remove_later(Arc::clone(desk), stay));
    }
    merged
}

/// Removes the contents that nobody needs. Returns those that nobody names, and that stay for a while.
async fn remove(desk: &Desk, contents: Vec<ContentHash>) -> io::Result<Vec<ContentHash>> {
    let contents: Arc<[ContentHash]> = contents.into();
    for from in (0..contents.len()).step_by(LET_GO) {
        let (house, some) = (Arc::clone(&desk.house), Arc::clone(&contents));
        let act = move |_: &mut Farm, _: u64, _: &mut _| {
            let some = &some[from..some.len().min(from + LET_GO)];
            let let_go = locked(&house.blobs).let_go(some, LATELY);
            if let Err(e) = let_go {
                say(&format!("contents of deleted jobs stay for now: {e}"));
            }
            Response::Done
        };
        // The answer comes once all is durable that was said before.
        let _ = desk.ask(act).await;
    }
    // A person may have put a file of outputs back. And after that: a job that came meanwhile is among the needed ones, or
    // it brought its contents.
    let needed = match read_names(&desk.house.outputs, &desk.house.blobs) {
        Ok(()) => needed(desk).await,
        Err(e) => Err(e),
    };
    let (needed, unread) = match needed {
        Ok(Some(needed)) => (needed, None),
        // A scheduler that stops keeps them all, and so does one that cannot read what a job needs or has written.
        other => (contents.iter().copied().collect(), Some(other.map(|_| contents.to_vec()))),
    };
    let house = Arc::clone(&desk.house);
    let stay = beside(move || remove_gone(&house.blobs, &contents, &needed)).await?;
    unread.unwrap_or(Ok(stay))
}

/// Removes them a few at a time: others want the store as well.
fn remove_gone(
    blobs: &Mutex<Blobs>,
    contents: &[ContentHash],
    needed: &HashSet<ContentHash>,
) -> io::Result<Vec<ContentHash>> {
    let mut stay = Vec::new();
    for some in contents.chunks(LET_GO) {
        stay.extend(locked(blobs).remove_gone(some, needed)?);
    }
    Blobs::give_room_back(blobs)?;
    Ok(stay)
}

/// As [`remove`], again and again until none of them stays: what was sent or asked for lately may have belonged to a job
/// or a result that was just coming in.
async fn remove_later(desk: Arc<Desk>, mut contents: Vec<ContentHash>) {
    while !contents.is_empty() {
        tokio::time::sleep(LATELY).await;
        contents = match remove(&desk, contents).await {
            Ok(stay) => stay,
            Err(e) => return say(&format!("contents that belong to nothing stay: {e}")),
        }
    }
}

/// Contents that were there at the start and belong to nothing go after the same grace as others: by then results have
/// named what belongs to them. All outputs are read for that, once, beside the runtime's only thread.
pub(super) async fn sweep_later(desk: Arc<Desk>) {
    let house = Arc::clone(&desk.house);
    let read =
        move || Blobs::give_room_back(&house.blobs).and_then(|()| read_names(&house.outputs, &house.blobs));
    if let Err(e) = beside(read).await {
        return say(&format!("outputs cannot be read, so contents of deleted jobs stay: {e}"));
    }
    let gone = match locked(&desk.house.blobs).names.complete() {
        Ok(gone) => gone,
        Err(e) => return say(&format!("contents of deleted jobs stay: {e}")),
    };
    let jobs = desk.house.outputs.lock().expect("a panic under the lock ends the process").jobs();
    desk.house.tell_stored(jobs.unwrap_or_default());
    if let Err(e) = remove(&desk, gone).await {
        say(&format!("contents of deleted jobs stay: {e}"));
    }
    tokio::time::sleep(LATELY).await;
    match sweep(&desk, LATELY).await {
        Ok(0) => {}
        Ok(count) => say(&format!("{count} contents that belong to no job and no result are removed")),
        Err(e) => say(&format!("contents that belong to nothing stay: {e}")),
    }
}

/// Reads which contents those outputs name that this start did not write itself. The stores are held for a moment each.
fn read_names(outputs: &Mutex<OutputStore>, blobs: &Mutex<Blobs>) -> io::Result<()> {
    let jobs = outputs.lock().expect("a panic under the lock ends the process").unread()?;
    for job in jobs {
        let snapshot = outputs.lock().expect("a panic under the lock ends the process").read(job)?;
        snapshot.each_named(|hash| locked(blobs).name(job, hash))?;
    }
    Ok(())
}

/// Removes contents that nobody has asked for in the time `lately`, that no job is made from, and that no output names;
/// how many.
async fn sweep(desk: &Desk, lately: Duration) -> io::Result<usize> {
    let Some(needed) = needed(desk).await? else { return Ok(0) };
    let house = Arc::clone(&desk.house);
    beside(move || {
        let removed = locked(&house.blobs).retain(|hash, since| since < lately || needed.contains(hash))?;
        Blobs::give_room_back(&house.blobs)?;
        Ok(removed)
    })
    .await
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::{Attempt, FarmId};
    use starfarm_protocol::wire::{CommandUnit, Outputs, Stream};
    use starfarm_scheduler_core::NodeId;

    use super::*;

    fn outcome(stdout: ContentHash, stderr: ContentHash) -> CommandUnit {
        let uploaded = |hash| Stream::Uploaded { hash, kept: 600, total: 600 };
        let outputs = Outputs { files: None, stdout: uploaded(stdout), stderr: uploaded(stderr) };
        CommandUnit { units: 1, failed: None, code: 0, duration_us: 1, outputs }
    }

    #[test]
    fn what_earlier_starts_wrote_and_what_a_person_put_back_is_read_once() {
        let dir = std::env::temp_dir().join(format!("starfarm-room-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let open = || OutputStore::open(&dir, FarmId([6; 16]), 0, u64::MAX).unwrap();
        let (mut outputs, (mut blobs, _)) = (open(), Blobs::open(&dir.join("blobs")).unwrap());
        let [one, two, nobodys] = [1, 2, 3].map(|byte| blobs.put(&[byte; 600]).unwrap());
        outputs.append(1, JobId(8), (Attempt(7), NodeId(3)), &[(5, outcome(one, two))]).unwrap();
        outputs.append(2, JobId(9), (Attempt(7), NodeId(3)), &[(5, outcome(one, one))]).unwrap();
        outputs.unsynced().unwrap();
        // The next start finds them, and does not know who stored them.
        let (outputs, blobs) = (Mutex::new(open()), Mutex::new(Blobs::open(&dir.join("blobs")).unwrap().0));
        outputs.lock().unwrap().is_replayed();
        let read = || {
            let unread = outputs.lock().unwrap().unread().unwrap();
            read_names(&outputs, &blobs).unwrap();
            unread
        };
        assert_eq!(read(), [JobId(8), JobId(9)]);
        assert_eq!(blobs.lock().unwrap().names.complete().unwrap(), []);
        assert_eq!(blobs.lock().unwrap().names.bytes(JobId(8)), 1_200);
        outputs
            .lock()
            .unwrap()
            .append(3, JobId(10), (Attempt(7), NodeId(3)), &[(5, outcome(two, two))])
            .unwrap();
        assert_eq!(read(), [], "who writes it names it");
        outputs.lock().unwrap().unsynced().unwrap();
        std::fs::rename(dir.join("8.outputs"), dir.join("moved")).unwrap();
        assert_eq!(read(), []);
        std::fs::rename(dir.join("moved"), dir.join("8.outputs")).unwrap();
        assert_eq!(read(), [JobId(8)]);
        let mut blobs = blobs.lock().unwrap();
        assert_eq!(blobs.names.forget(JobId(9)).unwrap(), [], "job 8 names it");
        assert_eq!(blobs.retain(|_, _| false).unwrap(), 1, "one has no name");
        assert_eq!([one, two, nobodys].map(|hash| blobs.knows(&hash).unwrap()), [true, true, false]);
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// A job is deleted in steps: its file of outputs goes, its contents are let go and removed, one after another.
    #[test]
    fn whatever_a_kill_left_of_a_delete_the_sweep_gives_back_and_nothing_else() {
        let dir = std::env::temp_dir().join(format!("starfarm-killed-delete-{}", std::process::id()));
        let open = || OutputStore::open(&dir, FarmId([6; 16]), 0, u64::MAX).unwrap();
        for steps in 0..5 {
            let _ = std::fs::remove_dir_all(&dir);
            let (mut outputs, (mut blobs, _)) = (open(), Blobs::open(&dir.join("blobs")).unwrap());
            let [own, last, shared, spec] = [1, 2, 3, 4].map(|byte| blobs.put(&[byte; 600]).unwrap());
            blobs.names.complete().unwrap();
            let of_each = [(8, shared, shared), (9, own, shared), (9, last, last)];
            for (sequence, (job, stdout, stderr)) in (1_u64..).zip(of_each) {
                let unit = [(u128::from(sequence), outcome(stdout, stderr))];
                outputs.append(sequence, JobId(job), (Attempt(7), NodeId(3)), &unit).unwrap();
                [stdout, stderr].iter().for_each(|hash| blobs.name(JobId(job), hash).unwrap());
            }
            outputs.unsynced().unwrap();
            // The record that job 9 is deleted is on the disk.
            let mut gone = Vec::new();
            if steps > 0 {
                outputs.delete(JobId(9)).unwrap();
                gone = blobs.names.forget(JobId(9)).unwrap();
                gone.sort_unstable();
                let mut both = [own, last];
                both.sort_unstable();
                assert_eq!(gone, both, "job 8 names the third");
            }
            if steps > 1 {
                blobs.let_go(&gone, LATELY).unwrap();
            }
            if steps > 2 {
                blobs.remove_gone(&gone[..steps - 2], &HashSet::from([spec])).unwrap();
            }
            drop((outputs, blobs));
            // The next start knows only job 8.
            let mut outputs = open();
            outputs.retain_only(&HashSet::from([JobId(8)])).unwrap();
            outputs.is_replayed();
            let (outputs, blobs) =
                (Mutex::new(outputs), Mutex::new(Blobs::open(&dir.join("blobs")).unwrap().0));
            read_names(&outputs, &blobs).unwrap();
            let mut blobs = blobs.into_inner().unwrap();
            assert_eq!(blobs.names.complete().unwrap(), []);
            let is_there =
                |blobs: &mut Blobs| [own, last, shared, spec].map(|hash| blobs.len(&hash).unwrap().is_some());
            let left = is_there(&mut blobs).iter().filter(|is| **is).count();
            assert_eq!(left, [4, 4, 4, 3, 2][steps], "{steps} steps were done");
            // The grace is over.
            let swept = blobs.retain(|hash, _| *hash == spec).unwrap();
            assert_eq!(swept, left - 2, "{steps} steps were done");
            assert_eq!(is_there(&mut blobs), [false, false, true, true], "{steps} steps were done");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
