//! Connects to nodes: TCP, the SSH handshake, and how both end.

use std::net::{IpAddr, Shutdown, TcpStream};
use std::time::Duration;

use tokio::time::timeout;

use crate::node::session::{OPERATION, Session, unreachable};
use crate::node::{HostKeyPolicy, NodeError, Reason, socket};

/// How long a TCP connection to one address may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long all of it may take: the lookup of a name, and a connection to each of its addresses.
const OPEN: Duration = Duration::from_secs(30);
/// Time limit from the connection to the server's host key.
pub const HANDSHAKE: Duration = Duration::from_secs(30);
/// A connected host and its key, before the login.
pub struct Connected {
    /// The SSH session.
    pub session: Session,
    /// Ends the connection when it is dropped.
    pub cutter: Cutter,
}

/// Ends a session from outside when dropped: a thread that waits for the network returns at once.
pub struct Cutter(TcpStream);

impl Drop for Cutter {
    fn drop(&mut self) {
        // The connection may be gone already. A shutdown wakes a thread that waits for data. If data never ends, only
        // dissolving the connection discards what was received; that is refused while a thread waits.
        let _ = self.0.shutdown(Shutdown::Both);
        for _ in 0..100 {
            if rustix::net::connect_unspec(&self.0).is_ok() {
                break;
            }
            std::thread::yield_now();
        }
    }
}

/// Connects, and reads the host key within `limit` after that. Requests keys of known types first. Dropping the cutter
/// or this future ends the connection.
pub async fn connect(
    (address, port): (&str, u16),
    known: &HostKeyPolicy,
    limit: Duration,
) -> Result<Connected, NodeError> {
    let place = place(address, port);
    let kinds = known.kinds();
    let lost = |error: std::io::Error| unreachable(&place, &error);
    let opened = within(OPEN, open((address, port))).await;
    let stream = opened.map_err(lost)?;
    let cutter = Cutter(stream.try_clone().map_err(lost)?);
    let to = place.clone();
    let shaken = blocking(limit, move || Session::shake_hands(stream, &to, &kinds));
    let session = shaken.await.unwrap_or_else(|| {
        let problem = format!("no SSH greeting within {} s", limit.as_secs());
        Err(unreachable(&place, &problem))
    })?;
    Ok(Connected { session, cutter })
}

async fn within<T>(
    limit: Duration,
    opening: impl Future<Output = std::io::Result<T>>,
) -> std::io::Result<T> {
    let late = |_| {
        let problem = format!("no connection within {} s", limit.as_secs());
        Err(std::io::Error::other(problem))
    };
    timeout(limit, opening).await.unwrap_or_else(late)
}

/// Opens a connection to the first address of the host that accepts one.
async fn open(host: (&str, u16)) -> std::io::Result<TcpStream> {
    let mut opened = Err(std::io::Error::other("the name has no address"));
    for address in tokio::net::lookup_host(host).await? {
        opened = within(CONNECT, tokio::net::TcpStream::connect(address)).await;
        if opened.is_ok() {
            break;
        }
    }
    let stream = opened?.into_std()?;
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(OPERATION))?;
    stream.set_write_timeout(Some(OPERATION))?;
    // Without this, a waiting thread would notice a lost host only at its deadline.
    socket::notice_loss(&stream)?;
    Ok(stream)
}

impl Connected {
    /// Runs blocking work over the connection, and cuts the connection after `limit`.
    pub async fn work<T: Send + 'static>(
        self,
        limit: Duration,
        what: &str,
        work: impl FnOnce(Session) -> Result<T, NodeError> + Send + 'static,
    ) -> Result<T, NodeError> {
        let done = blocking(limit, move || work(self.session)).await;
        // The work is done, or its time limit is over and this ends it.
        drop(self.cutter);
        done.unwrap_or_else(|| {
            let limit = limit.as_secs();
            let problem = format!("{what} took longer than {limit} s and was cancelled; what runs on the node was not touched");
            Err(Reason::TransferFailed.error(problem))
        })
    }
}

/// Runs blocking work on its own thread; returns `None` after `limit`. The thread ends when its connection is cut.
async fn blocking<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    match timeout(limit, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(value)) => Some(value),
        Ok(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The process is ending, or the time limit is over.
        Ok(Err(_)) | Err(_) => None,
    }
}

/// Formats a host and its port, with an IPv6 address in brackets.
pub fn place(address: &str, port: u16) -> String {
    match address.parse() {
        Ok(IpAddr::V6(address)) => format!("[{address}]:{port}"),
        _ => format!("{address}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_address_is_kept_apart_from_its_port() {
        for (address, port, expected) in [
            ("::1", 22, "[::1]:22"),
            ("fd00::7:22", 2222, "[fd00::7:22]:2222"),
            ("10.0.0.1", 22, "10.0.0.1:22"),
            ("win-1.example", 22, "win-1.example:22"),
        ] {
            assert_eq!(place(address, port), expected);
        }
    }
}
