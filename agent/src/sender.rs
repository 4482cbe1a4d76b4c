//! Sockets of programs of units, and which unit it is that tells something: the system says which process has sent a datagram, and
//! its environment says which unit it belongs to. Of a process that has ended by then nothing is known.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};
use starfarm_protocol::ids::JobId;

/// Bytes of an environment that are looked at.
const ENVIRONMENT_BYTES_MAX: u64 = 256 << 10;

/// A datagram socket at that path that does not block, and hears who sends.
pub(crate) fn socket(path: &Path) -> io::Result<UnixDatagram> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    // Before anybody can send: of what was sent before, the system knows no sender.
    net::sockopt::set_socket_passcred(&socket, true)?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// Takes the next datagram: how long it is, and which process has sent it.
pub(crate) fn receive(socket: &UnixDatagram, buffer: &mut [u8]) -> io::Result<(usize, Option<i32>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut said = RecvAncillaryBuffer::new(&mut space);
    let received = net::recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut said, RecvFlags::DONTWAIT)?;
    let sender = said.drain().find_map(|said| match said {
        RecvAncillaryMessage::ScmCredentials(who) => Some(who.pid.as_raw_nonzero().get()),
        _ => None,
    });
    // One of another world of processes has no number here.
    Ok((received.bytes, sender.filter(|pid| *pid > 0)))
}

/// Units of processes, as far as they were asked for: of one look, since others get their numbers by and by.
#[derive(Default)]
pub(crate) struct Units(BTreeMap<i32, Option<u128>>);

impl Units {
    /// The unit of that job that a process belongs to.
    pub(crate) fn of(&mut self, sender: Option<i32>, job: JobId) -> Option<u128> {
        let pid = sender?;
        *self.0.entry(pid).or_insert_with(|| {
            let environment = File::open(format!("/proc/{pid}/environ")).ok()?;
            let mut bytes = Vec::new();
            environment.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
            unit(&bytes, job)
        })
    }
}

fn unit(environment: &[u8], job: JobId) -> Option<u128> {
    let number = |name: &str| {
        let of = |variable: &'_ [u8]| {
            let value = variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            std::str::from_utf8(value).ok()?.parse::<u128>().ok()
        };
        environment.split(|byte| *byte == 0).find_map(of)
    };
    number("STARFARM_UNIT_INDEX").filter(|_| number("STARFARM_JOB") == Some(job.0.into()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn who_has_sent_a_datagram_is_known_while_it_lives() {
        let path = std::env::temp_dir().join(format!("starfarm-sender-{}", std::process::id()));
        let socket = socket(&path).unwrap();
        let mut buffer = [0; 16];
        assert!(receive(&socket, &mut buffer).is_err(), "it does not wait");
        UnixDatagram::unbound().unwrap().send_to(b"event x", &path).unwrap();
        let (length, sender) = receive(&socket, &mut buffer).unwrap();
        assert_eq!((&buffer[..length], sender), (&b"event x"[..], Some(std::process::id() as i32)));
        std::fs::remove_file(&path).unwrap();

        let mut sleeps = Command::new("sleep");
        let mut sleeps =
            sleeps.arg("60").envs([("STARFARM_JOB", "7"), ("STARFARM_UNIT_INDEX", "12")]).spawn().unwrap();
        let pid = Some(sleeps.id() as i32);
        let of = |job| Units::default().of(pid, JobId(job));
        // A process that has just begun may not have its environment yet.
        let start = std::time::Instant::now();
        while of(7).is_none() && start.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!((of(7), of(8), Units::default().of(None, JobId(7))), (Some(12), None, None));
        sleeps.kill().unwrap();
        sleeps.wait().unwrap();
        assert_eq!(of(7), None);
    }

    #[test]
    fn an_environment_that_says_nothing_has_no_unit() {
        let all = b"STARFARM_UNIT_INDEX_OLD=1\0STARFARM_UNIT_INDEX=340282366920938463463374607431768211455\0STARFARM_JOB=7";
        assert_eq!(unit(all, JobId(7)), Some(u128::MAX));
        for none in [&b""[..], b"STARFARM_UNIT_INDEX=\0STARFARM_JOB=7", b"STARFARM_UNIT_INDEX=3", b"\xff=\0"]
        {
            assert_eq!(unit(none, JobId(7)), None);
        }
    }
}
