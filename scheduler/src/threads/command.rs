//! The command thread: admin commands over the local socket and the sealed TCP channel, and the bulk
//! channel of the workers beside them. One tokio runtime on one thread; each connection is a task of it.
//! The farm is only reached by asking the dispatcher.

mod admin;
pub(crate) mod bells;
mod bulk;
mod channel;
mod desk;
pub(crate) mod door;
mod hits;
mod jobs;
mod lost;
mod orders;
mod per_key;
mod put;
mod retention;
mod room;
mod submit;
mod trees;

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use starfarm_protocol::admin::frames::ADMIN_STREAM;
use starfarm_protocol::bulk::BULK;
use starfarm_protocol::link::LINK;
use starfarm_protocol::orders::ORDERS;
use starfarm_protocol::seal::{Action, Role};
use tokio::net::{TcpListener, UnixListener};
use tokio::time::timeout;

use crate::error::SchedulerError;
use crate::store::state::StateDir;
use channel::Channel;
pub(crate) use desk::{Desk, Places};
use door::Knock;
pub(crate) use per_key::PerKey;

/// A caller that has not shaken hands after so long is cut.
const HANDSHAKE_MAX: std::time::Duration = std::time::Duration::from_secs(5);

/// The listeners, bound before the thread starts so that errors reach who started the scheduler.
pub(crate) struct Listeners {
    tcp: std::net::TcpListener,
    unix: std::os::unix::net::UnixListener,
}

impl Listeners {
    /// Binds the sealed TCP channel beside the UDP socket, and the local socket.
    pub(crate) fn bind(address: std::net::SocketAddr, state: &StateDir) -> Result<Self, SchedulerError> {
        let tcp = std::net::TcpListener::bind(address)
            .map_err(|e| SchedulerError::cannot_listen("TCP", address, &e))?;
        let path = state.file("admin.sock");
        // The lock is ours, so a socket that is there is a leftover.
        let _ = std::fs::remove_file(&path);
        let bind = || -> std::io::Result<_> {
            // A socket's path holds 107 bytes; by way of the open directory any state directory is short.
            let dir = std::fs::File::open(state.file(""))?;
            let short = format!("/proc/self/fd/{}/admin.sock", std::os::fd::AsRawFd::as_raw_fd(&dir));
            let unix = std::os::unix::net::UnixListener::bind(short)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
            tcp.set_nonblocking(true)?;
            unix.set_nonblocking(true)?;
            Ok(unix)
        };
        let unix =
            bind().map_err(|e| SchedulerError::State(format!("cannot listen on {}: {e}", path.display())))?;
        Ok(Self { tcp, unix })
    }
}

pub(crate) fn run(desk: Arc<Desk>, listeners: Listeners) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a machine that gives no epoll cannot run a farm");
    runtime.block_on(async move {
        let tcp = TcpListener::from_std(listeners.tcp).expect("the listener is open and non-blocking");
        let unix = UnixListener::from_std(listeners.unix).expect("the listener is open and non-blocking");
        tokio::spawn(room::sweep_later(Arc::clone(&desk)));
        tokio::spawn(retention::keep(Arc::clone(&desk)));
        let mut check = tokio::time::interval(std::time::Duration::from_millis(100));
        while !desk.house.shared.stopping() {
            tokio::select! {
                Ok((stream, from)) = tcp.accept() => knock(&desk, stream, from.ip()),
                Ok((stream, _)) = unix.accept() => {
                    let Some(place) = desk.places.local() else { continue };
                    let desk = Arc::clone(&desk);
                    tokio::spawn(async move {
                        let _place = place;
                        let _ = local(&desk, stream).await;
                    });
                }
                _ = check.tick() => {}
            }
        }
    });
    // Connections that wait for a job's end are cut; their callers say so.
    runtime.shutdown_background();
}

async fn local(desk: &Arc<Desk>, stream: tokio::net::UnixStream) -> std::io::Result<()> {
    let caller = stream.peer_cred()?.uid();
    let ours = rustix::process::geteuid().as_raw();
    let mut channel = Channel::Local(stream);
    if caller != ours && caller != 0 {
        let refusal = crate::answers::error(
            starfarm_protocol::admin::ErrorCode::Refused,
            format!("this farm belongs to user {ours}: use its admin.join instead"),
        );
        return channel.write_answer(&refusal).await;
    }
    admin::serve(desk, &mut channel, Role::Admin, &format!("uid {caller}")).await
}

/// A connection from anywhere: it may shake hands, if there is room for one more that has not.
fn knock(desk: &Arc<Desk>, stream: tokio::net::TcpStream, from: IpAddr) {
    let now = std::time::Instant::now();
    let mut door = desk.door.lock().expect("a panic under the lock ends the process");
    match door.knock(from, now) {
        Knock::Wait => {}
        Knock::Instead(other) => other.abort(),
        Knock::Full => return,
    }
    let number = door.number();
    let task = tokio::spawn({
        let desk = Arc::clone(desk);
        // Whoever cannot shake hands gets no word.
        async move { drop(sealed(&desk, stream, number).await) }
    });
    door.wait(number, from, task.abort_handle(), now);
}

async fn sealed(desk: &Arc<Desk>, stream: tokio::net::TcpStream, number: u64) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    starfarm_net::keep_alive(&stream);
    let shaken = timeout(HANDSHAKE_MAX, Channel::sealed(desk, stream)).await;
    desk.door.lock().expect("a panic under the lock ends the process").leave(number);
    let (mut channel, peer, first) = shaken??;
    let tree = desk.house.tree.as_deref();
    if let (Some(tree), Some(&LINK), true) = (tree, first.first(), peer.role.may(Action::Link)) {
        return channel.hand_over(tree, &peer, first);
    }
    let Some(_place) = desk.places.remote() else { return Ok(()) };
    let serve = async {
        match first[..] {
            [BULK] if peer.role.may(Action::Work) => bulk::serve(desk, &mut channel, &peer).await,
            [ORDERS] if peer.role.may(Action::Work) => orders::serve(desk, tree, &mut channel, &peer).await,
            [ADMIN_STREAM] if peer.role.may(Action::Watch) => {
                admin::serve(desk, &mut channel, peer.role, &peer.claim.name).await
            }
            // A worker's key never reaches a command.
            _ => Ok(()),
        }
    };
    tokio::select! {
        served = serve => served,
        () = desk.until_revoked(&peer.claim.key) => Ok(()),
    }
}
