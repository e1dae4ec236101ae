//! One SSH session with a node. Everything here blocks, with a time limit.

use std::io::{ErrorKind, Read};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use ssh2::{Channel, Sftp};

use crate::lease::Fence;
use crate::node::socket;
use crate::node::{HostKey, NodeError, PrivateKey, Reason, algorithms};

/// What one operation on a connection may take.
pub const OPERATION: Duration = Duration::from_secs(60);
/// The most that a command may print on one stream, in bytes.
const OUTPUT: usize = 1024 * 1024;
/// How often the server hears from us while a command runs, so that nothing in between drops an idle connection.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// An SSH session.
pub struct Session {
    pub(super) ssh: ssh2::Session,
    pub(super) sftp: Option<Sftp>,
    /// The host key of the server.
    pub host_key: HostKey,
    /// The connection of `ssh`.
    socket: TcpStream,
    pub(super) keepalive: Duration,
    /// Nothing is changed on the node while this is closed.
    pub(super) fence: Fence,
    /// Whether the session is given up: nothing more will come from it.
    pub given_up: bool,
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
    /// Performs the SSH handshake and reads the host key, before anything secret is sent. Requests host keys of the
    /// `known` types first.
    ///
    /// A server that sends data forever without a greeting is not detected here: cut the connection from outside.
    pub fn shake_hands(
        stream: TcpStream,
        place: &str,
        known: &[String],
    ) -> Result<Self, NodeError> {
        let lost = |error: &dyn std::fmt::Display| unreachable(place, error);
        let socket = stream.try_clone().map_err(|error| lost(&error))?;
        let mut ssh = ssh2::Session::new().map_err(|error| lost(&error))?;
        ssh.set_timeout(milliseconds(OPERATION));
        ssh.set_tcp_stream(stream);
        algorithms::restrict(&ssh, known)?;
        ssh.handshake().map_err(|error| {
            let words = algorithms::disagreement(&error).map(str::to_owned);
            match words.or_else(|| said_instead(&ssh)) {
                Some(words) => Reason::Unreachable
                    .error(format!("no SSH connection to {place}: {words} ({error})")),
                None => lost(&error),
            }
        })?;
        let key = ssh.host_key().and_then(|(key, _)| HostKey::from_bytes(key));
        Ok(Self {
            host_key: key.ok_or_else(|| lost(&"the server showed no host key"))?,
            ssh,
            sftp: None,
            socket,
            keepalive: KEEPALIVE,
            fence: Fence::open(),
            given_up: false,
        })
    }

