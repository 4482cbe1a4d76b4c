//! A scheduler that is a thread with a socket.

use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use starfarm_protocol::admin::Request;
use starfarm_protocol::admin::frames::FrameReader;
use starfarm_protocol::admin::pieces::{PIECE_BYTES_MAX, Pieces};

use super::local;

/// A folder with a socket, gone when the test ends.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("starfarm-client-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Serves one caller.
    pub(crate) fn serve<T: Send + 'static>(
        &self,
        serve: impl FnOnce(UnixStream) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let listener = UnixListener::bind(self.0.join(local::SOCKET)).unwrap();
        std::thread::spawn(move || serve(listener.accept().unwrap().0))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The next request of a caller; none where it has hung up.
pub(crate) fn try_next_request(socket: &mut UnixStream, reader: &mut FrameReader) -> Option<Request> {
    loop {
        if let Some(request) = reader.next_message().unwrap() {
            return Some(request);
        }
        if !read_some(socket, reader) {
            return None;
        }
    }
}

/// The content that a caller has announced.
pub(crate) fn next_content(socket: &mut UnixStream, reader: &mut FrameReader, bytes: u64) -> Vec<u8> {
    let (mut pieces, mut content) = (Pieces::of(bytes).unwrap(), Vec::new());
    while !pieces.are_whole() {
        match reader.next_bytes(PIECE_BYTES_MAX).unwrap() {
            Some(piece) => content.extend_from_slice(pieces.take(&piece).unwrap()),
            None => assert!(read_some(socket, reader), "the client hung up"),
        }
    }
    content
}

/// Whether anything came before the caller hung up.
fn read_some(socket: &mut UnixStream, reader: &mut FrameReader) -> bool {
    let mut piece = [0; 1_000];
    let bytes = socket.read(&mut piece).unwrap();
    reader.push(&piece[..bytes]);
    bytes > 0
}
