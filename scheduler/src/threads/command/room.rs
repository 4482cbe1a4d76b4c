//! Room that contents give back: those of deleted jobs, and those that were there at the start and belong to nothing. Who
//! stored these is not known any more; a node that stores what no result names would else fill the disk a little more
//! with each start of the scheduler.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use starfarm_net::say;
use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::spec::JobSpec;
use starfarm_scheduler_core::Farm;

use super::desk::Desk;
use crate::store::blobs::Blobs;
use crate::store::outputs::OutputStore;
use crate::store::unnamed::UNNAMED_KEPT;

/// Contents that nobody needs stay for so long after they were last named.
const LATELY: Duration = UNNAMED_KEPT;

/// What jobs are made from.
struct Needed {
    contents: HashSet<ContentHash>,
    /// Some job runs programs, or cannot be read: what it wrote may be named by any content.
    programs: bool,
    /// Some job cannot be read: it may need any content.
    unknown: bool,
}

/// What the farm's jobs are made from; none where the scheduler stops.
async fn needed(desk: &Desk) -> io::Result<Option<Needed>> {
    let find = |farm: &Farm| Ok((farm.specs().collect::<HashSet<_>>(), farm.grown_contents().collect()));
    let Ok((specs, contents)) = desk.find(find).await else { return Ok(None) };
    let mut needed = Needed { contents, programs: false, unknown: false };
    let mut blobs = desk.house.blobs.lock().expect("a panic under the lock ends the process");
    for spec in specs {
        needed.contents.insert(spec);
        let Some(bytes) = blobs.read(&spec, 0, usize::MAX)? else { continue };
        let Ok(spec) = JobSpec::from_bytes(&bytes) else {
            (needed.programs, needed.unknown) = (true, true);
            continue;
        };
        needed.programs |= spec.work.facts().programs;
        needed.contents.extend(spec.contents());
    }
    Ok(Some(needed))
}

/// What a deleted job wrote goes, and contents that no job needs any more.
pub(super) async fn give_back(desk: &Desk, id: JobId) -> io::Result<()> {
    desk.house.outputs.lock().expect("a panic under the lock ends the process").delete(id)?;
    desk.house.merges.delete(id)?;
    // A scheduler that stops keeps them all.
    let Some(needed) = needed(desk).await?.filter(|needed| !needed.programs) else { return Ok(()) };
    let mut blobs = desk.house.blobs.lock().expect("a panic under the lock ends the process");
    // What was sent or asked for lately may belong to a job that is just coming in.
    blobs.retain(|hash, idle| idle < LATELY || needed.contents.contains(hash))
}

/// Contents that were there at the start and belong to nothing go after the same grace as others: by then results have
/// named what belongs to them. All outputs are read for that, so it is done once, beside the runtime's only thread.
pub(super) async fn sweep_later(desk: Arc<Desk>) {
    tokio::time::sleep(LATELY).await;
    let swept = match needed(&desk).await {
        Ok(Some(needed)) if !needed.unknown => {
            let house = Arc::clone(&desk.house);
            let sweep = move || sweep((&house.outputs, &house.blobs), &needed.contents, LATELY);
            tokio::task::spawn_blocking(sweep).await.unwrap_or_else(|e| Err(io::Error::other(e)))
        }
        Ok(_) => return,
        Err(e) => Err(e),
    };
    match swept {
        Ok(0) => {}
        Ok(count) => say(&format!("{count} contents that belong to no job and no result are removed")),
        Err(e) => say(&format!("contents that belong to nothing stay: {e}")),
    }
}

/// Removes contents that nobody has asked for in the time `lately`, that are not `needed`, and that no output names; how
/// many. The stores are held for a moment each.
fn sweep(
    (outputs, blobs): (&Mutex<OutputStore>, &Mutex<Blobs>),
    needed: &HashSet<ContentHash>,
    lately: Duration,
) -> io::Result<usize> {
    let mut idle = blobs.lock().expect("a panic under the lock ends the process").idle_for(lately);
    idle.retain(|hash| !needed.contains(hash));
    let jobs = outputs.lock().expect("a panic under the lock ends the process").jobs()?;
    for job in jobs {
        if idle.is_empty() {
            return Ok(0);
        }
        let snapshot = outputs.lock().expect("a panic under the lock ends the process").snapshot(job)?;
        snapshot.each_named(|hash| {
            idle.remove(hash);
        })?;
    }
    // A result that came meanwhile had its contents looked for.
    let mut blobs = blobs.lock().expect("a panic under the lock ends the process");
    blobs.retain(|hash, since| since < lately || !idle.contains(hash))?;
    Ok(idle.len())
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::{Attempt, FarmId};
    use starfarm_protocol::wire::{CommandUnit, Outputs, Stream};
    use starfarm_scheduler_core::NodeId;

    use super::*;

    #[test]
    fn what_no_job_and_no_output_names_goes_and_what_was_asked_for_lately_stays() {
        let dir = std::env::temp_dir().join(format!("starfarm-room-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let mut outputs = OutputStore::open(&dir, FarmId([6; 16]), 0, u64::MAX).unwrap();
        let (mut blobs, _) = Blobs::open(&dir.join("blobs")).unwrap();
        let put = |blobs: &mut Blobs, byte| blobs.put(&[byte; 600]).unwrap();
        let [spec, stdout, stderr, nobodys] = [1, 2, 3, 4].map(|byte| put(&mut blobs, byte));
        let uploaded = |hash| Stream::Uploaded { hash, kept: 600, total: 600 };
        let unit = CommandUnit {
            units: 1,
            failed: None,
            code: 0,
            duration_us: 1,
            outputs: Outputs { files: None, stdout: uploaded(stdout), stderr: uploaded(stderr) },
        };
        outputs.append(1, JobId(9), (Attempt(7), NodeId(3)), &[(5, unit)]).unwrap();
        drop(blobs);
        // The next start finds them, and does not know who stored them.
        let (blobs, _) = Blobs::open(&dir.join("blobs")).unwrap();
        let stores = (&Mutex::new(outputs), &Mutex::new(blobs));
        let needed = HashSet::from([spec]);
        let hour = Duration::from_secs(3_600);
        assert_eq!(sweep(stores, &needed, hour).unwrap(), 0, "all are new to this start");
        assert_eq!(sweep(stores, &needed, Duration::ZERO).unwrap(), 1);
        let mut blobs = stores.1.lock().unwrap();
        let there = [spec, stdout, stderr, nobodys].map(|hash| blobs.len(&hash).unwrap().is_some());
        assert_eq!(there, [true, true, true, false]);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
