//! Delays the bytes to and from a simulated host as a long network path would, or makes the host unreachable.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Result, bail};
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Bytes per read.
const CHUNK: usize = 32 * 1024;
/// Chunks in flight per direction: 4 MiB, as much as TCP keeps in flight on a good line.
const IN_FLIGHT: usize = 128;

/// Returns the host's end of a connection over this distance, and the future that relays it.
///
/// The kernel has accepted the connection at once, so the round trip of the TCP handshake is added here: the client's
/// first bytes arrive, and the host learns of the connection, three one-way delays after the connection attempt.
pub fn far<S>(stream: S, one_way: Duration) -> (DuplexStream, impl Future<Output = ()>)
where
    S: AsyncRead + AsyncWrite,
{
    let made = Instant::now() + 3 * one_way;
    let (near, way) = tokio::io::duplex(CHUNK);
    let work = async move {
        let (from_client, to_client) = tokio::io::split(stream);
        let (from_host, to_host) = tokio::io::split(way);
        tokio::join!(
            pass(from_client, to_host, one_way, made),
            pass(from_host, to_client, one_way, made + one_way),
        );
    };
    (near, work)
}

/// Relays one direction: every byte arrives after the delay, but not before the connection is established.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    one_way: Duration,
    made: Instant,
) {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(IN_FLIGHT);
    let read = async move {
        let mut buffer = vec![0; CHUNK];
        // An error means that the connection has ended, which both sides notice.
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let due = made.max(Instant::now() + one_way);
            if sender.send((due, buffer[..length].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((due, bytes)) = receiver.recv().await {
            sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        // Bytes in flight have arrived. The receiver may already be gone.
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}

/// An address that does not answer at all, not even with a refusal, while this exists.
#[derive(Debug)]
pub struct LostLine {
    _full: Socket,
    _waiting: Vec<TcpStream>,
}

impl LostLine {
    /// Blocks an address, on which nothing may listen. Once as many connections wait to be accepted as the backlog
    /// allows, the kernel drops further attempts. Source: `tcp_conn_request` in Linux's `net/ipv4/tcp_input.c`.
    pub(super) fn at(place: SocketAddr) -> Result<Self> {
        const MOST: usize = 16;
        /// On this machine, a connection is established immediately or never.
        const AT_ONCE: Duration = Duration::from_millis(200);
        let full = Socket::new(Domain::for_address(place), Type::STREAM, None)?;
        full.set_reuse_address(true)?;
        full.bind(&place.into())?;
        full.listen(0)?;
        let mut waiting = Vec::new();
        while waiting.len() < MOST {
            match TcpStream::connect_timeout(&place, AT_ONCE) {
                Ok(stream) => waiting.push(stream),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Ok(Self {
                        _full: full,
                        _waiting: waiting,
                    });
                }
                Err(error) => return Err(error.into()),
            }
        }
        bail!("{place} still takes connections after {MOST} that nobody has taken up")
    }
}
