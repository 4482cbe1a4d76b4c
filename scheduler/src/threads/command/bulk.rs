//! The bulk channel's server side: contents by their hash, both ways.

use std::io;

use starfarm_protocol::bulk::{CHUNK_BYTES, Chunk, Incoming, Reply, Request};
use starfarm_protocol::ids::ContentHash;

use super::Desk;
use super::channel::Channel;

/// Contents that may be on their way in at one time; beyond them the transfers that broke off are dropped.
const INCOMING_MAX: usize = 1_024;

/// Answers one worker until it hangs up.
pub(crate) async fn serve(desk: &Desk, channel: &mut Channel) -> io::Result<()> {
    let mut putting = None;
    loop {
        let record = match channel.read_record().await {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            record => record?,
        };
        match Request::read(&record) {
            Ok(Request::Get { hash, offset }) => get(desk, channel, hash, offset).await?,
            Ok(Request::Put { hash, total }) => {
                let reply = begin(desk, hash, total);
                putting = matches!(reply, Reply::Have { bytes } if bytes < total).then_some((hash, total));
                channel.write_record(&reply.to_bytes()).await?;
            }
            Ok(Request::Chunk(chunk)) => {
                let reply = match putting {
                    Some((hash, total)) => take(desk, hash, total, &chunk),
                    None => Some(Reply::Refused("a chunk without a put before it".into())),
                };
                if let Some(reply) = reply {
                    putting = None;
                    channel.write_record(&reply.to_bytes()).await?;
                }
            }
            Err(e) => return channel.write_record(&Reply::Refused(e.to_string()).to_bytes()).await,
        }
    }
}

async fn get(desk: &Desk, channel: &mut Channel, hash: ContentHash, mut offset: u64) -> io::Result<()> {
    let (total, lament) = {
        let blobs = desk.blobs.lock().expect("a panic under the lock ends the process");
        (blobs.len(&hash)?, blobs.lament(&hash))
    };
    let Some(total) = total else {
        return channel.write_record(&Reply::Refused(lament).to_bytes()).await;
    };
    channel.write_record(&Reply::Found { total }.to_bytes()).await?;
    while offset < total {
        let bytes = {
            let blobs = desk.blobs.lock().expect("a panic under the lock ends the process");
            blobs.read(&hash, offset, CHUNK_BYTES)?.unwrap_or_default()
        };
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        channel.write_record(&Reply::Chunk(Chunk { offset, bytes: &bytes }).to_bytes()).await?;
        offset += bytes.len() as u64;
    }
    Ok(())
}

fn begin(desk: &Desk, hash: ContentHash, total: u64) -> Reply<'static> {
    match desk.blobs.lock().expect("a panic under the lock ends the process").len(&hash) {
        Ok(Some(_)) => return Reply::Have { bytes: total },
        Ok(None) => {}
        Err(e) => return Reply::Refused(format!("the scheduler cannot read what it has: {e}")),
    }
    let mut incoming = desk.incoming.lock().expect("a panic under the lock ends the process");
    if incoming.len() >= INCOMING_MAX {
        incoming.clear();
    }
    Reply::Have { bytes: incoming.entry(hash).or_insert_with(|| Incoming::new(hash)).offset() }
}

/// Takes a chunk; a reply where the content is whole or the chunk is not believed.
fn take(desk: &Desk, hash: ContentHash, total: u64, chunk: &Chunk<'_>) -> Option<Reply<'static>> {
    let mut incoming = desk.incoming.lock().expect("a panic under the lock ends the process");
    let content = incoming.entry(hash).or_insert_with(|| Incoming::new(hash));
    let taken = content.take(chunk, total);
    if taken.is_ok() && content.offset() < total {
        return None;
    }
    let whole = incoming.remove(&hash);
    drop(incoming);
    let kept = taken.and_then(|()| whole.map_or(Ok(Vec::new()), Incoming::finish));
    Some(match kept {
        Ok(bytes) => match desk.blobs.lock().expect("a panic under the lock ends the process").put(&bytes) {
            Ok(_) => Reply::Stored,
            Err(e) => Reply::Refused(format!("the scheduler cannot keep it: {e}")),
        },
        Err(e) => Reply::Refused(e.to_string()),
    })
}
