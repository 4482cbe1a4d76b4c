//! Where the scheduler may be: what the join file names. The file is read again for each handshake, so that a
//! scheduler that has moved is found once the file says so, and names are looked up anew, since they may move too.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use crossbeam_channel::Sender;
use starfarm_protocol::join::JoinFile;
use zeroize::Zeroizing;

use crate::WorkerError;
use crate::event::Event;

pub(crate) struct Addresses {
    file: PathBuf,
    /// As they stood in the file when it was last good.
    names: Vec<String>,
    /// What was last said of the file or the names.
    said: String,
}

impl Addresses {
    /// Those of the join file `join`, which was read from `file`.
    pub(crate) fn new(file: &Path, join: &JoinFile) -> Self {
        // The worker stays where it was started, but a relative path is worth nothing in a message.
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        Self { file, names: join.addresses.clone(), said: String::new() }
    }

    /// What a person calls them.
    pub(crate) fn text(&self) -> String {
        self.names.join(", ")
    }

    /// Reads the file again; words where it says something that a person should know, once. One that is gone or
    /// half-written is no news: the addresses that it had stay.
    pub(crate) fn read_again(&mut self, ours: &JoinFile) -> Option<String> {
        let join = read_join_file(&self.file).ok()?;
        if (join.farm, &join.scheduler_key) != (ours.farm, &ours.scheduler_key) {
            let file = self.file.display();
            return self.once(format!(
                "`{file}` is now another farm's join file: start this worker again to join that"
            ));
        }
        if join.addresses == self.names {
            return None;
        }
        self.names = join.addresses;
        let words =
            format!("`{}` names another address of the scheduler now: {}", self.file.display(), self.text());
        self.once(words)
    }

    /// The addresses at once where all are numbers; else they come as [`Event::Addresses`].
    pub(crate) fn look_up(&self, inbox: &Sender<Event>) -> Option<Vec<SocketAddr>> {
        let numbers: Result<Vec<SocketAddr>, _> = self.names.iter().map(|name| name.parse()).collect();
        if let Ok(numbers) = numbers {
            return Some(numbers);
        }
        let (names, inbox) = (self.names.clone(), inbox.clone());
        let look_up = move || {
            let (mut found, mut unknown) = (Vec::new(), Vec::new());
            for name in names {
                match name.to_socket_addrs() {
                    Ok(addresses) => found.extend(addresses),
                    Err(_) => unknown.push(name),
                }
            }
            let _ = inbox.send(Event::Addresses { found, unknown });
        };
        // Without a thread this attempt fails like a lost datagram; the core asks again.
        let _ = std::thread::Builder::new().name("resolve".into()).spawn(look_up);
        None
    }

    /// Names were looked up; words where some are not known, once.
    pub(crate) fn found(&mut self, found: &[SocketAddr], unknown: &[String]) -> Option<String> {
        if unknown.is_empty() {
            self.said.clear();
            return None;
        }
        self.once(format!(
            "no address is known for {}: check the name in the join file and this machine's DNS; {}",
            unknown.join(", "),
            if found.is_empty() { "still trying" } else { "the file's other addresses are tried" }
        ))
    }

    fn once(&mut self, words: String) -> Option<String> {
        (self.said != words).then(|| {
            self.said.clone_from(&words);
            words
        })
    }
}

pub(crate) fn read_join_file(path: &Path) -> Result<JoinFile, WorkerError> {
    let text = std::fs::read_to_string(path).map(Zeroizing::new).map_err(|error| {
        WorkerError::Usage(format!(
            "cannot read the join file `{}`: {error}; copy `worker.join` from the scheduler's state directory",
            path.display()
        ))
    })?;
    JoinFile::from_text(&text).map_err(|why| WorkerError::Usage(format!("{}: {why}", path.display())))
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::{FarmId, PublicKey};
    use starfarm_protocol::seal::{Role, Secret};

    use super::*;
    use crate::testing::TempDir;

    fn join(farm: u8, address: &str) -> JoinFile {
        let addresses = vec![address.into()];
        JoinFile::new(FarmId([farm; 16]), addresses, PublicKey([2; 32]), Secret([3; 32]), Role::Worker)
    }

    #[test]
    fn a_scheduler_that_moved_is_found_by_the_join_file_and_another_farm_is_not_joined() {
        let dir = TempDir::new();
        let file = dir.0.join("worker.join");
        let write = |join: &JoinFile| std::fs::write(&file, join.to_text().as_bytes()).unwrap();
        let ours = join(1, "127.0.0.1:7");
        let mut addresses = Addresses::new(&file, &ours);
        assert_eq!(addresses.read_again(&ours), None, "a file that is gone is no news");
        write(&join(1, "127.0.0.1:8"));
        let said = addresses.read_again(&ours).unwrap();
        assert!(said.contains("127.0.0.1:8"), "{said}");
        assert_eq!(addresses.read_again(&ours), None);
        let inbox = crossbeam_channel::bounded(1).0;
        assert_eq!(addresses.look_up(&inbox), Some(vec!["127.0.0.1:8".parse().unwrap()]));
        write(&join(2, "127.0.0.1:9"));
        assert!(addresses.read_again(&ours).unwrap().contains("another farm"));
        assert_eq!(addresses.read_again(&ours), None, "it is said once");
        assert_eq!(addresses.text(), "127.0.0.1:8");
    }

    #[test]
    fn a_name_that_nobody_knows_is_said_once_until_it_is_known() {
        let dir = TempDir::new();
        let mut addresses = Addresses::new(&dir.0.join("none"), &join(1, "nowhere.invalid:7"));
        let unknown = ["no-host.invalid:7".to_owned()];
        let said = addresses.found(&[], &unknown).unwrap();
        assert!(said.contains("no address is known for no-host.invalid:7"), "{said}");
        assert_eq!(addresses.found(&[], &unknown), None);
        let other = ["127.0.0.1:7".parse().unwrap()];
        let said = addresses.found(&other, &unknown).unwrap();
        assert!(said.contains("no-host.invalid:7") && said.contains("other addresses are tried"), "{said}");
        assert_eq!(addresses.found(&other, &[]), None);
        assert!(addresses.found(&[], &unknown).is_some());
    }
}
