//! A state directory of which a disk, or somebody, has changed a file: who looks at it and who audits it must come to an end in
//! words.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use starfarm_fuzz::show;
use starfarm_protocol::admin::frames::frame;
use starfarm_protocol::admin::{Place, Request, Response, Submit};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::job::{MaxFailures, Sizing};
use starfarm_protocol::terms::Terms;
use starfarm_protocol::trust::TrustChecks;
use starfarm_scheduler::{AtRest, Options, start};

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn ask(state: &Path, request: &Request) -> Response {
    let mut socket = UnixStream::connect(state.join("admin.sock")).unwrap();
    socket.write_all(&frame(request).unwrap()).unwrap();
    let mut length = [0; 4];
    socket.read_exact(&mut length).unwrap();
    let mut json = vec![0; u32::from_le_bytes(length) as usize];
    socket.read_exact(&mut json).unwrap();
    serde_json::from_slice(&json).unwrap()
}

/// A farm with two jobs that has stopped.
fn farm(state: &Path) {
    let options =
        Options { quiet: true, no_log: true, ..Options::new(state.to_owned(), ([127, 0, 0, 1], 0).into()) };
    let scheduler = start(options).unwrap();
    let spec = r#"{"space":{"range":{"from":0,"to":100,"step":1}},"work":"nothing"}"#;
    for name in ["a", "b"] {
        let submit = Submit {
            name: name.into(),
            user: "ada".into(),
            spec: spec.into(),
            sizing: Sizing::Units(1),
            max_failures: MaxFailures::Usual,
            speculative: None,
            trust: TrustChecks::default(),
            terms: Terms::default(),
            once: false,
            place: Place::Tail,
        };
        assert!(matches!(ask(state, &Request::Submit(submit)), Response::Submitted(_)));
    }
    scheduler.stop();
}

/// The files, relative to the directory.
fn files(dir: &Path, below: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir.join(below)).unwrap() {
        let path = below.join(entry.unwrap().file_name());
        match dir.join(&path).is_dir() {
            true => all.extend(files(dir, &path)),
            false => all.push(path),
        }
    }
    all.sort();
    all
}

#[test]
fn a_state_directory_with_a_changed_file() {
    let dir = Folder(std::env::temp_dir().join(format!("starfarm-fuzz-disk-{}", std::process::id())));
    farm(&dir.0);
    let read = |path: &Path| -> Option<Vec<u8>> {
        let bytes = fs::read(dir.0.join(path)).ok()?;
        let written = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        (written <= 60_000).then(|| bytes[..written].to_vec())
    };
    let there: Vec<(PathBuf, Vec<u8>)> = files(&dir.0, Path::new(""))
        .into_iter()
        .filter(|path| {
            ["farm.json", "journal", "ledger", "blobs", "outputs"].iter().any(|of| path.starts_with(of))
        })
        .filter_map(|path| Some((path.clone(), read(&path)?)))
        .collect();
    let whole: Vec<Vec<u8>> = there.iter().map(|(path, _)| fs::read(dir.0.join(path)).unwrap()).collect();
    assert!(there.iter().any(|(path, _)| path.starts_with("journal")), "{there:?}");
    // The first byte says which file it is.
    let good: Vec<Vec<u8>> =
        there.iter().zip(0_u8..).map(|((_, bytes), number)| [&[number][..], bytes].concat()).collect();
    // What is read of a directory is more than the bytes that changed in it.
    show("disk", &good, 300, |bytes| {
        let Some((number, rest)) = bytes.split_first() else { return };
        let Some((path, whole)) =
            there.get(usize::from(*number)).map(|(path, _)| path).zip(whole.get(usize::from(*number)))
        else {
            return;
        };
        let mut changed = rest.to_vec();
        changed.resize(changed.len().max(whole.len()), 0);
        fs::write(dir.0.join(path), changed).unwrap();
        std::thread::scope(|scope| {
            // A thread of its own: memory is not what is looked at here.
            let look = scope.spawn(|| {
                if let Ok(Some(mut rest)) = AtRest::read(&dir.0) {
                    rest.answer(&Request::Jobs { ids: Vec::new() });
                    rest.answer(&Request::Results { id: JobId(1), skip: 0, take: 10 });
                    rest.answer(&Request::Fetch {
                        hash: starfarm_protocol::ids::ContentHash([1; 32]),
                        offset: 0,
                    });
                }
                let _ = starfarm_audit::directory(&dir.0, Some(&[]));
            });
            look.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        fs::write(dir.0.join(path), whole).unwrap();
    });
}
