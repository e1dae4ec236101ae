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

/// Has TCP acknowledge received data at once. The kernel resets this over time. Without it, everything only takes longer.
pub fn confirm_at_once(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    let _ = sockopt::set_tcp_quickack(stream, true);
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
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

/// A sink for all that libssh2 sends after its connection was cut.
#[cfg(unix)]
pub struct Sink(std::os::unix::net::UnixStream);

#[cfg(unix)]
impl Sink {
    /// Replaces the session's connection with a sink.
    pub fn in_place_of(ssh: &ssh2::Session) -> Option<Self> {
        use std::os::fd::AsRawFd;
        use std::os::unix::net::UnixStream;

        let (ours, sink) = UnixStream::pair().ok()?;
        ours.set_nonblocking(true).ok()?;
        // SAFETY: Both descriptors are open, and the session keeps owning its own. The connection that it referred to
        // before is closed, unless another thread has it open as well.
        unsafe { libc::dup2(ours.as_raw_fd(), ssh.as_raw_fd()) };
        Some(Self(sink))
    }

    /// Ends what the session can read from the sink.
    pub fn end(&self) {
        // This cannot fail: both ends belong to this process.
        let _ = self.0.shutdown(std::net::Shutdown::Write);
    }
}

/// Never exists: Windows cannot replace what a socket refers to. Commands end soon after, which frees what libssh2 keeps.
#[cfg(windows)]
pub enum Sink {}

#[cfg(windows)]
impl Sink {
    /// Returns `None`.
    pub fn in_place_of(_: &ssh2::Session) -> Option<Self> {
        None
    }

    /// Never called: there is no sink to end.
    pub fn end(&self) {
        match *self {}
    }
}
