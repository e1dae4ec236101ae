//! The TCP connection below a session, and how it ends.

use std::net::{IpAddr, Shutdown, TcpStream, ToSocketAddrs};
use std::time::Duration;

use rustix::net::sockopt;

use crate::node::{NodeError, Reason};

const CONNECT: Duration = Duration::from_secs(10);
/// What one operation on a connection may take.
pub const OPERATION: Duration = Duration::from_secs(60);
/// How long a connection may be silent before the kernel asks whether the other side is there, how long until it asks
/// again, and how often it does so in vain.
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBES: u32 = 4;
/// How long sent data may stay unacknowledged, in milliseconds.
const UNACKNOWLEDGED: u32 = 45_000;

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

/// A TCP connection to a node's SSH port.
pub struct Line {
    /// The connection.
    pub stream: TcpStream,
    /// Where it goes.
    pub place: String,
}

impl Line {
    /// Connects, and gives the means to end the connection from outside.
    pub fn open(address: &str, port: u16) -> Result<(Self, Cutter), NodeError> {
        let place = place(address, port);
        let candidates = (address, port)
            .to_socket_addrs()
            .map_err(|error| unreachable(&place, &error))?;
        let mut problem = None;
        for candidate in candidates {
            match TcpStream::connect_timeout(&candidate, CONNECT).and_then(prepared) {
                Ok((stream, cutter)) => return Ok((Self { stream, place }, cutter)),
                Err(error) => problem = Some(error),
            }
        }
        Err(problem.map_or_else(
            || unreachable(&place, &"the name has no address"),
            |error| unreachable(&place, &error),
        ))
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

fn prepared(stream: TcpStream) -> std::io::Result<(TcpStream, Cutter)> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(OPERATION))?;
    stream.set_write_timeout(Some(OPERATION))?;
    // A host that lost its power says nothing any more; without these a waiting thread would notice at its deadline.
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, PROBE_AFTER)?;
    sockopt::set_tcp_keepintvl(&stream, PROBE_EVERY)?;
    sockopt::set_tcp_keepcnt(&stream, PROBES)?;
    sockopt::set_tcp_user_timeout(&stream, UNACKNOWLEDGED)?;
    let cutter = Cutter(stream.try_clone()?);
    Ok((stream, cutter))
}

/// No connection to that place.
pub fn unreachable(place: &str, problem: &dyn std::fmt::Display) -> NodeError {
    NodeError::new(
        Reason::Unreachable,
        format!(
            "no SSH connection to {place}: {problem}; check that the host is up, that sshd runs there and that no \
             firewall is in between"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_address_is_told_from_its_port() {
        assert_eq!(place("::1", 22), "[::1]:22");
        assert_eq!(place("fd00::7:22", 2222), "[fd00::7:22]:2222");
        assert_eq!(place("10.0.0.1", 22), "10.0.0.1:22");
        assert_eq!(place("win-1.example", 22), "win-1.example:22");
    }

    #[test]
    fn nobody_at_home_is_unreachable_and_says_what_to_check() {
        // Port 9 of the loopback address: nobody listens there on a test machine, and nothing leaves it.
        let Err(error) = Line::open("127.0.0.1", 9) else {
            panic!("nobody should listen there")
        };
        assert_eq!(error.reason, Reason::Unreachable);
        assert!(
            error.message.contains("127.0.0.1:9") && error.message.contains("firewall"),
            "{error}"
        );
    }
}
