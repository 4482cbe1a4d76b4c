//! Strangers who send rubbish, and copies of real datagrams that were tampered with.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use starfarm_chaos::Random;
use starfarm_e2e::{Farm, GUARD, connect_from, each_done_once, until};
use starfarm_protocol::ids::Boot;
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::seal::{Cookie, Initiator, Introduction, Mode, StaticKey};

fn refused(farm: &Farm) -> u64 {
    farm.status()["datagrams_refused"].as_u64().unwrap()
}

fn still_works(farm: &Farm) {
    let id = farm.submit(&["--range", "0..10", "--", "true"]);
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 10);
}

fn rubbish(random: &mut Random, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|_| random.bits() as u8).collect()
}

fn stranger(farm: &Farm) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(farm.address()).unwrap();
    socket
}

#[test]
fn random_datagrams_get_no_answer_and_do_no_harm() {
    let farm = Farm::with_workers(1, 1);
    let socket = stranger(&farm);
    let mut random = Random::new(1);
    let mut sent: u64 = 0;
    // On a busy machine the scheduler's buffer has no room for all of them, so more are sent until enough came in.
    until("400 are counted as refused", || {
        for i in 0..40 {
            let length = random.below(1_500);
            let mut datagram = rubbish(&mut random, length);
            // Half of them look like ours at the first byte.
            if let (Some(first), true) = (datagram.first_mut(), i % 2 == 0) {
                *first = 1 + (i % 4) as u8;
            }
            socket.send(&datagram).unwrap();
            sent += 1;
        }
        refused(&farm) >= 400
    });
    assert!(refused(&farm) <= sent, "only these are refused");
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv(&mut [0; 2_000]).is_err(), "rubbish is not answered");
    still_works(&farm);
}

#[test]
fn random_bytes_on_the_tcp_port_are_hung_up_on() {
    let farm = Farm::with_workers(1, 1);
    let mut random = Random::new(2);
    for length in [0, 1, 2, 3, 7, 100, 5_000, 100_000] {
        let mut stream = TcpStream::connect(farm.address()).unwrap();
        stream.set_read_timeout(Some(GUARD)).unwrap();
        // It may hang up before all of it is written.
        let _ = stream.write_all(&rubbish(&mut random, length));
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "no word to a stranger");
    }
    still_works(&farm);
}

/// Initiations of somebody who has a join file, with the cookie once there is one, and packets of the other types; he goes on
/// until he is stopped.
fn knock(farm: (SocketAddr, JoinFile), stop: &AtomicBool) {
    let (address, join) = farm;
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let (key, mut random) = (StaticKey::generate().unwrap(), Random::new(3));
    let who = Introduction {
        key: &key,
        scheduler: &join.scheduler_key,
        join_secret: &join.join_secret,
        name: "stranger",
        boot: Boot(1),
        mode: Mode::default(),
    };
    let (mut cookie, mut buffer) = (None::<Cookie>, [0; 2_048]);
    while !stop.load(Ordering::Relaxed) {
        for number in 0..16 {
            let (initiator, packet) = Initiator::start(&who, random.bits() as u32, cookie.as_ref()).unwrap();
            let _ = socket.send_to(&packet, address);
            let mut other = rubbish(&mut random, 16 + number * 80);
            other[0] = 1 + (number % 5) as u8;
            let _ = socket.send_to(&other, address);
            while let Ok((bytes, _)) = socket.recv_from(&mut buffer) {
                cookie = initiator.read_cookie(&buffer[..bytes], 0).ok().or(cookie);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Connections from 60 addresses: a third says nothing, a third half of a handshake, a third anything.
fn crowd(address: SocketAddr) -> Vec<TcpStream> {
    let mut random = Random::new(4);
    let half = [&384_u32.to_le_bytes()[..], &[1; 192]].concat();
    let noise = rubbish(&mut random, 500);
    let connect = |number: u8| {
        let mut socket = connect_from([127, 0, 0, 2 + number % 60].into(), address).ok()?;
        let _ = socket.write_all([&[][..], &half, &noise][usize::from(number % 3)]);
        Some(socket)
    };
    (0..240).filter_map(connect).collect()
}

#[test]
fn a_job_ends_beside_strangers_of_all_kinds_and_status_answers() {
    let farm = Farm::with_workers(2, 2);
    let join = std::fs::read_to_string(farm.state().join("worker.join")).unwrap();
    let join = JoinFile::from_text(&join).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stranger = std::thread::spawn({
        let (farm, stop) = ((farm.address(), join), Arc::clone(&stop));
        move || knock(farm, &stop)
    });
    let mut held = crowd(farm.address());
    let before = refused(&farm);
    let id = farm.submit(&[
        "--range",
        "0..200",
        "--units-per-task",
        "2",
        "--",
        "sh",
        "-c",
        "head -c 2000 /dev/zero",
    ]);
    held.extend(crowd(farm.address()));
    farm.status();
    farm.wait(&id).exits(0);
    until("strangers are counted", || refused(&farm) > before);
    each_done_once(&farm.job(&id), &farm.results(&id), 200);
    stop.store(true, Ordering::Relaxed);
    stranger.join().unwrap();
    drop(held);
    assert_eq!(farm.node_state("stranger"), "", "it never sent a message");
    farm.cli(&["audit", &farm.state().to_string_lossy()]).exits(0);
    still_works(&farm);
}

#[test]
fn tampered_copies_of_a_real_handshake_are_refused_and_the_real_one_is_answered() {
    let mut farm = Farm::start();
    let trap = UdpSocket::bind("127.0.0.1:0").unwrap();
    trap.set_read_timeout(Some(GUARD)).unwrap();
    let join = farm.join_file_at("worker.join", trap.local_addr().unwrap());
    farm.add_worker_by("caught", &join, &[]);
    let mut buffer = [0; 2_000];
    let real = trap.recv(&mut buffer).map(|bytes| buffer[..bytes].to_vec()).unwrap();

    let socket = stranger(&farm);
    let before = refused(&farm);
    let mut sent = 0;
    let cut = (0..real.len()).step_by(17).map(|length| real[..length].to_vec());
    let turned = (0..real.len() * 8).step_by(61).map(|bit| {
        let mut copy = real.clone();
        copy[bit / 8] ^= 1 << (bit % 8);
        copy
    });
    let longer = [[&real[..], b"x"].concat()];
    for copy in cut.chain(turned).chain(longer) {
        socket.send(&copy).unwrap();
        sent += 1;
    }
    // A bit that is only the sender's own index harms nobody: such a copy is answered.
    until("they are refused", || refused(&farm) >= before + sent - 8);
    socket.set_read_timeout(Some(GUARD)).unwrap();
    socket.send(&real).unwrap();
    assert!(socket.recv(&mut buffer).unwrap() > 0, "the real one is answered");
    assert_eq!(farm.node_state("caught"), "", "a handshake that is not confirmed brings no node");

    farm.add_worker("w1", &["--slots", "1"]);
    farm.until_nodes_up(1);
    still_works(&farm);
}

#[test]
fn forged_replayed_stale_and_wrong_role_datagrams_are_refused_and_change_nothing() {
    let report = starfarm_e2e::hostile::hostile(2_500);
    println!("{report}");
    for (kind, sent, refused) in report.kinds {
        assert!(refused >= sent - report.dropped, "{kind}: {refused} of {sent}");
    }
}
