//! The fake scheduler's end of the bulk channel: one thread for each stream.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use starfarm_protocol::bulk::{BULK, Incoming, Reply, Request, chunks};
use starfarm_protocol::ids::{ContentHash, Epoch, FarmId};
use starfarm_protocol::orders::{self, ORDERS};
use starfarm_protocol::seal::line::read_frame;
use starfarm_protocol::seal::stream::{Stream, answer};
use starfarm_protocol::seal::{Mode, Responder, StaticKey};

use super::Shared;

pub(super) fn serve(listener: TcpListener, shared: Arc<Mutex<Shared>>, key: StaticKey) {
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let (shared, key) = (Arc::clone(&shared), key.clone());
            std::thread::spawn(move || drop(speak(socket, &shared, &key)));
        }
    });
}

fn speak(mut socket: TcpStream, shared: &Mutex<Shared>, key: &StaticKey) -> io::Result<()> {
    let mode = Mode { stream: true, plain: false };
    let mut responder = Responder::new(key.clone(), FarmId([1; 16]), Epoch(1), mode, [0; 32]);
    let hello = frame(&mut socket)?;
    let reply =
        answer(&mut responder, &shared.lock().unwrap().keys, &hello, b"", 0).map_err(io::Error::other)?;
    let (welcome, Ok(stream)) = reply else {
        return Err(io::Error::other("refused"));
    };
    socket.write_all(&welcome)?;
    let (first, mut record) = (frame(&mut socket)?, Vec::new());
    let confirmed = stream.confirm(&mut shared.lock().unwrap().keys, &first, &mut record, 0);
    let (stream, ..) = confirmed.map_err(io::Error::other)?;
    if record == [ORDERS] {
        return want_no_post(socket, stream);
    }
    assert_eq!(record, [BULK]);
    shared.lock().unwrap().streams.0 += 1;
    let ended = Talk { socket, stream, shared, incoming: HashMap::new() }.run();
    if ended.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::UnexpectedEof) {
        shared.lock().unwrap().streams.1 += 1;
    }
    ended
}

/// The other end of the orders channel, of a scheduler that has no tree.
fn want_no_post(mut socket: TcpStream, mut stream: Stream) -> io::Result<()> {
    let mut record = Vec::new();
    loop {
        let body = frame(&mut socket)?;
        stream.opener.open(&body, &mut record).map_err(io::Error::other)?;
        orders::Incoming::report().take::<orders::Report>(&record).unwrap().unwrap();
        let mut answer = Vec::new();
        stream.sealer.seal(&orders::write(&orders::Orders::default())[0], &mut answer).unwrap();
        socket.write_all(&answer)?;
    }
}

fn frame(socket: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    read_frame(socket, &mut body)?;
    Ok(body)
}

struct Talk<'a> {
    socket: TcpStream,
    stream: Stream,
    shared: &'a Mutex<Shared>,
    incoming: HashMap<ContentHash, Incoming>,
}

impl Talk<'_> {
    fn run(mut self) -> io::Result<()> {
        let mut record = Vec::new();
        let mut put = None;
        loop {
            let body = frame(&mut self.socket)?;
            self.stream.opener.open(&body, &mut record).map_err(io::Error::other)?;
            match Request::read(&record).unwrap() {
                Request::Get { hash, offset } => self.get(&hash, offset)?,
                Request::Put { hash, total } => {
                    put = Some((hash, total));
                    let bytes = self.incoming.entry(hash).or_insert_with(|| Incoming::new(hash)).offset();
                    self.reply(&Reply::Have { bytes })?;
                }
                Request::PutAll(few) => {
                    let each = few.contents().map(|content| (ContentHash::of(content), content.to_vec()));
                    self.shared.lock().unwrap().contents.extend(each);
                    self.reply(&Reply::Stored)?;
                }
                Request::Locate { job, unit } => {
                    let all = self.shared.lock().unwrap().located.clone();
                    let found = all.iter().find(|(of, located)| *of == job && located.has(unit));
                    let none = || Reply::Refused(format!("nobody named unit {unit} of job {}", job.0));
                    self.reply(&found.map_or_else(none, |(_, located)| Reply::Located(*located)))?;
                }
                Request::Chunk(chunk) => {
                    let (hash, total) = put.unwrap();
                    let incoming = self.incoming.get_mut(&hash).unwrap();
                    incoming.take(&chunk, total).unwrap();
                    if incoming.offset() == total {
                        let content = self.incoming.remove(&hash).unwrap().finish().unwrap();
                        self.shared.lock().unwrap().contents.insert(hash, content);
                        self.reply(&Reply::Stored)?;
                    }
                }
            }
        }
    }

    fn get(&mut self, hash: &ContentHash, offset: u64) -> io::Result<()> {
        let (content, cut_after) = {
            let mut shared = self.shared.lock().unwrap();
            shared.gets += 1;
            shared.offsets.push(offset);
            (shared.contents.get(hash).cloned(), shared.cut_after.take())
        };
        let Some(content) = content else {
            return self.reply(&Reply::Refused(format!("there is no content with the hash {hash}")));
        };
        self.reply(&Reply::Found { total: content.len() as u64 })?;
        for chunk in chunks(&content, offset).take(cut_after.unwrap_or(usize::MAX)) {
            self.reply(&Reply::Chunk(chunk))?;
        }
        if cut_after.is_some() { Err(io::Error::other("cut")) } else { Ok(()) }
    }

    fn reply(&mut self, reply: &Reply<'_>) -> io::Result<()> {
        let mut frame = Vec::new();
        self.stream.sealer.seal(&reply.to_bytes(), &mut frame).map_err(io::Error::other)?;
        self.socket.write_all(&frame)
    }
}
