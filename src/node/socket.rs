//! What systems have beyond the standard library to do with a connection, and each its own way.

use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt;

/// How long a connection may be silent before the kernel probes it, how often it probes, and how many probes may stay
/// without an answer.
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBES: u32 = 4;
/// How long sent data may stay unacknowledged, in milliseconds.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: u32 = 45_000;

/// Has the system notice that the other end is gone without a word, as a host that lost its power is.
pub fn notice_loss(stream: &TcpStream) -> std::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    // Not every system has these: Windows before 10 and Wine have none, the first Windows Subsystem for Linux not the last.
    // Without them a lost host is noticed later.
    let _ = sockopt::set_tcp_keepidle(stream, PROBE_AFTER);
    let _ = sockopt::set_tcp_keepintvl(stream, PROBE_EVERY);
    let _ = sockopt::set_tcp_keepcnt(stream, PROBES);
    #[cfg(target_os = "linux")]
    let _ = sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED);
    Ok(())
}

/// Has TCP confirm at once what has come. The kernel forgets it with time. Without it all is only later.
pub fn confirm_at_once(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    let _ = sockopt::set_tcp_quickack(stream, true);
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}

/// Whether the other end has ended the connection.
#[cfg(unix)]
pub fn has_ended(stream: &TcpStream) -> bool {
    use rustix::net::{RecvFlags, recv};

    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match recv(stream, &mut [0; 1], flags) {
        Ok((_, length)) => length == 0,
        Err(error) => error != rustix::io::Errno::AGAIN,
    }
}

/// Whether the other end has ended the connection. libssh2 has made the socket one that does not wait.
#[cfg(windows)]
pub fn has_ended(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0; 1]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

/// What takes all that libssh2 sends after its connection was cut.
#[cfg(unix)]
pub struct Sink(std::os::unix::net::UnixStream);

#[cfg(unix)]
impl Sink {
    /// Puts one in the place of the session's connection.
    pub fn in_place_of(ssh: &ssh2::Session) -> Option<Self> {
        use std::os::fd::AsRawFd;
        use std::os::unix::net::UnixStream;

        let (ours, sink) = UnixStream::pair().ok()?;
        ours.set_nonblocking(true).ok()?;
        // SAFETY: Both are open, and the session goes on to own its number; what it stood for before is closed,
        // unless another thread has it as well.
        unsafe { libc::dup2(ours.as_raw_fd(), ssh.as_raw_fd()) };
        Some(Self(sink))
    }

    /// Nothing comes from it any more.
    pub fn end(&self) {
        // It is a pair of this process's own, so that it cannot have gone.
        let _ = self.0.shutdown(std::net::Shutdown::Write);
    }
}

/// Windows cannot exchange what a socket stands for. Commands end soon after, and with them what libssh2 keeps.
#[cfg(windows)]
pub enum Sink {}

#[cfg(windows)]
impl Sink {
    /// None.
    pub fn in_place_of(_: &ssh2::Session) -> Option<Self> {
        None
    }

    /// There is none to end.
    pub fn end(&self) {
        match *self {}
    }
}
