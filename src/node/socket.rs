//! Platform-specific operations on connections that the standard library lacks.

use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt;

/// How long a connection may be idle before the kernel probes it, how often it probes, and how many probes may stay unanswered.
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBES: u32 = 4;
/// How long sent data may stay unacknowledged, in milliseconds.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: u32 = 45_000;

/// Has the system notice if the peer vanishes, such as a host that lost its power.
pub fn notice_loss(stream: &TcpStream) -> std::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    // Ignore errors: Windows before 10 and Wine support none of these, the first Windows Subsystem for Linux not the
    // last. Without them, a lost host is noticed later.
    let _ = sockopt::set_tcp_keepidle(stream, PROBE_AFTER);
    let _ = sockopt::set_tcp_keepintvl(stream, PROBE_EVERY);
    let _ = sockopt::set_tcp_keepcnt(stream, PROBES);
    #[cfg(target_os = "linux")]
    let _ = sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED);
    Ok(())
}

/// Returns whether the peer has ended the connection.
#[cfg(unix)]
pub fn has_ended(stream: &TcpStream) -> bool {
    use rustix::net::{RecvFlags, recv};

    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match recv(stream, &mut [0; 1], flags) {
        Ok((_, length)) => length == 0,
        Err(error) => error != rustix::io::Errno::AGAIN,
    }
}

/// Returns whether the peer has ended the connection. libssh2 has made the socket non-blocking.
#[cfg(windows)]
pub fn has_ended(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0; 1]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}
