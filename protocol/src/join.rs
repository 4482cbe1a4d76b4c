//! The join file: what a machine needs in order to find a farm, to know it again, and to enrol. Text in,
//! text out; reading and writing the file, and keeping it private, are for the rim.

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::ids::{FarmId, JoinKeyId, PublicKey};
use crate::seal::{Role, Secret};

/// Version of the file's layout.
pub const JOIN_FILE_VERSION: u32 = 1;

const ABOUT: &str = "A starfarm join file. SECRET: whoever has it can join this farm with the role below. \
     Copy it over a safe channel, keep it private (mode 600), and revoke its join key with \
     `starfarm key revoke` if it leaks.";

/// The contents of a join file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinFile {
    about: String,
    version: u32,
    /// Which farm.
    pub farm: FarmId,
    /// Where its scheduler listens, `HOST:PORT` each, `[HOST]:PORT` for IPv6; tried in this order.
    pub addresses: Vec<String>,
    /// The scheduler's key. Nobody else is believed.
    pub scheduler_key: PublicKey,
    join_key: JoinKeyId,
    /// The pre-shared secret of the handshake.
    pub join_secret: Secret,
    /// What those who join with it may do.
    pub role: Role,
}

impl JoinFile {
    /// A join file for the holder of `join_secret`. `addresses` are checked when it is read.
    pub fn new(
        farm: FarmId,
        addresses: Vec<String>,
        scheduler_key: PublicKey,
        join_secret: Secret,
        role: Role,
    ) -> Self {
        let join_key = join_secret.join_key_id();
        let (about, version) = (ABOUT.to_owned(), JOIN_FILE_VERSION);
        Self { about, version, farm, addresses, scheduler_key, join_key, join_secret, role }
    }

    /// Public name of the join key, for `starfarm key revoke`.
    pub fn join_key(&self) -> JoinKeyId {
        self.join_key
    }

    /// The text of the file, a line for each field; wiped when dropped.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = serde_json::to_string_pretty(self).expect("all keys are text");
        text.push('\n');
        Zeroizing::new(text)
    }

    /// Reads the text of a join file.
    ///
    /// # Errors
    /// A sentence for the user: what is wrong, where (line and column), and what to do. It never repeats
    /// the secret.
    pub fn from_text(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("the join file is empty: copy it again from the scheduler".into());
        }
        check_version(text)?;
        let file: Self = serde_json::from_str(text).map_err(|e| {
            format!("the join file cannot be read: {}: copy it again from the scheduler", place(&e))
        })?;
        if file.join_key != file.join_secret.join_key_id() {
            return Err("`join_key` and `join_secret` of the join file do not belong together: copy it \
                 again from the scheduler"
                .into());
        }
        if file.addresses.is_empty() {
            return Err(
                "the join file names no address: add `HOST:PORT` of the scheduler to `addresses`".into()
            );
        }
        match file.addresses.iter().find(|address| !is_address(address)) {
            Some(address) => Err(format!(
                "`{address}` in the join file is no address: write `HOST:PORT`, or `[HOST]:PORT` for IPv6"
            )),
            None => Ok(file),
        }
    }
}

/// What is wrong and where. What stands there instead may be a secret: a key file, by mistake.
fn place(error: &serde_json::Error) -> String {
    let words = error.to_string();
    let echoes =
        ["invalid type", "invalid value", "unknown variant"].iter().any(|how| words.starts_with(how));
    let long = words.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word.len() > 24);
    let at = format!("at line {} column {}", error.line(), error.column());
    match error.classify() {
        serde_json::error::Category::Data if !echoes && !long => words,
        serde_json::error::Category::Data => format!("what stands {at} does not belong there"),
        _ => format!("it is not JSON {at}"),
    }
}

/// Says of another version that it is one, before its fields are complained about.
fn check_version(text: &str) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    match serde_json::from_str::<Version>(text) {
        Ok(Version { version }) if version != JOIN_FILE_VERSION => Err(format!(
            "the join file has version {version}, this program reads {JOIN_FILE_VERSION}: install the \
             scheduler's starfarm here too"
        )),
        _ => Ok(()),
    }
}

/// A host that is not empty, a colon, a port from 1 to 65 535. Whether the host exists is seen later.
pub fn is_address(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.strip_suffix(']').filter(|v6| v6.contains(':')),
        None => Some(host).filter(|host| !host.contains(':')),
    };
    let is_clean = |host: &str| !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/');
    host.is_some_and(is_clean) && port.parse::<u16>().is_ok_and(|port| port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> JoinFile {
        let addresses = vec!["farm.example:7700".into(), "[2001:db8::1]:7700".into()];
        JoinFile::new(FarmId([1; 16]), addresses, PublicKey([2; 32]), Secret([3; 32]), Role::Worker)
    }

    fn error(from: &str, to: &str) -> String {
        let text = file().to_text();
        assert!(text.contains(from), "{from} is not in the file");
        JoinFile::from_text(&text.replacen(from, to, 1)).unwrap_err()
    }

    #[test]
    fn a_key_file_that_is_given_as_join_file_is_not_shown() {
        let digits = "1234567890123456".repeat(4);
        for text in
            [digits.clone(), format!("{digits}\n"), format!("\"{digits}\""), format!("{{\"{digits}\": 1}}")]
        {
            let why = JoinFile::from_text(&text).unwrap_err();
            assert!(!why.contains("12345") && why.contains("cannot be read"), "{why}");
        }
        let shown = error("\"role\": \"worker\"", "\"role\": \"secretsecret\"");
        assert!(!shown.contains("secretsecret") && shown.contains("line"), "{shown}");
    }

    #[test]
    fn a_file_comes_back_and_says_that_it_is_secret() {
        let text = file().to_text();
        assert_eq!(JoinFile::from_text(&text).unwrap(), file());
        assert!(text.lines().nth(1).unwrap().contains("SECRET"));
        assert!(text.ends_with("}\n"));
    }

    #[test]
    fn it_is_never_printed_with_its_secret() {
        assert!(!format!("{:?}", file()).contains("0303"));
    }

    #[test]
    fn errors_say_where_and_what_to_do() {
        assert!(JoinFile::from_text(" \n").unwrap_err().contains("empty"));
        assert!(error("\"role\"", "\"rule\"").contains("rule"));
        assert!(error("worker", "boss").contains("line 12"));
        assert!(error("\"version\": 1", "\"version\": 2").contains("install the scheduler's starfarm"));
        assert!(error(&"02".repeat(32), "0202").contains("expected 64"));
        assert!(JoinFile::from_text("[space]\nkind = 1").unwrap_err().contains("line 1"));
        let text = file().to_text();
        assert!(JoinFile::from_text(&text[..200]).unwrap_err().contains("copy it again"));
    }

    #[test]
    fn a_slip_in_the_secret_is_noticed_and_not_repeated() {
        let slip = error(&"03".repeat(32), &format!("{}04", "03".repeat(31)));
        assert!(slip.contains("do not belong together"), "{slip}");
        assert!(!error(&"03".repeat(32), &"03".repeat(31)).contains("0303"));
    }

    #[test]
    fn addresses() {
        for good in ["a:1", "10.0.0.1:65535", "[::1]:7700", "node-1.lab:80"] {
            assert!(is_address(good), "{good}");
        }
        for bad in
            ["", "a", "a:", ":1", "a:0", "a:65536", "::1:7700", "[::1]", "[a]:1", "a b:1", "http://a:1"]
        {
            assert!(!is_address(bad), "{bad}");
        }
        assert!(error("farm.example:7700", "farm.example").contains("HOST:PORT"));
    }
}
