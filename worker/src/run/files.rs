//! Files of a unit: its inputs are linked into its scratch directory, and what it made there is packed into an archive.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use starfarm_decomposers::template::{Template, UnitText};
use starfarm_protocol::spec::{CommandWork, Input, is_inside};

use super::executor::Context;
use crate::bulk::FetchError;
use crate::exec::CancelFlag;

/// The files of a job's units.
pub(super) struct UnitFiles {
    inputs: Vec<Input>,
    outputs: Vec<Template>,
    limit: u64,
    /// All units make files of these names, so each unit's have a folder of their own.
    many_units: bool,
}

/// What a unit made.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Made {
    /// A tar archive. Equal files make equal archives.
    pub(super) archive: Vec<u8>,
    /// Files in it.
    pub(super) count: u32,
}

impl UnitFiles {
    /// `None` where the job has none.
    pub(super) fn new(work: &CommandWork, names: &[String], units: u128) -> Result<Option<Self>, String> {
        if let Some(input) = work.inputs.iter().find(|input| !is_inside(&input.path)) {
            return Err(format!(
                "the input `{}` would lie outside of the scratch directory: submit the job anew",
                input.path
            ));
        }
        let outputs = work.outputs.iter().map(|name| Template::parse(name, names)).collect();
        let files =
            Self { inputs: work.inputs.clone(), outputs, limit: work.files_limit, many_units: units > 1 };
        Ok(work.has_files().then_some(files))
    }

    /// Links the inputs into `scratch`, which is empty. Those that are not here are fetched.
    pub(super) fn bring(
        &self,
        scratch: &Path,
        cancel: &CancelFlag,
        context: &Context,
    ) -> Result<(), FetchError> {
        for input in &self.inputs {
            let to = scratch.join(&input.path);
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder).map_err(|e| {
                    FetchError::Refused(format!("no directory for the input `{}`: {e}", input.path))
                })?;
            }
            let fetch = |hash| context.contents.fetch(hash, cancel);
            context.store.link(input, &to, &fetch, cancel)?;
        }
        Ok(())
    }

    /// What a unit made in `scratch`; `None` where nothing is asked for. The error is a sentence for the user: the unit has
    /// failed.
    pub(super) fn collect(&self, scratch: &Path, text: &UnitText) -> Result<Option<Made>, String> {
        if self.outputs.is_empty() {
            return Ok(None);
        }
        let mut names = Vec::new();
        for template in &self.outputs {
            let name = String::from_utf8(template.fill(text)).map_err(|e| {
                format!("the output name {:?} is not UTF-8", String::from_utf8_lossy(e.as_bytes()))
            })?;
            if !is_inside(&name) {
                return Err(format!(
                    "the output name `{name}` leads out of the directory that the unit runs in"
                ));
            }
            let shown = match template.is_fixed() && self.many_units {
                true => format!("{}/{name}", text.index),
                false => name.clone(),
            };
            if !names.iter().any(|(_, other)| *other == shown) {
                names.push((name, shown));
            }
        }
        let mut bytes = 0;
        for (name, _) in &names {
            bytes += size_of(scratch, name)?;
        }
        if bytes > self.limit {
            return Err(format!("made files of {bytes} bytes, more than files_limit, {}", self.limit));
        }
        let packed = pack(scratch, &names, self.limit);
        let archive = packed.map_err(|e| format!("made files that cannot be read: {e}"))?;
        Ok(Some(Made { archive, count: names.len() as u32 }))
    }
}

/// Bytes of the file `name` in `scratch`, which must be one, and be reached by folders alone.
fn size_of(scratch: &Path, name: &str) -> Result<u64, String> {
    let mut path = scratch.to_owned();
    let mut parts = name.split('/').peekable();
    while let Some(part) = parts.next() {
        path.push(part);
        let there = match fs::symlink_metadata(&path) {
            Ok(there) => there,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(format!("made no file `{name}`"));
            }
            Err(e) => return Err(format!("made a file `{name}` that cannot be read: {e}")),
        };
        match parts.peek() {
            Some(_) if there.is_dir() => {}
            None if there.is_file() => return Ok(there.len()),
            _ if there.is_symlink() => return Err(format!("made `{name}` by a link: only files are taken")),
            _ if there.is_dir() => return Err(format!("made a directory `{name}`: only files are taken")),
            Some(_) => return Err(format!("made no file `{name}`")),
            None => return Err(format!("made `{name}`, which is no regular file")),
        }
    }
    Err("made no file".to_owned())
}

/// The files of `names`, each under the second one.
fn pack(scratch: &Path, names: &[(String, String)], limit: u64) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, shown) in names {
        let file = File::open(scratch.join(name))?;
        let there = file.metadata()?;
        let mut content = Vec::new();
        // Something that the unit left running may still write.
        file.take(limit + 1).read_to_end(&mut content)?;
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(if there.permissions().mode() & 0o100 != 0 { 0o755 } else { 0o644 });
        header.set_mtime(0);
        archive.append_data(&mut header, shown, &content[..])?;
    }
    archive.into_inner()
}
