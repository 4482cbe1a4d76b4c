//! The specifications of `docs/protocol.md`: each kind of space and each executor's work is shown there as it is
//! written.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::spec::{
    Algorithm, Axis, Chunk as ListChunk, CommandWork, HexBytes, Interval, JobSpec, SearchWork, Space, Stop,
    Work,
};
use starfarm_protocol::units::Units;

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/protocol.md")).unwrap()
}

fn specifications() -> Vec<JobSpec> {
    let hex = |bytes: &[u8]| HexBytes(bytes.to_vec());
    let command = |program: &[&str], timeout_ms, retries| {
        let env = [("MODE".to_owned(), "fast".to_owned())].into();
        let program = program.iter().map(|word| (*word).to_owned()).collect();
        Work::Command(CommandWork { program, env, timeout_ms, retries, ..CommandWork::default() })
    };
    let parallel = |work| match work {
        Work::Command(command) => Work::Command(CommandWork { parallel: true, ..command }),
        other => other,
    };
    let targets = vec![hex(&[0; 16]), hex(&[0xff; 16])];
    let axis = |name: &str, values: &[&str]| Axis {
        name: name.into(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    vec![
        JobSpec {
            space: Space::Chars { positions: vec![hex(b"abc"), hex(b"01")], min: 1 },
            work: Work::Search(SearchWork {
                algorithm: Algorithm::Md5,
                targets,
                stop: Stop::AllTargets,
                needs: None,
            }),
        },
        JobSpec { space: Space::Range { from: 0, to: 100, step: 1 }, work: Work::Nothing },
        JobSpec {
            space: Space::Frames { first: 1, last: 250 },
            work: command(&["render", "--frame", "{}", "--at", "{clock}"], Some(600_000), 2),
        },
        JobSpec {
            space: Space::List { chunks: vec![ListChunk { hash: ContentHash::of(b"hi\n"), units: 1 }] },
            work: command(&["convert", "{}"], None, 0),
        },
        JobSpec {
            space: Space::Grid { axes: vec![axis("size", &["1", "2"]), axis("mode", &["a", "b", "c"])] },
            work: command(&["sweep", "{size}", "{mode}"], None, 0),
        },
        JobSpec {
            space: Space::Subset {
                of: Box::new(Space::Grid { axes: vec![axis("1", &["1", "2"]), axis("2", &["a", "b", "c"])] }),
                units: vec![Interval { lo: Units(3), hi: Units(5) }],
            },
            work: parallel(command(&["sh", "-c", "sweep {}"], None, 0)),
        },
    ]
}

#[test]
fn the_page_shows_each_kind_of_specification_as_it_is_written() {
    let page = page();
    for spec in specifications() {
        let bytes = spec.to_bytes();
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(page.contains(&format!("\n{text}\n")), "not in docs/protocol.md: {text}");
        assert_eq!(JobSpec::from_bytes(&bytes), Ok(spec));
    }
    let hash = ContentHash::of(&specifications()[1].to_bytes()).to_string();
    assert!(page.contains(&hash), "the hash of the second one, {hash}, is not in docs/protocol.md");
}

/// What is added to the page is read and written as it stands there, and no executor is left out.
#[test]
fn the_page_shows_what_each_executor_is_given() {
    let page = page();
    let blocks = page.split("```json\n").filter_map(|rest| rest.split("\n```").next());
    let shown: Vec<&str> = blocks.filter(|block| block.starts_with("{\"space\"")).collect();
    for spec in &shown {
        let read = JobSpec::from_bytes(spec.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(read.to_bytes()).unwrap(), *spec);
    }
    // Which there are says the error about one that is none.
    let error = serde_json::from_str::<Work>("\"none\"").unwrap_err().to_string();
    let names: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
    assert!(names.contains(&"command") && names.contains(&"nothing"), "{error}");
    for name in names {
        let forms = [format!("\"work\":\"{name}\""), format!("\"work\":{{\"{name}\":")];
        let is_shown = shown.iter().any(|spec| forms.iter().any(|form| spec.contains(form)));
        assert!(is_shown, "docs/protocol.md shows no specification with the work `{name}`");
    }
}
