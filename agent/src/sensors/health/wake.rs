//! What tells that something may be wrong before it is time to look: events of the kernel about its devices, pressure on
//! memory, and another `cards.json`. A machine that has none of them, or does not let us, is looked at by the timer alone.

use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, inotify, open};
use rustix::io::Errno;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use starfarm_agent_core::Context;

use crate::watched::{Next, Watched};

/// All processes that could run have waited for memory for one of two seconds: the time of the window is one that the kernel
/// grants to everybody.
const PRESSURE: &[u8] = b"full 1000000 2000000\0";
/// The group of the kernel's own events.
const KERNEL: u32 = 1;
/// Nothing is looked at more often, in microseconds.
const PAUSE_US: u64 = 200_000;
/// Events that are read in a row.
const BATCH: usize = 64;

enum Kind {
    Devices,
    Pressure,
    Folder,
}

/// Files that wake the stage.
#[derive(Default)]
pub(super) struct Wakers {
    all: Vec<(Watched, OwnedFd, Kind)>,
    looked_us: u64,
}

impl Wakers {
    /// Those of the machine whose `/proc` that is.
    pub(super) fn open(&mut self, proc: &Path, context: &Context<'_>) {
        if self.all.iter().any(|(_, _, kind)| !matches!(kind, Kind::Folder)) {
            return;
        }
        self.add(devices().ok(), Kind::Devices, context);
        self.add(pressure(proc).ok(), Kind::Pressure, context);
    }

    /// Wakes when another file is put into this folder.
    pub(super) fn open_folder(&mut self, folder: &Path, context: &Context<'_>) {
        self.add(changes(folder).ok(), Kind::Folder, context);
    }

    fn add(&mut self, fd: Option<OwnedFd>, kind: Kind, context: &Context<'_>) {
        let watch = if matches!(kind, Kind::Pressure) { Watched::urgent } else { Watched::new };
        let watched = fd.and_then(|fd| Some((watch(fd.as_raw_fd(), context.number()).ok()?, fd)));
        self.all.extend(watched.map(|(watched, fd)| (watched, fd, kind)));
    }

    /// Something wakes it; whether it is time to look.
    pub(super) fn wake(&mut self, now_us: u64) -> bool {
        let is_due = now_us.abs_diff(self.looked_us) >= PAUSE_US;
        for (watched, fd, kind) in &self.all {
            drain(fd, kind);
            watched.next(if is_due { Next::WhenReadable } else { Next::After(PAUSE_US) });
        }
        if is_due {
            self.looked_us = now_us;
        }
        is_due
    }
}

/// What has woken it says no more: all is looked at.
fn drain(fd: &OwnedFd, kind: &Kind) {
    match kind {
        Kind::Devices => {
            let mut room = [0; 8 << 10];
            // Where some were lost, the next one is there again.
            let reads = (0..BATCH).map(|_| recv(fd, &mut room, RecvFlags::DONTWAIT));
            let ended = |read: &Result<_, Errno>| matches!(read, Err(error) if *error != Errno::NOBUFS);
            let _ = reads.take_while(|read| !ended(read)).count();
        }
        Kind::Folder => {
            let mut room = [MaybeUninit::uninit(); 4 << 10];
            let mut changes = inotify::Reader::new(fd, &mut room);
            while changes.next().is_ok() {}
        }
        // It tells each time anew.
        Kind::Pressure => {}
    }
}

fn devices() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(KOBJECT_UEVENT))?;
    bind(&socket, &SocketAddrNetlink::new(0, KERNEL))?;
    Ok(socket)
}

fn pressure(proc: &Path) -> Result<OwnedFd, ErrorKind> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(proc.join("pressure/memory"), flags, Mode::empty()).map_err(|error| error.kind())?;
    rustix::io::write(&file, PRESSURE).map_err(|error| error.kind())?;
    Ok(file)
}

fn changes(folder: &Path) -> Result<OwnedFd, Errno> {
    let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    inotify::add_watch(&fd, folder, inotify::WatchFlags::MOVED_TO)?;
    Ok(fd)
}
