//! `executor = "search"`: the candidates of a space are hashed and compared with the targets.

use std::path::Path;

use starfarm_protocol::spec::{Algorithm, SearchWork, Space, Stop, Work};

use super::executor::Executor;
use crate::jobfile::error::JobFileError;
use crate::jobfile::job::JobFile;
use crate::jobfile::needs;
use crate::jobfile::table::{Item, Kind, Section};
use crate::jobfile::targets;

pub(super) const EXECUTOR: Executor = Executor {
    kind: Kind { name: "search", keys: &["algorithm", "targets", "targets_file", "stop", "needs"] },
    read,
    help: r#"[task] executor = "search": looks for digests of a chars space's candidates
    algorithm = "md5"         or sha1, sha256, ntlm
    targets = ["..."]         digests in hexadecimal; or
    targets_file = "x.txt"    a file with one digest a line; # begins a comment
    stop = "all-targets"      or first-hit, never [default: all-targets]
    needs = { device = "gpu", api = "opencl>=1.2", memory = "2GiB" }
                              only such devices search [default: cores and all
                              devices]
"#,
};

fn read(section: &Section<'_>, job: &mut JobFile, base: &Path) -> Result<(), JobFileError> {
    let Space::Chars { positions, .. } = &job.spec.space else {
        return Err(section.require("executor", "")?.error(
            "`search` tests candidates, so it needs a space of kind = \"chars\": change one of them",
        ));
    };
    let item = section.require("algorithm", "the kind of digest, e.g. algorithm = \"md5\"")?;
    let algorithm = choice(&item, Algorithm::ALL, Algorithm::word)?;
    let (bytes, most) = (positions.len(), algorithm.candidate_bytes_max());
    if bytes > most {
        let word = algorithm.word();
        return Err(item.error(format!(
            "candidates of {bytes} bytes are too long for {word}, which takes at most {most}: shorten the mask or lower `max`"
        )));
    }
    let hint = "targets = [\"...\"] with digests in hexadecimal, or targets_file = \"digests.txt\"";
    let item = section.either("a search", ["targets", "targets_file"], hint)?;
    let targets = match &*item.name {
        "targets" => targets::of_array(&item, algorithm)?,
        _ => targets::of_file(&item, base, algorithm)?,
    };
    let stop = section.read("stop", |item| choice(item, Stop::ALL, Stop::word))?.unwrap_or_default();
    let needs = section.read("needs", needs::read)?;
    job.spec.work = Work::Search(SearchWork { algorithm, targets: targets.list, stop, needs });
    job.repeated_targets = targets.repeated;
    Ok(())
}

fn choice<T: Copy>(item: &Item<'_>, all: &[T], word: fn(T) -> &'static str) -> Result<T, JobFileError> {
    let chosen = item.string()?;
    all.iter().copied().find(|of| word(*of) == chosen).ok_or_else(|| {
        let words = all.iter().map(|of| format!("\"{}\"", word(*of))).collect::<Vec<_>>().join(", ");
        item.error(format!("`{}` \"{chosen}\" is not known: use one of {words}", item.name))
    })
}
