//! `starfarm key`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use starfarm_protocol::admin::{KeyInfo, Request, Response};
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::seal::Role;
use zeroize::Zeroizing;

use super::Context;
use crate::cli::Key;
use crate::client::ask;
use crate::failure::Failure;
use crate::output::table::{Cell, Column, left};
use crate::output::{Document, Format, Record, Style, say};

impl Record for KeyInfo {
    const ONE: &'static str = "key";
    const MANY: &'static str = "keys";
    const COLUMNS: &'static [Column<Self>] = &[
        left("kind", |key| Cell::new(key.kind.word())),
        left("role", |key| Cell::new(key.role.word())),
        left("name", |key| Cell::new(if key.name.is_empty() { "-" } else { &key.name })),
        left("state", |key| Cell::new(if key.revoked { "revoked" } else { "valid" })),
        left("id", |key| Cell::new(&key.id)),
    ];

    fn quiet(&self) -> String {
        self.id.clone()
    }
}

pub(crate) fn run(context: &mut Context, command: &Key) -> Result<(), Failure> {
    let mut client = context.connect()?;
    match command {
        Key::List => {
            let keys = ask!(client, &Request::Keys, Response::Keys(keys) => keys)?;
            context.printer.list(&keys)?;
        }
        Key::Add { role, out } => {
            // Before the key is made: nobody could read its secret later.
            let file = out.as_ref().map(|path| create_private(path)).transpose()?;
            let request = Request::AddKey { role: *role };
            let text = ask!(client, &request, Response::JoinFile(text) => Zeroizing::new(text))?;
            match out.as_ref().zip(file) {
                Some((path, file)) => write_private(path, file, &text, *role)?,
                None => context.printer.document(&NewKey::new(&text)?)?,
            }
        }
        Key::Revoke { key } => {
            // The scheduler says whose key it was: the name may be another's next.
            let request = Request::RevokeKey { key: key.clone() };
            let keys = ask!(client, &request, Response::Keys(keys) => keys)?;
            if context.printer.format != Format::Quiet {
                context.printer.list(&keys)?;
            }
        }
    }
    Ok(())
}

/// Never over a file that is there: it may hold the only copy of another secret.
fn create_private(path: &Path) -> Result<File, Failure> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
        Failure::usage(format!("cannot write the join file {}: {error}: choose another name", path.display()))
    })
}

fn write_private(path: &Path, mut file: File, text: &str, role: Role) -> Result<(), Failure> {
    let shown = path.display();
    file.write_all(text.as_bytes()).map_err(|error| {
        Failure::usage(format!(
            "cannot write the join file {shown}: {error}: revoke its key, and add another"
        ))
    })?;
    say(&format!("{shown} lets the role {} join: it is secret, copy it over a safe channel", role));
    Ok(())
}

#[derive(serde::Serialize)]
struct NewKey<'a> {
    /// What to revoke it by.
    join_key: String,
    /// The file's content; a string, so that it can be written out as it is.
    join_file: &'a str,
}

impl<'a> NewKey<'a> {
    fn new(text: &'a str) -> Result<Self, Failure> {
        let file = JoinFile::from_text(text).map_err(|error| {
            Failure::unreachable(format!("the scheduler's join file is not one that we know: {error}"))
        })?;
        Ok(Self { join_key: file.join_key().to_string(), join_file: text })
    }
}

impl Document for NewKey<'_> {
    const NAME: &'static str = "join-file";

    fn table(&self, _: Style) -> String {
        self.join_file.to_owned()
    }

    fn quiet(&self) -> String {
        self.join_file.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use starfarm_protocol::admin::KeyKind;

    use super::*;
    use crate::output::testing::printed;

    #[test]
    fn keys_as_a_table() {
        let join = KeyInfo {
            kind: KeyKind::Join,
            id: "0011223344556677".into(),
            name: String::new(),
            role: Role::Worker,
            revoked: true,
        };
        let enrolled =
            KeyInfo { kind: KeyKind::Enrolled, name: "lab-7".into(), revoked: false, ..join.clone() };
        expect![[r#"
            kind      role    name   state    id
            join      worker  -      revoked  0011223344556677
            enrolled  worker  lab-7  valid    0011223344556677
        "#]]
        .assert_eq(&printed(Format::Table, |printer| printer.list(&[join, enrolled])));
    }

    #[test]
    fn a_join_file_is_never_written_over_another() {
        let path = std::env::temp_dir().join(format!("starfarm-join-{}", std::process::id()));
        write_private(&path, create_private(&path).unwrap(), "one", Role::Worker).unwrap();
        let failure = create_private(&path).unwrap_err();
        assert!(failure.message.contains("choose another name"), "{failure:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        std::fs::remove_file(&path).unwrap();
    }
}
