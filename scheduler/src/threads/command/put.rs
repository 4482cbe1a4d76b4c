//! A content of a submission on its way in: its pieces follow the request that announces it. One that is longer than a
//! chunk lies in a file without a name until it is whole, and goes with its connection.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use starfarm_protocol::admin::frames::FrameReader;
use starfarm_protocol::admin::pieces::Pieces;
use starfarm_protocol::admin::{ErrorCode, Response};
use starfarm_protocol::bulk::BulkError;
use starfarm_protocol::ids::ContentHash;
use tokio::time::timeout;

use super::channel::Channel;
use super::submit::{beside, not_kept};
use crate::answers::error;
use crate::store::transfers::Incoming;
use crate::threads::House;

/// So long a caller may take for a piece: as long as `starfarm` waits for a scheduler that says nothing.
const PIECE_MAX: Duration = Duration::from_secs(60);

/// Takes in the content with this hash, of so many bytes, and keeps it for a job that is about to name it.
///
/// # Errors
/// What is to be said before the connection is closed: not all pieces were read.
pub(super) async fn put(
    house: &Arc<House>,
    channel: &mut Channel,
    reader: &mut FrameReader,
    content: (ContentHash, u64),
) -> Result<Response, Response> {
    let incoming = take_in(channel, reader, content, house.state.path(), PIECE_MAX).await?;
    let house = Arc::clone(house);
    let kept = beside(move || {
        let whole = incoming.finish().ok_or_else(|| error(ErrorCode::Usage, BulkError::Hash.to_string()))?;
        house.keep_incoming(&whole).map(|()| Response::Done).map_err(|e| not_kept(&e))
    });
    Ok(kept.await.unwrap_or_else(|response| response))
}

/// All its pieces, each within so much time.
async fn take_in(
    channel: &mut Channel,
    reader: &mut FrameReader,
    (hash, bytes): (ContentHash, u64),
    dir: &Path,
    piece_max: Duration,
) -> Result<Incoming, Response> {
    let usage = |why: String| error(ErrorCode::Usage, why);
    let mut pieces = Pieces::of(bytes).map_err(usage)?;
    let mut incoming = Incoming::new(hash, bytes, dir).map_err(|e| not_kept(&e))?;
    while !pieces.are_whole() {
        let broke_off = |why: String| {
            let come = pieces.come();
            usage(format!("the content broke off after {come} of {bytes} bytes: {why}; send it again"))
        };
        let piece = match timeout(piece_max, channel.read_piece(reader)).await {
            Err(_) => {
                return Err(broke_off(format!(
                    "its next piece did not come within {} s",
                    piece_max.as_secs()
                )));
            }
            Ok(Err(e)) => return Err(broke_off(e.to_string())),
            Ok(Ok(None)) => return Err(broke_off("the connection ended".to_owned())),
            Ok(Ok(Some(Err(e)))) => return Err(usage(e.to_string())),
            Ok(Ok(Some(Ok(piece)))) => piece,
        };
        let taken = pieces.take(&piece).map_err(|e| usage(e.to_string()))?;
        incoming.take(taken).map_err(|e| not_kept(&e))?;
    }
    Ok(incoming)
}

#[cfg(test)]
mod tests;
