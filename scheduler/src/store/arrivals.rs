//! Contents that come in for jobs and from nodes, and what of these no result has named. Both books are held from the first
//! look to the last word, always in one order: a content that a job is made from, and a node puts at the same moment, is
//! never taken for one that belongs to nothing.

use std::collections::HashSet;
use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use starfarm_protocol::ids::{ContentHash, PublicKey};

use super::blobs::Blobs;
use super::unnamed::Unnamed;

fn locked<'a>(
    unnamed: &'a Mutex<Unnamed>,
    blobs: &'a Mutex<Blobs>,
) -> (MutexGuard<'a, Unnamed>, MutexGuard<'a, Blobs>) {
    let unnamed = unnamed.lock().expect("a panic under the lock ends the process");
    (unnamed, blobs.lock().expect("a panic under the lock ends the process"))
}

/// A node puts contents: `put` lists those that were not there before, and their bytes.
///
/// # Errors
/// Those of `put`; what it listed before is kept.
pub(crate) fn of_node(
    (unnamed, blobs): (&Mutex<Unnamed>, &Mutex<Blobs>),
    (key, now): (PublicKey, Instant),
    put: impl FnOnce(&mut Blobs, &mut Vec<(ContentHash, u64)>) -> io::Result<()>,
) -> io::Result<()> {
    let (mut unnamed, mut blobs) = locked(unnamed, blobs);
    let mut new = Vec::new();
    let outcome = put(&mut blobs, &mut new);
    new.into_iter().for_each(|(hash, bytes)| unnamed.put(hash, key, bytes, now));
    outcome
}

/// A job is to be made from a content, which `put` names where it is there then. A node may have put the same.
///
/// # Errors
/// Those of `put`.
pub(crate) fn of_job(
    (unnamed, blobs): (&Mutex<Unnamed>, &Mutex<Blobs>),
    put: impl FnOnce(&mut Blobs) -> io::Result<Option<ContentHash>>,
) -> io::Result<Option<ContentHash>> {
    let (mut unnamed, mut blobs) = locked(unnamed, blobs);
    let kept = put(&mut blobs)?;
    kept.iter().for_each(|hash| unnamed.forget(hash));
    Ok(kept)
}

/// Removes what nodes put and no result has named for too long, unless somebody asked for it in the time `lately`. Whether
/// there was any: [`Blobs::give_room_back`] is due then.
///
/// # Errors
/// The disk's.
pub(crate) fn remove_old(
    (unnamed, blobs): (&Mutex<Unnamed>, &Mutex<Blobs>),
    (now, lately): (Instant, Duration),
) -> io::Result<bool> {
    let (mut unnamed, mut blobs) = locked(unnamed, blobs);
    let old: HashSet<_> = unnamed.take_old(now).into_iter().collect();
    if !old.is_empty() {
        blobs.retain(|hash, idle| idle < lately || !old.contains(hash))?;
    }
    Ok(!old.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::unnamed::UNNAMED_KEPT;
    use super::*;

    #[test]
    fn what_a_job_is_made_from_stays_when_a_node_puts_the_same_at_that_moment() {
        let dir = std::env::temp_dir().join(format!("starfarm-arrivals-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).unwrap();
        let (unnamed, blobs) = (Mutex::default(), Mutex::new(Blobs::open(&dir.join("blobs")).unwrap().0));
        let (books, key, start) = ((&unnamed, &blobs), PublicKey([7; 32]), Instant::now());
        let [input, nobodys] = [1, 2].map(|byte| vec![byte; 600]);
        of_node(books, (key, start), |blobs, new| {
            for bytes in [&input, &nobodys] {
                new.push((blobs.put(bytes).unwrap(), 600));
            }
            assert!(unnamed.try_lock().is_err(), "a job that keeps one now would forget it too early");
            Ok(())
        })
        .unwrap();
        let kept = of_job(books, |blobs| {
            assert!(unnamed.try_lock().is_err(), "what is too old could go between the two");
            blobs.put_for_job(&input).map(Some)
        });
        let kept = kept.unwrap().unwrap();
        assert_eq!(unnamed.lock().unwrap().of(&key), 600);
        assert!(remove_old(books, (start + UNNAMED_KEPT, Duration::ZERO)).unwrap());
        let blobs = blobs.lock().unwrap();
        assert!(blobs.knows(&kept).unwrap());
        let nobodys = ContentHash(*blake3::hash(&nobodys).as_bytes());
        assert!(!blobs.knows(&nobodys).unwrap());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
