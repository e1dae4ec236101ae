//! One SSH connection to a node. Everything here blocks, and everything ends in time.

use std::cell::{Cell, RefCell};
use std::io::{ErrorKind, Read};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use ssh2::{BlockDirections, Channel, HostKeyType, Sftp};

pub use crate::node::line::{Cutter, Line, place, unreachable};

use crate::lease::Fence;
use crate::node::algorithms;
use crate::node::line::OPERATION;
use crate::node::private_key::invalid;
use crate::node::transfer::{Closing, Sent};
use crate::node::{HostKey, NodeError, PrivateKey, Reason};
use sink::Sink;

/// The most that a command may print on one stream, in bytes.
const OUTPUT: usize = 1024 * 1024;
/// How often the server hears from us while a command runs, so that nothing in between forgets the connection.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// An SSH connection.
pub struct Session {
    pub(super) ssh: ssh2::Session,
    /// Files that were closed and whose closing was not yet confirmed. Dropped before SFTP is.
    pub(super) closing: RefCell<Vec<Closing>>,
    pub(super) sftp: Option<Sftp>,
    /// The same connection as the session's.
    socket: TcpStream,
    keepalive: Duration,
    /// What is changed on the node goes past it.
    pub(super) fence: Fence,
    /// The shortest time in which the server has answered something.
    pub(super) round_trip: Cell<Duration>,
    /// The files that were sent so far.
    pub(super) sent: Cell<Sent>,
    /// What takes what libssh2 still sends after the session was given up.
    sink: RefCell<Option<Sink>>,
}

/// What a command printed.
pub struct Output {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The exit status.
    pub status: i32,
}

impl Session {
    /// Shakes hands and reads the host key; nothing secret has been sent then. Host keys of the `known` types are asked
    /// for first.
    ///
    /// A server that sends for ever without a greeting is not noticed here: cut the line from outside.
    pub fn shake_hands(line: Line, known: &[&str]) -> Result<(Self, HostKey), NodeError> {
        let Line { stream, place } = line;
        let lost = |error: &dyn std::fmt::Display| unreachable(&place, error);
        let socket = stream.try_clone().map_err(|error| lost(&error))?;
        let mut session = ssh2::Session::new().map_err(|error| lost(&error))?;
        session.set_timeout(milliseconds(OPERATION));
        session.set_tcp_stream(stream);
        algorithms::restrict(&session, known)?;
        session
            .handshake()
            .map_err(|error| match algorithms::disagreement(&error) {
                Some(words) => NodeError::new(
                    Reason::Unreachable,
                    format!("no SSH connection to {place}: {words} ({error})"),
                ),
                None => lost(&error),
            })?;
        let (bytes, kind) = session
            .host_key()
            .ok_or_else(|| lost(&"the server showed no host key"))?;
        let key = HostKey::new(key_type_name(kind), bytes);
        Ok((
            Self {
                ssh: session,
                closing: RefCell::default(),
                sftp: None,
                socket,
                keepalive: KEEPALIVE,
                fence: Fence::open(),
                round_trip: Cell::new(Duration::MAX),
                sent: Cell::default(),
                sink: RefCell::default(),
            },
            key,
        ))
    }

    /// Logs in.
    pub fn login(&self, user: &str, key: &PrivateKey) -> Result<(), NodeError> {
        /// libssh2's code for a private key that it cannot use.
        const UNUSABLE_KEY: i32 = -16;
        let done = self
            .ssh
            .userauth_pubkey_memory(user, None, key.pem(), key.passphrase());
        done.map_err(|error| match error.code() {
            ssh2::ErrorCode::Session(UNUSABLE_KEY) if key.passphrase().is_some() => {
                invalid("is damaged, or is not opened by the Secret's passphrase")
            }
            ssh2::ErrorCode::Session(UNUSABLE_KEY) => invalid("cannot be used by the SSH library"),
            _ => NodeError::new(
                Reason::LoginRefused,
                format!(
                    "the server refused the login of user {user}: {error}; check that the public key is in \
                     C:\\ProgramData\\ssh\\administrators_authorized_keys on the node, and that windows-instances or \
                     spec.ssh.user names the right user"
                ),
            ),
        })
    }

    /// Runs a command and waits for its end, at most for `limit`.
    pub fn run(&self, command: &str, limit: Duration) -> Result<Output, NodeError> {
        self.start(command)?.finish(self, limit)
    }

    /// Has a command start once all files are closed, and does not wait for word that it has: files can be brought meanwhile.
    pub fn start(&self, command: &str) -> Result<Running, NodeError> {
        self.start_in(self.open_channel()?, command)
    }

    /// Opens a channel for a command.
    pub(super) fn open_channel(&self) -> Result<Channel, NodeError> {
        self.ask(1, ssh2::Session::channel_session)
            .map_err(|error| {
                if !self.was_refused() {
                    self.give_up();
                }
                NodeError::new(
                    Reason::TransferFailed,
                    format!(
                        "the server opens no channel for a command: {error}; if it says so each time, look at MaxSessions in \
                         sshd_config on the node"
                    ),
                )
            })
    }

