//! The loop of a thread that has links: it waits for sockets, for files that its owner watches and for other threads, and
//! says what happened. Links beat by themselves, and end when nothing was heard of them for too long. The clock comes in
//! as an argument.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use socket2::SockRef;
use starfarm_overlay_core::lanes::Lane;
use starfarm_overlay_core::pipe::{End, LOOK_US, LinkId, Links};
use starfarm_overlay_core::sending::Sending;
use starfarm_protocol::ids::FarmId;
use starfarm_protocol::link::Message;
use starfarm_protocol::seal::stream::{Stream, call};
use starfarm_protocol::seal::{Claim, Introduction, Responder, SealError, Vouchers};

use crate::link::{Came, Host, Link};
use crate::strangers::{self, Call};

/// A file that the owner of the reactor watches: the number that it gave it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Watch(pub usize);

/// What has happened.
#[derive(Debug)]
pub enum Happening {
    /// A link that was called is up: it is for the caller to say something first, or it is not believed to be who it is.
    Up(LinkId),
    /// Somebody that was vouched for has called: who, and its first record.
    Called(LinkId, Claim, Vec<u8>),
    /// A record has come.
    Record(LinkId, Vec<u8>),
    /// A link has ended by itself, and why. It is not there any more.
    Gone(LinkId, End),
    /// A watched file can be read.
    Readable(Watch),
}

const WAKER: Token = Token(0);
/// Tokens of watched files; that of the listening socket and those of links come behind them.
const WATCHES: usize = 1_024;
const LISTENER: Token = Token(WATCHES + 1);
/// Callers that are looked at in a turn.
const CALLERS: usize = 256;
/// Bytes of a link that the system holds and has not sent, at most.
const AHEAD_BYTES: u32 = 64 << 10;
/// Events of a turn.
const EVENTS: usize = 1_024;

/// All links of a thread.
pub struct Reactor {
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
    links: BTreeMap<LinkId, Link>,
    listener: Option<TcpListener>,
    /// Who takes links here.
    host: Option<Host>,
    next: u64,
    look_us: u64,
}

