//! What stands in for a connection that was given up.
//!
//! libssh2 gives back a session only after it has sent the rest of a packet that the connection did not take whole, and a
//! connection that is gone takes nothing: 87 kB would stay for each. So its descriptor is made one that takes all and
//! says nothing.

use std::io;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// The other end, which nobody reads. It has to live as long as the session.
pub struct Sink {
    end: UnixStream,
}

impl Sink {
    /// Nothing more is to be waited for.
    pub fn end(&self) {
        // It is a pair of this process's own, so that it cannot have gone.
        let _ = self.end.shutdown(Shutdown::Write);
    }
}

/// Makes the session's descriptor one end of a pair of sockets.
pub fn put_in_place_of(ssh: &ssh2::Session) -> io::Result<Sink> {
    let (ours, end) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    // SAFETY: Both are open, and the session goes on to own its number; what it stood for before is closed, unless somebody
    // else has it as well.
    let put = unsafe { libc::dup2(ours.as_raw_fd(), ssh.as_raw_fd()) };
    if put < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Sink { end })
}