    /// Whether the last failure was the server's refusal to open a channel: then the connection is still there.
    fn was_refused(&self) -> bool {
        const CHANNEL_FAILURE: ssh2::ErrorCode = ssh2::ErrorCode::Session(-21);
        ssh2::Error::last_session_error(&self.ssh)
            .is_some_and(|error| error.code() == CHANNEL_FAILURE)
    }

    /// Like [`Session::start`], in a channel of its own that is open.
    pub(super) fn start_in(&self, channel: Channel, command: &str) -> Result<Running, NodeError> {
        let mut running = Running {
            channel,
            command: command.to_owned(),
            accepted: false,
        };
        self.confirm_closed()?;
        self.check_lease()?;
        let asked = self.without_waiting(|| running.channel.exec(command));
        let asked = asked.map_err(|error| {
            self.give_up();
            lost_in(command, &error)
        })?;
        running.accepted = asked.is_some();
        Ok(running)
    }

    /// Has libssh2 send something, and does not wait for the answer: `None` where it has not come. libssh2 sends nothing
    /// else before all of it is on its way.
    pub(super) fn without_waiting<T, E: Into<std::io::Error>>(
        &self,
        mut work: impl FnMut() -> Result<T, E>,
    ) -> std::io::Result<Option<T>> {
        let deadline = Instant::now() + OPERATION;
        self.ssh.set_blocking(false);
        let done = loop {
            match work().map_err(Into::into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => break done.map(Some),
            }
            if !self.is_sending() {
                break Ok(None);
            }
            let now = Instant::now();
            if now >= deadline {
                break Err(ErrorKind::TimedOut.into());
            }
            if let Err(error) = self.await_socket(deadline - now) {
                break Err(error);
            }
        };
        self.ssh.set_blocking(true);
        done
    }

    /// Asks the server for something that takes so many round trips, and has TCP confirm at once what comes before the
    /// answer: OpenSSH tells its host keys after a login, and its TCP keeps the answer back until it knows that they have
    /// arrived (RFC 896), which ours would let it know after 40 ms or more (RFC 1122, 4.2.3.2).
    pub(super) fn ask<T>(
        &self,
        round_trips: u32,
        mut request: impl FnMut(&ssh2::Session) -> Result<T, ssh2::Error>,
    ) -> std::io::Result<T> {
        let begin = Instant::now();
        let deadline = begin + OPERATION;
        loop {
            if let Some(answer) = self.without_waiting(|| request(&self.ssh))? {
                let round_trip = begin.elapsed() / round_trips;
                self.round_trip.set(self.round_trip.get().min(round_trip));
                return Ok(answer);
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(ErrorKind::TimedOut.into());
            }
            // The kernel forgets it with time. Without it all is only later.
            let _ = sockopt::set_tcp_quickack(&self.socket, true);
            self.await_socket(deadline - now)?;
        }
    }

    /// Has the session change something only from here on while the fence is open.
    pub fn go_past(&mut self, fence: Fence) {
        self.fence = fence;
    }

    /// Gives the session up where this process does not lead any more.
    pub(super) fn check_lease(&self) -> Result<(), NodeError> {
        self.fence.pass().map_err(|closed| {
            self.give_up();
            NodeError::new(Reason::TransferFailed, closed.to_string())
        })
    }

    /// Whether libssh2 could not hand over to the kernel all that it wanted to send.
    fn is_sending(&self) -> bool {
        matches!(
            self.ssh.block_directions(),
            BlockDirections::Outbound | BlockDirections::Both
        )
    }

    fn exchange(&self, running: &mut Running, deadline: Instant) -> std::io::Result<Output> {
        let channel = &mut running.channel;
        if !running.accepted {
            // Goes on where it was left: what it has sent it does not send again.
            channel.exec(&running.command)?;
        }
        // A command gets its arguments and nothing else: standard input of Windows' server is not to be trusted.
        channel.send_eof()?;
        self.ssh.set_blocking(false);
        let collected = self.collect(channel, deadline);
        self.ssh.set_blocking(true);
        let (stdout, stderr) = collected?;
        channel.wait_close()?;
        Ok(Output {
            stdout: lossy(&stdout),
            stderr: lossy(&stderr),
            status: channel.exit_status()?,
        })
    }

