//! Contents over both kinds of connection, from callers of all kinds.

use std::io;

use starfarm_protocol::admin::frames::{ADMIN_STREAM, FRAME_BYTES_MAX, frame, records};
use starfarm_protocol::admin::pieces::{self, CONTENT_BYTES_MAX, PIECE_BYTES_MAX};
use starfarm_protocol::admin::{Error, Request};
use starfarm_protocol::ids::{Boot, Epoch, FarmId};
use starfarm_protocol::seal::stream::{self, Stream};
use starfarm_protocol::seal::{
    Introduction, KeyStore, Mode, Outcome, Responder, Role, SealError, Secret, StaticKey,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::*;

/// The other end of a channel.
enum Caller {
    Local(UnixStream),
    Sealed(TcpStream, Box<Stream>),
}

impl Caller {
    async fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        match self {
            Self::Local(socket) => socket.write_all(frame).await,
            Self::Sealed(socket, stream) => {
                let mut sealed = Vec::new();
                records(frame).try_for_each(|record| stream.sealer.seal(record, &mut sealed)).unwrap();
                socket.write_all(&sealed).await
            }
        }
    }

    /// All that comes until the scheduler has nothing more to say.
    async fn hear(&mut self) -> io::Result<Vec<u8>> {
        let mut heard = Vec::new();
        match self {
            Self::Local(socket) => socket.read_to_end(&mut heard).await,
            Self::Sealed(socket, _) => socket.read_to_end(&mut heard).await,
        }?;
        Ok(heard)
    }
}

fn local() -> (Channel, Caller) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Channel::Local(ours), Caller::Local(theirs))
}

async fn sealed() -> (Channel, Caller) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (socket, _) = listener.accept().await.unwrap();
    let (ours, caller) = shaken().unwrap();
    (Channel::Sealed { socket, stream: Box::new(ours) }, Caller::Sealed(theirs, Box::new(caller)))
}

