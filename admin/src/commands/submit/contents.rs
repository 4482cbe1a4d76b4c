//! What a job is made from, beside its specification: a list's chunks, parts of inputs. The farm is asked which of these it
//! lacks, so that a job that is submitted again, or shares its files with others, sends nothing twice.

use std::collections::BTreeSet;

use starfarm_protocol::admin::{Request, Response};
use starfarm_protocol::ids::ContentHash;

use crate::client::{Client, ask};
use crate::failure::Failure;
use crate::jobfile::JobFile;

/// Contents that one request asks for.
const ASKED_MAX: usize = 4_096;

/// Uploads what the farm lacks of the list and the files.
pub(super) fn send(client: &mut Client, job: &JobFile) -> Result<(), Failure> {
    let mut lacking = lacking(client, job)?;
    let mut upload = |hash: ContentHash, content: &[u8]| match lacking.remove(&hash) {
        true => client.put(hash, content),
        false => Ok(()),
    };
    job.blobs.iter().try_for_each(|blob| upload(ContentHash::of(blob), blob))?;
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
    use std::path::Path;

    use starfarm_protocol::admin::frames::{FrameReader, frame};
    use starfarm_protocol::admin::{Error, ErrorCode};

    use super::*;
    use crate::client::testing::{Folder, next_content, try_next_request};
    use crate::failure::Exit;
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
                    Request::Put { hash, bytes } => {
                        let content = next_content(&mut socket, &mut reader, bytes);
                        assert_eq!(ContentHash::of(&content), hash);
                        seen.push(String::from_utf8(content).unwrap());
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

    /// A job with an input of three parts.
    fn job_with_input(folder: &Path) -> JobFile {
        std::fs::write(folder.join("big"), vec![7; 9 << 20]).unwrap();
        let text = "[space]\nkind = \"range\"\nfrom = 0\nto = 1\n[task]\nexecutor = \"command\"\n\
                    program = [\"cat\"]\ninputs = [\"big\"]\n";
        jobfile::parse(text, "demo.toml", folder).unwrap()
    }

    #[test]
    fn an_input_that_changes_while_it_is_sent_is_named_and_what_it_became_is_not_sent() {
        let folder = Folder::new("changes");
        let job = job_with_input(folder.path());
        let path = folder.path().join("big");
        let farm = folder.serve(move |mut socket| {
            let (mut reader, mut puts) = (FrameReader::default(), 0);
            while let Some(request) = try_next_request(&mut socket, &mut reader) {
                let answer = match request {
                    Request::Lacking { hashes } => Response::Lacking { hashes },
                    Request::Put { hash, bytes } => {
                        let content = next_content(&mut socket, &mut reader, bytes);
                        assert_eq!(ContentHash::of(&content), hash);
                        puts += 1;
                        // Its end, while its start is sent.
                        std::fs::write(&path, vec![8; 9 << 20]).unwrap();
                        Response::Done
                    }
                    other => panic!("{other:?}"),
                };
                socket.write_all(&frame(&answer).unwrap()).unwrap();
            }
            puts
        });
        let mut client = Client::connect(folder.path()).unwrap();
        let failure = send(&mut client, &job).unwrap_err();
        drop(client);
        assert_eq!(failure.exit, Exit::Usage);
        let words = "big` changed while it was submitted";
        assert!(failure.message.contains(words), "{failure:?}");
        assert_eq!(farm.join().unwrap(), 1);
    }

    /// One of the release before knows no pieces: it answers and hangs up, and reads none of them.
    #[test]
    fn words_of_a_scheduler_that_wants_no_pieces_are_heard() {
        let folder = Folder::new("unread");
        let job = job_with_input(folder.path());
        let farm = folder.serve(|mut socket| {
            let mut reader = FrameReader::default();
            let Some(Request::Lacking { hashes }) = try_next_request(&mut socket, &mut reader) else {
                panic!("it is asked first")
            };
            socket.write_all(&frame(&Response::Lacking { hashes }).unwrap()).unwrap();
            let next = try_next_request(&mut socket, &mut reader);
            assert!(matches!(next, Some(Request::Put { bytes: 4_194_304, .. })), "{next:?}");
            let error = Error { code: ErrorCode::Usage, message: "update the older side".into() };
            socket.write_all(&frame(&Response::Error(error)).unwrap()).unwrap();
        });
        let failure = send(&mut Client::connect(folder.path()).unwrap(), &job).unwrap_err();
        farm.join().unwrap();
        assert_eq!((failure.exit, failure.message.as_str()), (Exit::Usage, "update the older side"));
    }
}