    /// Reads both streams to their end, whichever of them comes first: one that nobody reads would stop the other.
    fn collect(
        &self,
        channel: &mut Channel,
        deadline: Instant,
    ) -> std::io::Result<(Vec<u8>, Vec<u8>)> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut next_keepalive = Instant::now() + self.keepalive;
        loop {
            let more = drain(&mut channel.stream(0), &mut stdout)?
                | drain(&mut channel.stderr(), &mut stderr)?;
            if channel.eof() {
                return Ok((stdout, stderr));
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(ErrorKind::TimedOut.into());
            }
            if now >= next_keepalive {
                next_keepalive = now + self.keepalive;
                self.greet()?;
            }
            // Reading one stream also takes in what belongs to the other, which the socket then no longer tells of.
            if !more && channel.read_window().available == 0 {
                self.await_socket(deadline.min(next_keepalive) - now)?;
            }
        }
    }

    /// Sends something that asks for nothing.
    fn greet(&self) -> std::io::Result<()> {
        // libssh2 keeps its own clock; an interval that is surely over has it send at once. No reply is asked for:
        // libssh2 would only collect them.
        self.ssh.set_keepalive(false, 1);
        let sent = self.ssh.keepalive_send();
        self.ssh.set_keepalive(false, 0);
        sent.map(drop).map_err(Into::into)
    }

    fn await_socket(&self, limit: Duration) -> std::io::Result<()> {
        let wanted = match self.ssh.block_directions() {
            BlockDirections::Outbound => PollFlags::OUT,
            BlockDirections::Both => PollFlags::IN | PollFlags::OUT,
            BlockDirections::Inbound | BlockDirections::None => PollFlags::IN,
        };
        let limit = Timespec::try_from(limit).map_err(std::io::Error::other)?;
        match poll(&mut [PollFd::new(&self.socket, wanted)], Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Another time than 15 s between two signs of life.
    #[cfg(test)]
    pub(crate) fn greet_every(&mut self, keepalive: Duration) {
        self.keepalive = keepalive;
    }

    /// Has the end of the session not wait for the server's word: all that was asked of it is done.
    pub(super) fn leave(&self) {
        // libssh2 would keep what it could not end, did the connection only stay silent.
        let _ = self.socket.shutdown(Shutdown::Read);
        self.ssh.set_timeout(1);
    }

    /// Ends the connection. After a failure nothing that comes from it is of use, and what gives back a channel or a
    /// file would wait for answers.
    pub(super) fn give_up(&self) {
        self.cut();
        if let Some(sink) = &*self.sink.borrow() {
            sink.end();
        }
    }

    /// Whether the connection was ended from here.
    pub(super) fn is_given_up(&self) -> bool {
        self.sink.borrow().is_some()
    }

    /// Ends the connection, and has libssh2 go on with nobody: a packet that was sent by half has to be sent to its end,
    /// by the same call, before it sends anything else or gives the session back. [`Session::give_up`] has to follow.
    pub(super) fn cut(&self) {
        // It may be gone already.
        let _ = self.socket.shutdown(Shutdown::Both);
        // It goes on for this long with what it had not sent.
        self.ssh.set_timeout(1);
        if self.sink.borrow().is_none() {
            // Without one, 87 kB of memory stay.
            self.sink.replace(sink::put_in_place_of(&self.ssh).ok());
        }
    }
}

/// libssh2's word for what has to wait.
pub(super) const WOULD_BLOCK: ssh2::ErrorCode = ssh2::ErrorCode::Session(-37);

/// A command that was started. Where it is given up, the session has to be given up before: its channel would wait for
/// the command's end.
pub struct Running {
    channel: Channel,
    command: String,
    /// The server has said that it runs.
    accepted: bool,
}

impl Running {
    /// Waits for the command's end, at most for `limit`.
    pub fn finish(mut self, session: &Session, limit: Duration) -> Result<Output, NodeError> {
        let outcome = session.exchange(&mut self, Instant::now() + limit);
        outcome.map_err(|error| {
            // Before the channel is given back.
            session.give_up();
            match error.kind() {
                ErrorKind::TimedOut => {
                    let problem = format!("no end within {} s", limit.as_secs());
                    lost_in(&self.command, &problem)
                }
                _ => lost_in(&self.command, &error),
            }
        })
    }
}

fn lost_in(command: &str, problem: &dyn std::fmt::Display) -> NodeError {
    NodeError::new(
        Reason::TransferFailed,
        format!("the connection was lost while the node carried out {command}: {problem}"),
    )
}

/// Reads what is there; whether there was something.
fn drain(stream: &mut ssh2::Stream, into: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut buffer = [0; 16 * 1024];
    match stream.read(&mut buffer) {
        Ok(length) if into.len() + length > OUTPUT => Err(std::io::Error::other(format!(
            "it prints more than {OUTPUT} bytes"
        ))),
        Ok(length) => {
            into.extend_from_slice(&buffer[..length]);
            Ok(length > 0)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

fn milliseconds(limit: Duration) -> u32 {
    u32::try_from(limit.as_millis()).unwrap_or(u32::MAX)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn key_type_name(kind: HostKeyType) -> &'static str {
    match kind {
        HostKeyType::Rsa => "ssh-rsa",
        HostKeyType::Dss => "ssh-dss",
        HostKeyType::Ecdsa256 => "ecdsa-sha2-nistp256",
        HostKeyType::Ecdsa384 => "ecdsa-sha2-nistp384",
        HostKeyType::Ecdsa521 => "ecdsa-sha2-nistp521",
        HostKeyType::Ed25519 => "ssh-ed25519",
        HostKeyType::Unknown => "unknown",
    }
}

mod sink;

#[cfg(test)]
mod real_server;
