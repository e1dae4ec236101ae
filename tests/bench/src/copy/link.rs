//! The simulated links for copy measurements, and a check of their real round trip.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use testbed::relay::Relay;

use crate::figures::median;
use crate::report::Row;

const PINGS: usize = 15;

/// A network link, with the limit for the operator's time as a share of `sftp`'s.
pub struct Link {
    pub name: &'static str,
    round_trip: Duration,
    /// Bytes a second.
    rate: Option<u64>,
    pub bar: f64,
}

pub const LINKS: &[Link] = &[
    Link::new("0 ms", 0, None, 1.0),
    Link::new("25 ms", 25, None, 0.8),
    Link::new("100 ms", 100, None, 0.8),
    Link::new("25 ms, 100 Mbit/s", 25, Some(12_500_000), 0.5),
];

impl Link {
    const fn new(name: &'static str, round_trip: u64, rate: Option<u64>, bar: f64) -> Self {
        Self {
            name,
            round_trip: Duration::from_millis(round_trip),
            rate,
            bar,
        }
    }

    /// Configures a relay to behave like this link.
    pub fn apply(&self, relay: &Relay) {
        relay.delay(self.round_trip / 2);
        relay.limit_rate(self.rate);
    }

    /// Measures the round trip of one byte through a relay with this link to an echo server.
    pub fn check(&self) -> Result<Row> {
        let server = TcpListener::bind("127.0.0.1:0")?;
        let target = server.local_addr()?;
        thread::spawn(move || {
            if let Ok((mut stream, _)) = server.accept() {
                // Until the peer closes the connection.
                let _ = std::io::copy(&mut stream.try_clone()?, &mut stream);
            }
            Ok::<_, std::io::Error>(())
        });
        let free: SocketAddr = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let relay = Relay::start(free, target)?;
        self.apply(&relay);
        let mut stream = TcpStream::connect(free)?;
        stream.set_nodelay(true)?;
        let mut times = Vec::new();
        for _ in 0..PINGS {
            let begin = Instant::now();
            stream.write_all(b"x")?;
            stream.read_exact(&mut [0])?;
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        Ok(Row::new(
            format!("{}: round trip of a byte through the relay", self.name),
            median(&times),
            "ms",
        ))
    }
}
