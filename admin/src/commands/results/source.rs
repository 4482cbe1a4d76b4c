//! Where results come from: a farm, a page and a piece at a time; and whole contents, from their pieces.

use starfarm_protocol::admin::{LostOutputs, OutputLoss, Request, Response, ResultsPage, StreamInfo};
use starfarm_protocol::ids::{ContentHash, JobId, to_hex};

use crate::client::{Client, ask};
use crate::failure::Failure;

/// Items of each kind that are asked for at a time; the scheduler may give fewer.
const PAGE_ITEMS: u64 = 1_000;

/// Where pages come from.
pub(super) trait Source {
    /// The page after the first `skip` hits, failed units and outputs.
    fn page(&mut self, skip: u64) -> Result<ResultsPage, Failure>;

    /// A content from byte `offset` on, in part, nothing at its end; or what is wrong with it.
    fn piece(&mut self, hash: ContentHash, offset: u64) -> Result<Result<Vec<u8>, OutputLoss>, Failure>;

    /// The lost outputs after the first `skip` intervals, with `all` those of runs that do not count too, and whether more
    /// follow.
    fn lost(&mut self, all: bool, skip: u64) -> Result<(Vec<LostOutputs>, bool), Failure>;
}

/// A job on a farm.
pub(super) struct OfJob<'a> {
    pub(super) client: &'a mut Client,
    pub(super) id: JobId,
}

impl Source for OfJob<'_> {
    fn page(&mut self, skip: u64) -> Result<ResultsPage, Failure> {
        let request = Request::Results { id: self.id, skip, take: PAGE_ITEMS };
        ask!(self.client, &request, Response::Results(page) => page)
    }

    fn lost(&mut self, all: bool, skip: u64) -> Result<(Vec<LostOutputs>, bool), Failure> {
        let request = Request::LostOutputs { id: self.id, all, skip, take: u64::MAX };
        ask!(self.client, &request, Response::LostOutputs { lost, more } => (lost, more))
    }

    fn piece(&mut self, hash: ContentHash, offset: u64) -> Result<Result<Vec<u8>, OutputLoss>, Failure> {
        match self.client.ask(&Request::Fetch { hash, offset })? {
            Response::Bytes { content, .. } => Ok(Ok(content)),
            Response::Lost(what) => Ok(Err(what)),
            _ => Err(self.client.surprise()),
        }
    }
}

/// Fetches a long output into its place; one that is lost says so, for the others are still worth having.
pub(super) fn fill(source: &mut dyn Source, stream: &mut StreamInfo) -> Result<(), Failure> {
    let Some(hash) = stream.hash else { return Ok(()) };
    match content(source, hash, stream.kept)? {
        Ok(content) => {
            stream.text = String::from_utf8_lossy(&content).into_owned();
            stream.hex = std::str::from_utf8(&content).is_err().then(|| to_hex(&content));
        }
        Err(what) => stream.lost = Some(what),
    }
    Ok(())
}

/// A content of `bytes`, or fewer; or what is wrong with it.
pub(super) fn content(
    source: &mut dyn Source,
    hash: ContentHash,
    bytes: u64,
) -> Result<Result<Vec<u8>, OutputLoss>, Failure> {
    let mut content = Vec::new();
    while (content.len() as u64) < bytes {
        match source.piece(hash, content.len() as u64)? {
            Ok(piece) if piece.is_empty() => break,
            Ok(piece) => content.extend(piece),
            Err(what) => return Ok(Err(what)),
        }
    }
    let is_whole = ContentHash::of(&content) == hash;
    Ok(if is_whole { Ok(content) } else { Err(OutputLoss::Damaged) })
}
