//! The client against a scheduler that is a thread with a socket.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};

use starfarm_protocol::admin::frames::{FrameReader, frame};
use starfarm_protocol::admin::{Error, ErrorCode, Request, Response};

use super::testing::{Folder, try_next_request};
use super::*;

fn next_request(socket: &mut UnixStream, reader: &mut FrameReader) -> Request {
    try_next_request(socket, reader).expect("the client hung up")
}

#[test]
fn questions_and_answers_take_turns() {
    let folder = Folder::new("turns");
    let server = folder.serve(|mut socket| {
        let mut reader = FrameReader::default();
        for answer in [Response::Done, Response::Jobs(Vec::new())] {
            next_request(&mut socket, &mut reader);
            // Byte by byte, as a slow network may do.
            for byte in frame(&answer).unwrap() {
                socket.write_all(&[byte]).unwrap();
            }
        }
    });
    let mut client = Client::connect(folder.path()).unwrap();
    assert_eq!(client.job_verb(JobId(1), JobCommand::Pause), Ok(()));
    assert_eq!(client.job(JobId(1)).unwrap_err().exit, Exit::NotFound);
    server.join().unwrap();
}

#[test]
fn an_error_is_a_failure_with_its_words() {
    let folder = Folder::new("error");
    let server = folder.serve(|mut socket| {
        next_request(&mut socket, &mut FrameReader::default());
        let error = Error { code: ErrorCode::Conflict, message: "it has ended".into() };
        socket.write_all(&frame(&Response::Error(error)).unwrap()).unwrap();
    });
    let failure = Client::connect(folder.path()).unwrap().job_verb(JobId(1), JobCommand::Pause).unwrap_err();
    assert_eq!(failure, Failure::new(Exit::Conflict, "it has ended"));
    server.join().unwrap();
}

/// What lies in a directory is read only where no scheduler runs in it.
#[test]
fn a_scheduler_that_listens_is_told_from_one_that_has_stopped() {
    let folder = Folder::new("listens");
    assert!(local::nobody_listens(folder.path()));
    let listener = UnixListener::bind(folder.path().join(local::SOCKET)).unwrap();
    assert!(!local::nobody_listens(folder.path()));
    drop(listener);
    assert!(local::nobody_listens(folder.path()), "its socket is still there");
}

#[test]
fn words_of_a_scheduler_that_turns_us_away_unasked_are_heard() {
    let folder = Folder::new("away");
    let server = folder.serve(|mut socket| {
        let error = Error { code: ErrorCode::Refused, message: "not your farm".into() };
        socket.write_all(&frame(&Response::Error(error)).unwrap()).unwrap();
        drop(socket);
    });
    let mut client = Client::connect(folder.path()).unwrap();
    server.join().unwrap();
    assert_eq!(client.nodes().unwrap_err(), Failure::new(Exit::Refused, "not your farm"));
}

#[test]
fn a_scheduler_that_hangs_up_or_talks_nonsense_is_unreachable() {
    let folder = Folder::new("nonsense");
    for (answer, words) in [
        (vec![], "closed the connection"),
        (b"\x02\0\0\0{}".to_vec(), "install the same version"),
        (frame(&Response::Done).unwrap(), "something else than it was asked"),
    ] {
        let server = folder.serve(move |mut socket| {
            next_request(&mut socket, &mut FrameReader::default());
            socket.write_all(&answer).unwrap();
        });
        let failure = Client::connect(folder.path()).unwrap().nodes().unwrap_err();
        assert_eq!(failure.exit, Exit::Unreachable);
        assert!(failure.message.contains(words), "{failure:?}");
        server.join().unwrap();
        std::fs::remove_file(folder.path().join(local::SOCKET)).unwrap();
    }
}

#[test]
fn where_no_scheduler_is_the_user_is_told_what_to_do() {
    let folder = Folder::new("nobody");
    let failure = |farm: &Path| Client::connect(farm).map(drop).unwrap_err();
    let none = failure(folder.path());
    assert_eq!(none.exit, Exit::Unreachable);
    assert!(none.message.contains("starfarm scheduler --state"), "{none:?}");

    drop(UnixListener::bind(folder.path().join(local::SOCKET)).unwrap());
    let stopped = failure(folder.path());
    assert_eq!(stopped.exit, Exit::Unreachable);
    assert!(stopped.message.contains("start it again"), "{stopped:?}");

    assert!(failure(&folder.path().join("gone")).message.contains("--farm"));
    std::fs::write(folder.path().join("file"), "no join file").unwrap();
    assert_eq!(failure(&folder.path().join("file")).exit, Exit::Usage);
}

#[test]
fn a_folder_with_a_long_name_is_reached() {
    let folder = Folder::new("long");
    let deep = folder.path().join("d".repeat(100)).join("e".repeat(100));
    std::fs::create_dir_all(&deep).unwrap();
    // Binding has the same limit as connecting, so it needs the same way round.
    let listener = {
        let short = folder.path().join("short");
        std::os::unix::fs::symlink(&deep, &short).unwrap();
        UnixListener::bind(short.join(local::SOCKET)).unwrap()
    };
    assert!(Client::connect(&deep).is_ok());
    drop(listener);
}