/// Both ends of a stream, the scheduler's first.
fn shaken() -> Result<(Stream, Stream), SealError> {
    let (secret, farm, mode) = (Secret([5; 32]), FarmId([6; 16]), Mode { stream: true, plain: false });
    let [scheduler, key] = [1, 2].map(|byte| StaticKey::from_secret(Secret([byte; 32])));
    let public = scheduler.public();
    let mut keys = KeyStore::default();
    keys.add_join_key(secret.clone(), Role::Operator);
    let mut responder = Responder::new(scheduler, farm, Epoch(3), mode, [1; 32]);
    let who = Introduction {
        key: &key,
        scheduler: &public,
        join_secret: &secret,
        name: "ada",
        boot: Boot(0),
        mode,
    };
    let (mut initiator, first) = stream::call(&who)?;
    let (answer, pending) = stream::answer(&mut responder, &keys, &first[4..], b"", 0)?;
    let Outcome::Accepted(accepted) = initiator.read_response(&answer[4..])? else { panic!("refused") };
    let (mut theirs, mut record) = (accepted.into_stream(), Vec::new());
    theirs.sealer.seal(&[ADMIN_STREAM], &mut record)?;
    let Ok(pending) = pending else { panic!("refused") };
    let (ours, ..) = pending.confirm(&mut keys, &record[4..], &mut Vec::new(), 0)?;
    Ok((ours, theirs))
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A directory of a test's own; what it finds there at the end.
struct Dir(std::path::PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("starfarm-put-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // It must be empty: what came in has no name.
        let removed = std::fs::remove_dir(&self.0);
        assert!(removed.is_ok() || std::thread::panicking(), "{removed:?}");
    }
}

fn long() -> Vec<u8> {
    (0..200_000_u32).map(|i| (i / 7) as u8).collect()
}

#[test]
fn a_content_comes_in_over_both_and_the_next_request_is_understood() {
    let dir = Dir::new("whole");
    run(async {
        for (mut channel, mut caller) in [local(), sealed().await] {
            for content in [long(), b"short".to_vec(), Vec::new()] {
                let announced = (ContentHash::of(&content), content.len() as u64);
                let mut reader = FrameReader::default();
                let send = async {
                    for frame in pieces::frames(&content).chain([frame(&Request::Status).unwrap()]) {
                        caller.send(&frame).await.unwrap();
                    }
                };
                let take = take_in(&mut channel, &mut reader, announced, &dir.0, PIECE_MAX);
                let (incoming, ()) = tokio::join!(take, send);
                let whole = incoming.unwrap().finish();
                assert!(whole.is_some_and(|whole| whole.bytes == content.len() as u64));
                let next = channel.read_message::<Request>(&mut reader).await.unwrap().unwrap();
                assert_eq!(next, Ok(Request::Status));
            }
        }
    });
}

/// What a caller is told who announces so many bytes and sends these frames; then it hangs up, or is silent.
async fn told(
    dir: &Dir,
    (mut channel, mut caller): (Channel, Caller),
    bytes: u64,
    frames: &[Vec<u8>],
    silent: bool,
) -> String {
    let content = (ContentHash::of(&long()), bytes);
    let send = async move {
        for frame in frames {
            caller.send(frame).await.unwrap();
        }
        let _open = silent.then_some(caller);
        std::future::pending().await
    };
    let mut reader = FrameReader::default();
    let patience = if silent { Duration::from_millis(1) } else { PIECE_MAX };
    let taken = tokio::select! {
        taken = take_in(&mut channel, &mut reader, content, &dir.0, patience) => taken,
        () = send => unreachable!("it sends and waits"),
    };
    match taken {
        Err(Response::Error(Error { message, .. })) => message,
        other => panic!("{:?}", other.map(drop)),
    }
}

#[test]
fn whoever_sends_something_else_than_was_announced_is_told() {
    let dir = Dir::new("else");
    let total = long().len() as u64;
    let good: Vec<_> = pieces::frames(&long()).collect();
    let mut changed = good.clone();
    changed[1][100] ^= 1;
    let out_of_place = vec![good[0].clone(), good[2].clone()];
    let twice = vec![good[0].clone(), good[0].clone()];
    let no_piece = vec![good[0].clone(), frame(&Request::Status).unwrap()];
    let too_long = vec![(PIECE_BYTES_MAX as u32 + 1).to_le_bytes().to_vec()];
    let out = "does not continue its content";
    for (bytes, frames, words) in [
        (total, &changed, "was changed on its way"),
        (total, &out_of_place, out),
        (total, &twice, out),
        (total - 1, &good, out),
        (total, &no_piece, "cannot be read"),
        (total, &too_long, "a message of 61454 bytes is longer"),
        (total, &good[..2].to_vec(), "broke off after 122880 of 200000 bytes: the connection ended"),
        (CONTENT_BYTES_MAX + 1, &Vec::new(), "longer than a submission may bring"),
        (FRAME_BYTES_MAX as u64 * 8, &Vec::new(), "longer than a submission may bring"),
    ] {
        let told = run(async {
            [
                told(&dir, local(), bytes, frames, false).await,
                told(&dir, sealed().await, bytes, frames, false).await,
            ]
        });
        assert!(told.iter().all(|told| told.contains(words)), "{words}: {told:?}");
    }
}

#[test]
fn whoever_falls_silent_amid_a_content_is_told() {
    let dir = Dir::new("silent");
    let good: Vec<_> = pieces::frames(&long()).collect();
    let half = [good[0].clone(), good[1][..1_000].to_vec()];
    for frames in [&good[..0], &half] {
        let told = run(async {
            [
                told(&dir, local(), 200_000, frames, true).await,
                told(&dir, sealed().await, 200_000, frames, true).await,
            ]
        });
        assert!(told.iter().all(|told| told.contains("its next piece did not come within")), "{told:?}");
    }
}

/// The words went lost with the connection that was closed on unread bytes.
#[test]
fn whoever_is_still_sending_hears_the_last_word() {
    let last = error(ErrorCode::Usage, "a piece was changed on its way");
    run(async {
        for (mut channel, mut caller) in [local(), sealed().await] {
            let part = async {
                channel.part(&last).await.unwrap();
                drop(channel);
            };
            // It hangs up when it has heard all; the scheduler waits for that.
            let talk = async move {
                for _ in 0..64 {
                    caller.send(&[7; 60_000]).await.unwrap();
                }
                caller.hear().await.unwrap()
            };
            let ((), heard) = tokio::join!(part, talk);
            assert!(heard.len() >= frame(&last).unwrap().len(), "{heard:?}");
        }
    });
}
