//! A proxy that cuts or slows down the connection to the host, as a step needs it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt;

/// How much is read and forwarded at a time, in bytes.
const CHUNK: usize = 4096;
/// Size of the receive buffer, in bytes. On a slow line, little may wait here.
const QUEUE: usize = 16 * 1024;

/// What happens to data that is sent to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// It arrives unchanged.
    Plain,
    /// The connection ends after this many bytes.
    Cut { after: u64 },
    /// It arrives slowly.
    Slow { bytes_per_second: u64 },
}

impl Line {
    /// Returns the address to connect to in place of the host. It accepts one connection.
    pub fn lead_to(self, host: (&str, u16)) -> io::Result<(String, u16)> {
        let host = (host.0.to_owned(), host.1);
        if self == Self::Plain {
            return Ok(host);
        }
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        sockopt::set_socket_recv_buffer_size(&listener, QUEUE)?;
        let port = listener.local_addr()?.port();
        thread::spawn(move || {
            let (near, _) = listener.accept()?;
            let far = TcpStream::connect(host)?;
            let (mut back, mut to) = (far.try_clone()?, near.try_clone()?);
            thread::spawn(move || {
                let _ = io::copy(&mut back, &mut to);
                to.shutdown(Shutdown::Both)
            });
            // Close both ends, however the transfer ended.
            let _ = self.pass(&near, &far);
            let _ = near.shutdown(Shutdown::Both);
            far.shutdown(Shutdown::Both)
        });
        Ok(("127.0.0.1".to_owned(), port))
    }

    fn pass(self, mut near: &TcpStream, mut far: &TcpStream) -> io::Result<()> {
        let mut chunk = [0; CHUNK];
        let mut passed = 0;
        loop {
            let length = near.read(&mut chunk)?;
            passed += length as u64;
            match self {
                _ if length == 0 => return Ok(()),
                Self::Cut { after } if passed > after => return Ok(()),
                Self::Slow { bytes_per_second } => {
                    let micros = length as u64 * 1_000_000 / bytes_per_second.max(1);
                    thread::sleep(Duration::from_micros(micros));
                }
                _ => {}
            }
            far.write_all(&chunk[..length])?;
        }
    }
}
