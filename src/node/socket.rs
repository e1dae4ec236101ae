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

/// Returns whether the peer has ended the connection. libssh2 has made the socket non-blocking.
pub fn has_ended(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0; 1]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

/// Has the session do `work` while all that it sends goes to nobody, without ever having to wait, and nothing comes. Then
/// nothing can be sent or read.
#[cfg(unix)]
pub fn with_sink(ssh: &ssh2::Session, work: impl FnOnce()) -> std::io::Result<()> {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::os::fd::AsRawFd as _;

    // What its receive buffer does not take is dropped.
    let sink = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to_sink = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    to_sink.connect(sink.local_addr()?)?;
    to_sink.set_nonblocking(true)?;
    // SAFETY: Both descriptors are open, and the session keeps owning its own.
    unsafe { libc::dup2(to_sink.as_raw_fd(), ssh.as_raw_fd()) };
    work();
    Ok(rustix::net::shutdown(
        &to_sink,
        rustix::net::Shutdown::Both,
    )?)
}

/// Does nothing: Windows cannot replace what a socket refers to. Commands end soon after, which frees what libssh2 keeps.
#[cfg(windows)]
pub fn with_sink(_: &ssh2::Session, _: impl FnOnce()) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}
