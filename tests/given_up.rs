//! A session frees all its memory, even if its connection breaks in the middle of a packet. libssh2 is C, so only the
//! allocator knows what it keeps. This is its own program so that nothing else allocates meanwhile.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rustix::net::sockopt;
use simulated_host::{SimulatedFleet, SimulatedHost};
use windows_storage_operator::api::PrivateKeySecretRef;
use windows_storage_operator::index::Secret;
use windows_storage_operator::node::{PrivateKey, Session, check_private_key};
use zeroize::Zeroizing;

/// The first request with file content: connection, login offered, login, channel, subsystem, init, open, write.
const FIRST_WRITE: u64 = 8;
const SESSIONS: usize = 20;
/// Per session, in bytes. A session that is leaked takes four times as much.
const MOST_LEFT: usize = 20_000;

/// Returns the bytes that are allocated.
fn allocated() -> usize {
    // SAFETY: `mallinfo2` takes no arguments and only returns statistics.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}

/// Uploads a file to a host that stops reading, then breaks the connection.
fn break_in_the_middle(
    fleet: &SimulatedFleet,
    host: &SimulatedHost,
    key: &PrivateKey,
    runtime: &tokio::runtime::Runtime,
) {
    host.hold_at(FIRST_WRITE);
    let stream = TcpStream::connect((host.address(), host.port())).unwrap();
    // A small send buffer, as if the line were slow.
    sockopt::set_socket_send_buffer_size(&stream, 8 << 10).unwrap();
    let cutter = stream.try_clone().unwrap();
    let mut session = Session::shake_hands(stream, "the host", &[]).unwrap();
    session.login(fleet.user(), key).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            runtime
                .block_on(host.wait_until(|seen| seen.held == 1))
                .unwrap();
            // Long enough to fill the send buffer. There is no event for that.
            std::thread::sleep(Duration::from_millis(50));
            cutter.shutdown(Shutdown::Both).unwrap();
            host.release();
        });
        let content = vec![7; 8 << 20];
        let sent = session.upload("/C:/file", &content);
        assert!(sent.is_err(), "it was not cut");
    });
}

#[test]
fn a_session_that_breaks_in_the_middle_of_a_packet_leaves_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let fleet = SimulatedFleet::new().unwrap();
    let host = fleet.add_host("win-1").unwrap();
    let pem = Zeroizing::new(fleet.private_key().unwrap().into_bytes());
    let data = [("private-key.pem".to_owned(), pem)].into();
    let key = check_private_key(
        Some(&Secret::Data(data)),
        "ns",
        &PrivateKeySecretRef::default(),
    )
    .unwrap();
    let several = |count| {
        for _ in 0..count {
            break_in_the_middle(&fleet, &host, &key, &runtime);
        }
    };
    // The first sessions also allocate what is allocated only once.
    several(5);
    let before = allocated();
    several(SESSIONS);
    let left = allocated().saturating_sub(before) / SESSIONS;
    assert!(left < MOST_LEFT, "{left} bytes are left of each");
}
