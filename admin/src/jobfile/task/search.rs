//! `executor = "search"`: the candidates of a space are hashed and compared with the targets.

use starfarm_protocol::spec::{Algorithm, SearchWork, Space, Stop, Work};

use super::executor::{Executor, Read, Surroundings};
use crate::jobfile::error::JobFileError;
use crate::jobfile::table::{Item, Kind, Section};
use crate::jobfile::targets;

pub(super) const EXECUTOR: Executor = Executor {
    kind: Kind { name: "search", keys: &["algorithm", "targets", "targets_file", "stop"] },
    read,
    help: r#"[task] executor = "search": every candidate of a chars space
    algorithm = "md5"         or sha1, sha256, ntlm
    targets = ["..."]         digests in hexadecimal; or
    targets_file = "x.txt"    one a line, # begins a comment
    stop = "all-targets"      or first-hit, never [default: all-targets]
"#,
};

fn read(section: &Section<'_>, around: &Surroundings<'_>) -> Result<Read, JobFileError> {
    if !matches!(around.space, Space::Chars { .. }) {
        return Err(section.require("executor", "")?.error(
            "`search` tests candidates, so it needs a space of kind = \"chars\": change one of them",
        ));
    }
    let algorithm = choice(
        &section.require("algorithm", "the kind of digest, e.g. algorithm = \"md5\"")?,
        &[
            ("md5", Algorithm::Md5),
            ("sha1", Algorithm::Sha1),
            ("sha256", Algorithm::Sha256),
            ("ntlm", Algorithm::Ntlm),
        ],
    )?;
    let targets = match (section.get("targets"), section.get("targets_file")) {
        (Some(list), None) => targets::of_array(&list, algorithm)?,
        (None, Some(file)) => targets::of_file(&file, around.base, algorithm)?,
        (Some(_), Some(file)) => {
            return Err(file.error("a search has either `targets` or `targets_file`, not both: remove one"));
        }
        (None, None) => {
            return Err(section.error(
                "a search needs `targets` or `targets_file`: add targets = [\"...\"] with digests in \
                 hexadecimal, or targets_file = \"digests.txt\"",
            ));
        }
    };
    let stop = section.get("stop").map(|item| {
        choice(
            &item,
            &[("never", Stop::Never), ("first-hit", Stop::FirstHit), ("all-targets", Stop::AllTargets)],
        )
    });
    let stop = stop.transpose()?.unwrap_or_default();
    let work = Work::Search(SearchWork { algorithm, targets: targets.list, stop });
    Ok(Read { repeated_targets: targets.repeated, ..work.into() })
}

fn choice<T: Copy>(item: &Item<'_>, choices: &[(&str, T)]) -> Result<T, JobFileError> {
    let chosen = item.string()?;
    choices.iter().find(|(name, _)| *name == chosen).map(|(_, value)| *value).ok_or_else(|| {
        let names = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        item.error(format!("`{}` \"{chosen}\" is not known: use one of {names}", item.name()))
    })
}