impl Reactor {
    /// A reactor without links.
    ///
    /// # Errors
    /// The system has no more of what it takes.
    pub fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let (events, links) = (Events::with_capacity(EVENTS), BTreeMap::new());
        let (listener, host, next) = (None, None, LISTENER.0 as u64 + 1);
        Ok(Self { poll, events, waker, links, listener, host, next, look_us: 0 })
    }

    /// Takes links there, of those that are vouched for: of nobody so far.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn listen(&mut self, listener: std::net::TcpListener, responder: Responder) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let mut listener = TcpListener::from_std(listener);
        self.poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        self.listener = Some(listener);
        self.host = Some(Host { responder, vouchers: Vouchers::default() });
        Ok(())
    }

    /// Takes no more links: the port is free.
    pub fn stop_listening(&mut self) {
        if let Some(mut listener) = self.listener.take() {
            // Closing it ends that as well.
            let _ = self.poll.registry().deregister(&mut listener);
        }
    }

    /// These may link from now on, and nobody else. Links that are up stay.
    pub fn vouch(&mut self, vouchers: Vouchers) {
        self.host.iter_mut().for_each(|host| host.vouchers = vouchers.clone());
    }

    /// Wakes the thread up out of [`Reactor::turn`], from any other.
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Watches a file that does not block, until it is closed.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn watch(&self, fd: RawFd, watch: Watch) -> io::Result<()> {
        assert!(watch.0 < WATCHES, "watches are few");
        self.poll.registry().register(&mut SourceFd(&fd), Token(1 + watch.0), Interest::READABLE)
    }

    /// The same of a file of the kernel that can always be read, and tells what is urgent.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn watch_urgent(&self, fd: RawFd, watch: Watch) -> io::Result<()> {
        assert!(watch.0 < WATCHES, "watches are few");
        self.poll.registry().register(&mut SourceFd(&fd), Token(1 + watch.0), Interest::PRIORITY)
    }

    /// Watches a file no more, for the time being.
    pub fn unwatch(&self, fd: RawFd) {
        // One that was closed is not watched either.
        let _ = self.poll.registry().deregister(&mut SourceFd(&fd));
    }

    /// Calls a post.
    ///
    /// # Errors
    /// There are no random numbers, or no socket.
    pub fn call(
        &mut self,
        address: SocketAddr,
        who: &Introduction<'_>,
        farm: FarmId,
        now_us: u64,
    ) -> io::Result<LinkId> {
        let call = call(who).map_err(|error: SealError| io::Error::other(error.to_string()))?;
        let socket = TcpStream::connect(address)?;
        self.add(Link::calls(socket, call, farm, now_us))
    }

    /// Takes over a link that has shaken hands elsewhere.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn adopt(&mut self, socket: std::net::TcpStream, stream: Stream, now_us: u64) -> io::Result<LinkId> {
        socket.set_nonblocking(true)?;
        self.add(Link::up(TcpStream::from_std(socket), stream, now_us))
    }

    fn add(&mut self, mut link: Link) -> io::Result<LinkId> {
        let id = LinkId(self.next);
        self.next += 1;
        // Nagle's pause would be longer than many of our messages are young.
        let _ = link.socket.set_nodelay(true);
        // What the system holds stands before a beat or an alarm.
        let _ = SockRef::from(&link.socket).set_tcp_notsent_lowat(AHEAD_BYTES);
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut link.socket, Token(id.0 as usize), interest)?;
        self.links.insert(id, link);
        Ok(id)
    }

    /// As [`Links::send`].
    pub fn send(&mut self, link: LinkId, lane: Lane, message: &Message<'_>, now_us: u64) {
        if let Some(found) = self.links.get_mut(&link) {
            found.pipe.send(lane, message, now_us);
        }
    }

    /// As [`Links::open`].
    pub fn open(&mut self, link: LinkId, lane: Lane, message: &Message<'_>, now_us: u64) {
        if let Some(found) = self.links.get_mut(&link) {
            found.pipe.open(lane, message, now_us);
        }
    }

    /// As [`Links::refuse`].
    pub fn refuse(&mut self, link: LinkId, why: String, now_us: u64) {
        if let Some(found) = self.links.get_mut(&link) {
            found.pipe.refuse(why, now_us);
        }
    }

    /// Ends a link; what waits to leave by it is lost.
    pub fn close(&mut self, link: LinkId) {
        self.links.remove(&link);
    }

    /// Ends all links.
    pub fn close_all(&mut self) {
        self.links.clear();
    }

    /// As [`Links::send_data`].
    pub fn send_data(&mut self, link: LinkId, waiting: &mut Sending, now_us: u64) {
        if let Some(found) = self.links.get_mut(&link) {
            found.pipe.send_data(waiting, now_us);
        }
    }

    /// Waits for something to happen, `patience` at most, and appends what did. `clock` says what time it is.
    ///
    /// # Errors
    /// The system's, which nothing can be done about.
    pub fn turn(
        &mut self,
        patience: Duration,
        clock: impl Fn() -> u64,
        happenings: &mut Vec<Happening>,
    ) -> io::Result<()> {
        let now_us = clock();
        self.write_all(happenings);
        let busy = self.links.values().any(|link| link.readable);
        let until_look = Duration::from_micros(self.look_us.saturating_sub(now_us));
        let patience = if busy { Duration::ZERO } else { patience.min(until_look) };
        match self.poll.poll(&mut self.events, Some(patience)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        let now_us = clock();
        for event in &self.events {
            match event.token() {
                WAKER | LISTENER => {}
                Token(number) if number <= WATCHES => happenings.push(Happening::Readable(Watch(number - 1))),
                Token(number) => {
                    if let Some(link) = self.links.get_mut(&LinkId(number as u64)) {
                        link.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
                    }
                }
            }
        }
        self.accept_all(now_us);
        self.read_all(now_us, happenings);
        if now_us >= self.look_us {
            self.look_us = now_us + LOOK_US;
            self.look_after(now_us, happenings);
        }
        self.write_all(happenings);
        Ok(())
    }

    /// Takes whoever has called, a turn's worth.
    fn accept_all(&mut self, now_us: u64) {
        for _ in 0..CALLERS {
            // Without room for one more socket callers wait.
            let Some(Ok((socket, from))) = self.listener.as_ref().map(TcpListener::accept) else { return };
            let waiting = self.links.iter().filter_map(|(id, link)| Some((*id, link.stranger?)));
            match strangers::call(waiting, from.ip(), now_us) {
                Call::Wait => {}
                Call::Instead(slow) => drop(self.links.remove(&slow)),
                Call::Full => continue,
            }
            let _ = self.add(Link::accepted(socket, from.ip(), now_us));
        }
    }

    fn read_all(&mut self, now_us: u64, happenings: &mut Vec<Happening>) {
        let (mut came, mut host) = (Vec::new(), self.host.take());
        self.for_each(happenings, |id, link, happenings| {
            if !link.readable {
                return Ok(());
            }
            let read = link.read(&mut host, now_us, &mut came);
            happenings.extend(came.drain(..).map(|what| match what {
                Came::Up => Happening::Up(id),
                Came::Called(called) => Happening::Called(id, called.0, called.1),
                Came::Record(record) => Happening::Record(id, record),
            }));
            read
        });
        self.host = host;
    }

    fn write_all(&mut self, happenings: &mut Vec<Happening>) {
        self.for_each(happenings, |_, link, _| link.write());
    }

    /// Links that are up say that they live; those that say nothing are dead.
    fn look_after(&mut self, now_us: u64, happenings: &mut Vec<Happening>) {
        self.for_each(happenings, |_, link, _| link.pipe.look(link.is_up(), now_us));
    }

    /// Does something with each link; one of which nothing comes ends. Of a stranger nobody has heard.
    fn for_each(
        &mut self,
        happenings: &mut Vec<Happening>,
        mut act: impl FnMut(LinkId, &mut Link, &mut Vec<Happening>) -> Result<(), End>,
    ) {
        self.links.retain(|id, link| match act(*id, link, happenings) {
            Ok(()) => true,
            Err(why) => {
                if link.stranger.is_none() {
                    happenings.push(Happening::Gone(*id, why));
                }
                false
            }
        });
    }
}

impl Links for Reactor {
    fn send(&mut self, link: LinkId, lane: Lane, message: &Message<'_>, now_us: u64) {
        Self::send(self, link, lane, message, now_us);
    }

    fn open(&mut self, link: LinkId, lane: Lane, message: &Message<'_>, now_us: u64) {
        Self::open(self, link, lane, message, now_us);
    }

    fn send_data(&mut self, link: LinkId, waiting: &mut Sending, now_us: u64) {
        Self::send_data(self, link, waiting, now_us);
    }

    fn refuse(&mut self, link: LinkId, why: String, now_us: u64) {
        Self::refuse(self, link, why, now_us);
    }

    fn close(&mut self, link: LinkId) {
        Self::close(self, link);
    }
}
