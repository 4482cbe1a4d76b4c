//! What a job is made from, beside its specification: a list's chunks, parts of inputs. The farm is asked which of these it
//! lacks, so that a job that is submitted again, or shares its files with others, sends nothing twice.

use std::collections::BTreeSet;

use starfarm_protocol::admin::{Request, Response};
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::spec::HexBytes;

use crate::client::{Client, ask};
use crate::failure::Failure;
use crate::jobfile::JobFile;

/// Contents that one request asks for.
const ASKED_MAX: usize = 4_096;

/// Uploads what the farm lacks of the list and the files.
pub(super) fn send(client: &mut Client, job: &JobFile) -> Result<(), Failure> {
    let mut lacking = lacking(client, job)?;
    let mut upload = |content: &[u8]| match lacking.remove(&ContentHash::of(content)) {
        true => client.command(&Request::Blob { bytes: HexBytes(content.to_vec()) }),
        false => Ok(()),
    };
    job.blobs.iter().try_for_each(|blob| upload(blob))?;
    job.inputs.iter().try_for_each(|file| file.each_part(&mut upload))
}

/// Contents that a job is made from and that the farm does not have.
fn lacking(client: &mut Client, job: &JobFile) -> Result<BTreeSet<ContentHash>, Failure> {
    let listed = job.blobs.iter().map(|blob| ContentHash::of(blob));
    let needed: BTreeSet<_> =
        listed.chain(job.inputs.iter().flat_map(|file| &file.input.parts).copied()).collect();
    let needed = Vec::from_iter(needed);
    let mut lacking = BTreeSet::new();
    for some in needed.chunks(ASKED_MAX) {
        let request = Request::Lacking { hashes: some.to_vec() };
        lacking.extend(ask!(client, &request, Response::Lacking { hashes } => hashes)?);
    }
    Ok(lacking)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use starfarm_protocol::admin::frames::{FrameReader, frame};

    use super::*;
    use crate::client::testing::{Folder, try_next_request};
    use crate::jobfile;

    #[test]
    fn only_what_the_farm_lacks_is_sent_and_that_once() {
        let folder = Folder::new("contents");
        for (name, text) in [("names", "x\n"), ("a", "one"), ("b", "two"), ("c", "one"), ("d", "four")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let text = "[space]\nkind = \"list\"\nfile = \"names\"\n[task]\nexecutor = \"command\"\n\
                    program = [\"cat\"]\ninputs = [\"a\", \"b\", \"c\", \"d\"]\n";
        let job = jobfile::parse(text, "demo.toml", folder.path()).unwrap();
        let farm = folder.serve(|mut socket| {
            let (mut reader, mut seen) = (FrameReader::default(), Vec::new());
            while let Some(request) = try_next_request(&mut socket, &mut reader) {
                let answer = match request {
                    Request::Lacking { mut hashes } => {
                        seen.push(format!("asked for {}", hashes.len()));
                        hashes.retain(|hash| *hash != ContentHash::of(b"two"));
                        Response::Lacking { hashes }
                    }
                    Request::Blob { bytes } => {
                        seen.push(String::from_utf8(bytes.0).unwrap());
                        Response::Done
                    }
                    other => panic!("{other:?}"),
                };
                socket.write_all(&frame(&answer).unwrap()).unwrap();
            }
            seen
        });
        let mut client = Client::connect(folder.path()).unwrap();
        send(&mut client, &job).unwrap();
        drop(client);
        assert_eq!(farm.join().unwrap(), ["asked for 4", "x\n", "one", "four"]);
    }
}
