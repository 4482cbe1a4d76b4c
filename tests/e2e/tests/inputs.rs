//! Contents on their way from who submits to the scheduler: over both kinds of connection, and from callers who do not
//! keep to the protocol.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use starfarm_e2e::{Farm, stdouts};
use starfarm_protocol::admin::frames::{ADMIN_STREAM, FrameReader, frame};
use starfarm_protocol::admin::pieces::{CONTENT_BYTES_MAX, frames};
use starfarm_protocol::admin::{ErrorCode, Request, Response};
use starfarm_protocol::ids::{Boot, ContentHash};
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::random::SplitMix64;
use starfarm_protocol::seal::{Introduction, Line, Mode, StaticKey};

/// So many bytes that do not repeat.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = SplitMix64(seed);
    (0..bytes / 8 + 1).flat_map(|_| random.draw().to_le_bytes()).take(bytes).collect()
}

/// SHA-256 as `sha256sum` prints it.
fn sum(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn inputs_of_forty_mib_come_whole_over_the_socket_and_over_tcp() {
    let farm = Farm::with_workers(1, 1);
    let join = farm.join_file_at("admin.join", farm.address());
    for (seed, way) in [(1, farm.state()), (2, join)] {
        let dir = farm.temp().path().join(format!("project-{seed}"));
        fs::create_dir_all(&dir).unwrap();
        // Many parts, one that ends with its part, one shorter than a chunk, none at all.
        let inputs = [("a", (36 << 20) + 5), ("b", 4 << 20), ("c", 100), ("d", 0)]
            .map(|(name, bytes)| (name, noise(seed * 7 + bytes as u64, bytes)));
        for (name, content) in &inputs {
            fs::write(dir.join(name), content).unwrap();
        }
        let text = "name = \"sums\"\n[space]\nkind = \"range\"\nfrom = 0\nto = 1\n[task]\nexecutor = \"command\"\n\
                    program = [\"sha256sum\", \"a\", \"b\", \"c\", \"d\"]\ninputs = [\"a\", \"b\", \"c\", \"d\"]\n";
        fs::write(dir.join("job.toml"), text).unwrap();
        let submit =
            ["--output", "quiet", "submit", dir.join("job.toml").to_str().unwrap()].map(str::to_owned);
        let reply = farm.cli_by(&way, &submit);
        let id = reply.exits(0).stdout.trim();
        farm.wait(id).exits(0);
        let expected: String =
            inputs.iter().map(|(name, content)| format!("{}  {name}\n", sum(content))).collect();
        assert_eq!(stdouts(&farm.results(id))[&0], expected, "over {}", way.display());
    }
}

/// A caller over the local socket, frame by frame.
struct Caller(UnixStream, FrameReader);

impl Caller {
    fn new(farm: &Farm) -> Self {
        let socket = UnixStream::connect(farm.state().join("admin.sock")).unwrap();
        Self(socket, FrameReader::default())
    }

    fn send(&mut self, frame: &[u8]) {
        // A scheduler that has hung up is noticed where its answer is read.
        let _ = self.0.write_all(frame);
    }

    fn ask(&mut self, request: &Request) {
        self.send(&frame(request).unwrap());
    }

    /// Announces a content, and sends one.
    fn put(&mut self, hash: ContentHash, bytes: usize, content: &[u8]) {
        self.ask(&Request::Put { hash, bytes: bytes as u64 });
        frames(content).for_each(|piece| self.send(&piece));
    }

    /// The next answer; none where the scheduler hung up.
    fn answer(&mut self) -> Option<Response> {
        let mut bytes = [0; 4_096];
        loop {
            if let Some(response) = self.1.next_message().unwrap() {
                return Some(response);
            }
            match self.0.read(&mut bytes).unwrap() {
                0 => return None,
                count => self.1.push(&bytes[..count]),
            }
        }
    }

    /// The words of an error.
    fn words(&mut self) -> String {
        match self.answer() {
            Some(Response::Error(error)) => error.message,
            other => panic!("{other:?}"),
        }
    }

    fn lacks(&mut self, hash: ContentHash) -> bool {
        self.ask(&Request::Lacking { hashes: vec![hash] });
        match self.answer() {
            Some(Response::Lacking { hashes }) => !hashes.is_empty(),
            other => panic!("{other:?}"),
        }
    }
}

fn peak_mib(farm: &Farm) -> u64 {
    let status = format!("/proc/{}/status", farm.scheduler.pid().as_raw_nonzero());
    let status = fs::read_to_string(Path::new(&status)).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[test]
fn a_content_that_is_not_what_was_announced_is_refused_in_words_and_not_kept() {
    let farm = Farm::start();
    let content = noise(3, 200_000);
    let (hash, other) = (ContentHash::of(&content), ContentHash([7; 32]));
    let mut caller = Caller::new(&farm);
    // Who sends all pieces of something else is understood further.
    caller.put(other, content.len(), &content);
    assert!(caller.words().contains("does not have the hash"));
    assert!(caller.lacks(other) && caller.lacks(hash));
    caller.put(hash, content.len() - 1, &content);
    assert!(caller.words().contains("does not continue its content"));
    assert_eq!(caller.answer(), None, "the rest cannot be understood");
    let mut caller = Caller::new(&farm);
    caller.ask(&Request::Put { hash, bytes: CONTENT_BYTES_MAX + 1 });
    assert!(caller.words().contains("longer than a submission may bring"));
    let mut caller = Caller::new(&farm);
    caller.ask(&Request::Put { hash, bytes: 200_000 });
    caller.send(&frames(&content).next().unwrap());
    caller.0.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(caller.words().contains("broke off after 61440 of 200000 bytes"));
    // The release before sent hexadecimal digits.
    let mut caller = Caller::new(&farm);
    caller.send(&frame(&serde_json::json!({"blob": {"bytes": "00ff"}})).unwrap());
    let words = caller.words();
    assert!(words.contains("unknown variant `blob`") && words.contains("update the older side"), "{words}");
    let mut caller = Caller::new(&farm);
    assert!(caller.lacks(hash), "nothing of all this is kept");
    caller.put(hash, content.len(), &content);
    assert_eq!(caller.answer(), Some(Response::Done));
    assert!(!caller.lacks(hash));
}

/// Contents lay in memory until they were whole, twice as long as they are.
#[test]
fn long_contents_that_never_end_take_no_memory() {
    let farm = Farm::start();
    let content = noise(5, 60 << 20);
    let mut callers = [(); 3].map(|()| Caller::new(&farm));
    for (number, caller) in (0..).zip(&mut callers) {
        caller.put(ContentHash([number; 32]), content.len() + 1, &content);
    }
    // All of them are at their last byte.
    for caller in &mut callers {
        caller.0.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(caller.words().contains("broke off after 62914560 of 62914561 bytes"));
    }
    let peak = peak_mib(&farm);
    assert!(peak < 64, "the scheduler took {peak} MiB for 180 MiB on their way");
}

#[test]
fn whoever_may_only_look_brings_no_contents() {
    let farm = Farm::start();
    let path = farm.temp().path().join("observer.join");
    farm.cli(&["key", "add", "--role", "observer", "--out", path.to_str().unwrap()]).exits(0);
    let join = JoinFile::from_text(&fs::read_to_string(path).unwrap()).unwrap();
    let who = Introduction {
        key: &StaticKey::generate().unwrap(),
        scheduler: &join.scheduler_key,
        join_secret: &join.join_secret,
        name: "eyes",
        boot: Boot(0),
        mode: Mode::default(),
    };
    let socket = TcpStream::connect(farm.address()).unwrap();
    let mut line = Line::open(socket, &who, join.farm, &[ADMIN_STREAM]).unwrap_or_else(|e| panic!("{e}"));
    let content = noise(4, 9 << 20);
    let put = Request::Put { hash: ContentHash::of(&content), bytes: content.len() as u64 };
    line.send(&frame(&put).unwrap()).unwrap();
    frames(&content).for_each(|piece| line.send(&piece).unwrap());
    let mut reader = FrameReader::default();
    reader.push(line.receive().unwrap());
    let Ok(Some(Response::Error(error))) = reader.next_message() else { panic!("no error") };
    assert_eq!(error.code, ErrorCode::Refused);
    assert!(error.message.contains("the role observer may not do that"), "{}", error.message);
    assert!(line.receive().is_err(), "it is hung up on");
    assert!(Caller::new(&farm).lacks(ContentHash::of(&content)));
}

/// What moves to and from workers is no more than the rate allows: six files of a mebibyte take three seconds at least.
#[test]
fn contents_move_at_the_rate_that_is_allowed() {
    let mut farm = Farm::start_with(&["--transfer-rate", "2M"]);
    farm.add_worker("w1", &["--slots", "2"]);
    farm.until_nodes_up(1);
    let start = Instant::now();
    let script = "head -c 1048576 /dev/urandom > f{}";
    let id = farm.submit(&["--range", "0..6", "--outputs", "f{}", "--", "sh", "-c", script]);
    farm.wait(&id).exits(0);
    let took = start.elapsed();
    assert!(took > Duration::from_millis(2_800), "6 MiB in {took:?}");
}
