//! A TCP relay in front of a server that can simulate a slow or distant link and cut connections.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use socket2::{Domain, SockRef, Socket, Type};

/// Bytes per read. Small, so that a slow link flows steadily.
const CHUNK: usize = 16 * 1024;
/// Chunks in flight per direction of a connection; limits how much a distant link buffers.
const IN_FLIGHT: usize = 256;
/// The kernel's buffer towards the client. By default it grows to megabytes, and a slow link would look fast.
const RECEIVE_BUFFER: usize = 64 * 1024;

/// Accepts connections at one address and relays them to another. Dropping it stops it and cuts all connections.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<Shared>,
    accepting: Mutex<Option<Accepting>>,
}

#[derive(Debug)]
struct Accepting {
    stop: Arc<AtomicBool>,
    listener: Arc<TcpListener>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    listen: SocketAddr,
    target: SocketAddr,
    /// Bytes per second for each direction of the whole relay; 0 means no limit.
    rate: AtomicU64,
    delay_nanos: AtomicU64,
    passed: AtomicU64,
    /// When the link becomes free, for each direction.
    free_at: [Mutex<Instant>; 2],
    connections: Mutex<Vec<(TcpStream, TcpStream)>>,
}

impl Relay {
    /// Listens at `listen` and relays connections to `target`.
    pub fn start(listen: SocketAddr, target: SocketAddr) -> Result<Self> {
        let now = Instant::now();
        let relay = Self {
            shared: Arc::new(Shared {
                listen,
                target,
                rate: AtomicU64::new(0),
                delay_nanos: AtomicU64::new(0),
                passed: AtomicU64::new(0),
                free_at: [Mutex::new(now), Mutex::new(now)],
                connections: Mutex::default(),
            }),
            accepting: Mutex::new(None),
        };
        relay.open()?;
        Ok(relay)
    }

    /// Listens again after [`Relay::close`].
    pub fn open(&self) -> Result<()> {
        let mut accepting = self
            .accepting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if accepting.is_some() {
            return Ok(());
        }
        let listener = listen(self.shared.listen)
            .with_context(|| format!("listening at {}", self.shared.listen))?;
        let listener = Arc::new(listener);
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, stopped, accepts) = (
            Arc::clone(&self.shared),
            Arc::clone(&stop),
            Arc::clone(&listener),
        );
        let thread = thread::spawn(move || shared.accept(&accepts, &stopped));
        *accepting = Some(Accepting {
            stop,
            listener,
            thread,
        });
        Ok(())
    }

    /// Refuses new connections and cuts existing ones.
    pub fn close(&self) {
        let accepting = self
            .accepting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(Accepting {
            stop,
            listener,
            thread,
        }) = accepting
        {
            stop.store(true, Ordering::SeqCst);
            // Closing is not enough: a process that another thread is just starting has a copy of the socket until it runs its
            // program, and the kernel would go on accepting connections. This also ends the thread's accept.
            drop(SockRef::from(&*listener).shutdown(Shutdown::Both));
            drop(thread.join());
        }
        self.cut_connections();
    }

    /// Cuts every connection; new ones are accepted.
    pub fn cut_connections(&self) {
        let connections = std::mem::take(
            &mut *self
                .shared
                .connections
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        for (client, server) in connections {
            // Either may already be closed.
            drop(client.shutdown(Shutdown::Both));
            drop(server.shutdown(Shutdown::Both));
        }
    }

    /// Limits the bytes per second in each direction, over all connections including existing ones.
    pub fn limit_rate(&self, bytes_per_second: Option<u64>) {
        let rate = bytes_per_second.map_or(0, |rate| rate.max(1));
        self.shared.rate.store(rate, Ordering::Relaxed);
    }

    /// Delays every byte in each direction: a round trip takes twice this.
    pub fn delay(&self, one_way: Duration) {
        let nanos = u64::try_from(one_way.as_nanos()).unwrap_or(u64::MAX);
        self.shared.delay_nanos.store(nanos, Ordering::Relaxed);
    }

    /// Returns how many bytes clients have sent so far, so that a test knows that a copy is in progress.
    pub fn bytes_to_server(&self) -> u64 {
        self.shared.passed.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.close();
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener, stop: &AtomicBool) {
        for client in listener.incoming() {
            if stop.load(Ordering::SeqCst) {
                return;
            }
            // A connection that was closed before it was accepted does not affect the others.
            let Ok(client) = client else { continue };
            let shared = Arc::clone(self);
            thread::spawn(move || {
                // An error means that the connection has ended, which both sides notice.
                drop(shared.connect(client));
            });
        }
    }

    fn connect(self: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        let server = TcpStream::connect(self.target)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        {
            let mut connections = self
                .connections
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            // Connections whose client side is closed need no cut any more.
            connections.retain(|(client, _)| client.peer_addr().is_ok());
            connections.push((client.try_clone()?, server.try_clone()?));
        }
        let (shared, from, to) = (Arc::clone(self), server.try_clone()?, client.try_clone()?);
        let down = thread::spawn(move || shared.pass(from, to, 1));
        self.pass(client, server, 0);
        drop(down.join());
        Ok(())
    }

    /// Relays one direction: this thread reads and another writes, so that a delay does not cost throughput.
    fn pass(self: &Arc<Self>, mut from: TcpStream, to: TcpStream, direction: usize) {
        let (sender, receiver) = sync_channel(IN_FLIGHT);
        let writer = thread::spawn(move || write_when_due(&receiver, to));
        drop(self.read(&mut from, &sender, direction));
        drop(sender);
        drop(writer.join());
        drop(from.shutdown(Shutdown::Read));
    }

    fn read(
        &self,
        from: &mut TcpStream,
        sender: &SyncSender<(Instant, Vec<u8>)>,
        direction: usize,
    ) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let rate = self.rate.load(Ordering::Relaxed);
            // At most a tenth of a second's worth.
            let most = match usize::try_from(rate / 10) {
                Ok(0) if rate == 0 => CHUNK,
                Ok(share) => share.clamp(1, CHUNK),
                Err(_) => CHUNK,
            };
            let length = match from.read(&mut buffer[..most]) {
                Ok(0) => return Ok(()),
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            // A real link does not delay acknowledgements. The kernel would, for 40 ms, if no data goes the other way.
            let _ = SockRef::from(&*from).set_tcp_quickack(true);
            if rate > 0 {
                thread::sleep(self.wait_for_link(direction, length as u64, rate));
            }
            if direction == 0 {
                self.passed.fetch_add(length as u64, Ordering::Relaxed);
            }
            let due =
                Instant::now() + Duration::from_nanos(self.delay_nanos.load(Ordering::Relaxed));
            if sender.send((due, buffer[..length].to_vec())).is_err() {
                return Ok(());
            }
        }
    }

    /// Reserves the link for `length` bytes, and returns how long it takes until they are through.
    fn wait_for_link(&self, direction: usize, length: u64, rate: u64) -> Duration {
        let nanos = length.saturating_mul(1_000_000_000) / rate;
        let now = Instant::now();
        let mut free_at = self.free_at[direction]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *free_at = (*free_at).max(now) + Duration::from_nanos(nanos);
        free_at.duration_since(now)
    }
}

fn write_when_due(receiver: &Receiver<(Instant, Vec<u8>)>, mut to: TcpStream) {
    for (due, bytes) in receiver {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // Bytes in flight arrive first, then the other side sees the end.
    drop(to.shutdown(Shutdown::Write));
}