    /// Logs in, with the previous key if the host does not accept the current one yet. Returns the ID of the key that
    /// was accepted.
    pub fn login<'k>(&self, user: &str, key: &'k PrivateKey) -> Result<&'k str, NodeError> {
        match (self.login_with(user, key), key.previous()) {
            (Err(error), Some(Ok(previous))) if error.reason == Reason::LoginRefused => self
                .login_with(user, previous)
                .map(|()| previous.id())
                .map_err(|_| error),
            (done, _) => done.map(|()| key.id()),
        }
    }

    fn login_with(&self, user: &str, key: &PrivateKey) -> Result<(), NodeError> {
        /// libssh2's code for a private key that it cannot use.
        const UNUSABLE_KEY: i32 = -16;
        /// libssh2's code if the server rejects the key.
        const REFUSED: i32 = -18;
        /// libssh2's code if the server accepts the key but not the signature, or no longer answers.
        const NOT_TAKEN: i32 = -19;
        let (pem, passphrase) = (key.pem(), key.passphrase());
        let done = (self.ssh).userauth_pubkey_memory(user, None, pem, passphrase);
        done.map_err(|error| match error.code() {
            ssh2::ErrorCode::Session(UNUSABLE_KEY) if key.passphrase().is_some() => {
                key.invalid("is damaged, or is not opened by its passphrase")
            }
            ssh2::ErrorCode::Session(UNUSABLE_KEY) => {
                key.invalid("cannot be used by the SSH library")
            }
            ssh2::ErrorCode::Session(REFUSED) => refused(user, &error),
            ssh2::ErrorCode::Session(NOT_TAKEN) if !self.has_ended() => refused(user, &error),
            // For example after LoginGraceTime, if many nodes wait for a place.
            _ => Reason::Unreachable.error(format!(
                "the server ended the connection before the login of user {user}: {error}"
            )),
        })
    }

    /// Returns whether the server has ended the connection.
    fn has_ended(&self) -> bool {
        socket::has_ended(&self.socket)
    }

    /// Runs a command and waits for it to end, for at most `limit`.
    pub fn run(&mut self, command: &str, limit: Duration) -> Result<Output, NodeError> {
        let deadline = Instant::now() + limit;
        let mut channel = self.ssh.channel_session().map_err(|error| {
            self.give_up();
            Reason::TransferFailed.error(format!(
                "the server opens no channel for a command: {error}; if it says so each time, look at MaxSessions in \
                 sshd_config on the node"
            ))
        })?;
        self.check_lease()?;
        let started = channel.exec(command).map_err(std::io::Error::from);
        let output = started.and_then(|()| self.finish(&mut channel, deadline));
        output.map_err(|error| {
            // This must precede the drop of the channel, which would wait for the command to end.
            self.give_up();
            match error.kind() {
                ErrorKind::TimedOut if Instant::now() >= deadline => {
                    let problem = format!("no end within {} s", limit.as_secs());
                    lost_in(command, &problem)
                }
                _ => lost_in(command, &error),
            }
        })
    }

    /// Runs a command that only reads. Runs it once more if it prints nothing: a busy Windows does not start every program.
    pub fn query(&mut self, command: &str, limit: Duration) -> Result<Output, NodeError> {
        let output = self.run(command, limit)?;
        if output.stdout.trim().is_empty() && output.stderr.trim().is_empty() {
            return self.run(command, limit);
        }
        Ok(output)
    }

    /// Gives the session up if this process is no longer the leader.
    pub(super) fn check_lease(&mut self) -> Result<(), NodeError> {
        self.fence.pass().map_err(|closed| {
            self.give_up();
            Reason::TransferFailed.error(closed.to_string())
        })
    }

    fn finish(&self, channel: &mut Channel, deadline: Instant) -> std::io::Result<Output> {
        // A command gets only arguments: standard input is not reliable with Windows' server.
        channel.send_eof()?;
        let stdout = self.read_all(&mut channel.stream(0), deadline)?;
        // Both end at one time, and libssh2 keeps as much of this one meanwhile as may be printed.
        let stderr = self.read_all(&mut channel.stderr(), deadline)?;
        self.ssh.set_timeout(milliseconds(OPERATION));
        channel.wait_close()?;
        Ok(Output {
            stdout,
            stderr,
            status: channel.exit_status()?,
        })
    }

    /// Reads a stream to its end.
    fn read_all(&self, stream: &mut ssh2::Stream, deadline: Instant) -> std::io::Result<String> {
        let mut read = Vec::new();
        let mut buffer = [0; 16 * 1024];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            // 0 would be no limit.
            let limit = milliseconds(left.min(self.keepalive)).max(1);
            self.ssh.set_timeout(limit);
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(String::from_utf8_lossy(&read).into_owned()),
                Ok(length) if read.len() + length > OUTPUT => {
                    let problem = format!("it prints more than {OUTPUT} bytes");
                    return Err(std::io::Error::other(problem));
                }
                Ok(length) => read.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::TimedOut => self.keep_alive()?,
                Err(error) => return Err(error),
            }
        }
    }

    fn keep_alive(&self) -> std::io::Result<()> {
        // libssh2 keeps its own clock; with an interval that is certainly over, it sends at once. Request no reply, because
        // libssh2 would only collect replies.
        self.ssh.set_keepalive(false, 1);
        self.ssh.keepalive_send()?;
        self.ssh.set_keepalive(false, 0);
        Ok(())
    }

    /// Ends the connection. After a failure, nothing that it delivers is of use, and closing a channel or a file would
    /// wait for answers.
    pub fn give_up(&mut self) {
        // It may be closed already.
        let _ = self.socket.shutdown(Shutdown::Both);
        self.ssh.set_timeout(1);
        self.given_up = true;
    }
}

/// Converts a limit to milliseconds for libssh2. A limit that is too long becomes the longest possible one, not none.
pub(super) fn milliseconds(limit: Duration) -> u32 {
    u32::try_from(limit.as_millis()).unwrap_or(u32::MAX)
}

/// Creates the error for a failed connection.
pub fn unreachable(place: &str, problem: &dyn std::fmt::Display) -> NodeError {
    Reason::Unreachable.error(format!(
        "no SSH connection to {place}: {problem}; check that the host is up, that sshd runs there and that no \
         firewall is in between"
    ))
}

/// Tells what a server sent instead of an SSH greeting.
fn said_instead(ssh: &ssh2::Session) -> Option<String> {
    let said = ssh.banner().filter(|line| !line.starts_with("SSH-"))?;
    Some(format!(
        "the server says \"{said}\" and ends it; it may refuse connections for a while, after failed logins \
         (PerSourcePenalties in sshd_config) or of too many at one time (MaxStartups)"
    ))
}

fn lost_in(command: &str, problem: &dyn std::fmt::Display) -> NodeError {
    Reason::TransferFailed.error(format!(
        "the connection was lost while the node carried out {command}: {problem}"
    ))
}

fn refused(user: &str, error: &ssh2::Error) -> NodeError {
    Reason::LoginRefused.error(format!(
        "the server refused the login of user {user}: {error}; check that the public key is in \
         C:\\ProgramData\\ssh\\administrators_authorized_keys on the node, and that ssh.user of the \
         node's pool, or else spec.ssh.user, names the right user"
    ))
}
