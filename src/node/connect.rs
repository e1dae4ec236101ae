//! The way to a node: TCP, the SSH handshake, and how both end.

use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use tokio::time::timeout;

use crate::node::session::Session;
use crate::node::{HostKey, HostKeyPolicy, NodeError, Phases, Reason, socket};

/// How long a TCP connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a server may take from the connection to its host key.
pub const HANDSHAKE: Duration = Duration::from_secs(30);
/// What one operation on a connection may take.
pub const OPERATION: Duration = Duration::from_secs(60);

/// A host that has shown its key. Nobody has logged in yet.
pub struct Connected {
    /// The SSH session.
    pub session: Session,
    /// The key that the host has shown.
    pub key: HostKey,
    /// Ends the connection when it is dropped.
    pub cutter: Cutter,
    /// How long it took.
    pub phases: Phases,
}

/// Ends a session from outside: a thread that waits for the network returns at once.
pub struct Cutter(TcpStream);

impl Drop for Cutter {
    fn drop(&mut self) {
        // The connection may be gone already. Shutting it down wakes a thread that waits for data; where data never
        // ends, only dissolving it takes away what has come in. That is refused while a thread waits.
        let _ = self.0.shutdown(Shutdown::Both);
        for _ in 0..100 {
            if rustix::net::connect_unspec(&self.0).is_ok() {
                break;
            }
            std::thread::yield_now();
        }
    }
}

/// Connects and reads the host key, for which the server has as long as `limit`. Keys of known types are asked for first. The connection ends with the cutter, and with this future.
pub async fn connect(
    (address, port): (&str, u16),
    known: &HostKeyPolicy,
    limit: Duration,
) -> Result<Connected, NodeError> {
    let place = place(address, port);
    let kinds = known.kinds();
    let mut phases = Phases::default();
    let opening = open((address, port), &place);
    let stream = phases.time("connect", opening).await?;
    let lost = |error: std::io::Error| unreachable(&place, &error);
    let cutter = Cutter(stream.try_clone().map_err(lost)?);
    let handshake = async {
        let to = place.clone();
        let shaken = blocking(limit, move || Session::shake_hands(stream, &to, &kinds));
        shaken.await.unwrap_or_else(|| {
            let problem = format!("no SSH greeting within {} s", limit.as_secs());
            Err(unreachable(&place, &problem))
        })
    };
    let (session, key) = phases.time("handshake", handshake).await?;
    Ok(Connected {
        session,
        key,
        cutter,
        phases,
    })
}

/// Tries each address of the host.
async fn open(host: (&str, u16), place: &str) -> Result<TcpStream, NodeError> {
    let addresses = tokio::net::lookup_host(host).await;
    let mut problem = unreachable(place, &"the name has no address");
    for address in addresses.map_err(|error| unreachable(place, &error))? {
        match timeout(CONNECT, open_one(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => problem = unreachable(place, &error),
            Err(_) => {
                let limit = CONNECT.as_secs();
                problem = unreachable(place, &format!("no connection within {limit} s"));
            }
        }
    }
    Err(problem)
}

async fn open_one(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = tokio::net::TcpStream::connect(address).await?.into_std()?;
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(OPERATION))?;
    stream.set_write_timeout(Some(OPERATION))?;
    // Without it a waiting thread would notice at its deadline.
    socket::notice_loss(&stream)?;
    Ok(stream)
}

impl Connected {
    /// Does blocking work over the connection, which is cut when time is up.
    pub async fn work<T: Send + 'static>(
        self,
        limit: Duration,
        what: &str,
        work: impl FnOnce(Session, Phases) -> Result<T, NodeError> + Send + 'static,
    ) -> Result<T, NodeError> {
        let done = blocking(limit, move || work(self.session, self.phases)).await;
        // From here on nothing uses the connection, or time is up.
        drop(self.cutter);
        done.unwrap_or_else(|| {
            let limit = limit.as_secs();
            let problem = format!("{what} took longer than {limit} s and was given up; what runs on the node was left as it was");
            Err(Reason::TimedOut.error(problem))
        })
    }
}

/// Runs blocking work on a thread of its own; `None` when time is up. The thread ends when its connection is cut.
async fn blocking<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    match timeout(limit, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(value)) => Some(value),
        Ok(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The process is ending, or time is up.
        Ok(Err(_)) | Err(_) => None,
    }
}

/// A host and its port as people write them: an IPv6 address in brackets.
#[must_use]
pub fn place(address: &str, port: u16) -> String {
    match address.parse() {
        Ok(IpAddr::V6(address)) => format!("[{address}]:{port}"),
        _ => format!("{address}:{port}"),
    }
}

/// No connection to that place.
pub fn unreachable(place: &str, problem: &dyn std::fmt::Display) -> NodeError {
    Reason::Unreachable.error(format!(
        "no SSH connection to {place}: {problem}; check that the host is up, that sshd runs there and that no \
         firewall is in between"
    ))
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
