//! One SSH connection to a node. Everything here blocks, and everything ends in time.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use ssh2::{HostKeyType, MethodType, OpenFlags, OpenType, RenameFlags, Sftp};

use crate::node::{HostKey, NodeError, PrivateKey, Reason, SSH_SECRET};

const CONNECT: Duration = Duration::from_secs(10);
const OPERATION: Duration = Duration::from_secs(60);
/// What one SFTP write gets: packets are pipelined only within one write.
const CHUNK: usize = 4 * 1024 * 1024;
/// The most that a command may print.
const OUTPUT: u64 = 1024 * 1024;

/// SFTP status codes. Source: draft-ietf-secsh-filexfer-13, section 9.1, and libssh2's `libssh2_sftp.h`.
mod code {
    pub const NO_SUCH_FILE: i32 = 2;
    pub const PERMISSION_DENIED: i32 = 3;
    pub const NO_SUCH_PATH: i32 = 10;
    pub const NO_SPACE: i32 = 14;
    pub const QUOTA_EXCEEDED: i32 = 15;
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

/// A TCP connection to a node's SSH port.
pub struct Line {
    stream: TcpStream,
    place: String,
}

impl Line {
    /// Connects, and gives the means to end the connection from outside.
    pub fn open(address: &str, port: u16) -> Result<(Self, Cutter), NodeError> {
        let place = format!("{address}:{port}");
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

fn prepared(stream: TcpStream) -> std::io::Result<(TcpStream, Cutter)> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(OPERATION))?;
    stream.set_write_timeout(Some(OPERATION))?;
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

/// An SSH connection.
pub struct Session {
    session: ssh2::Session,
    sftp: Option<Sftp>,
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
    /// Shakes hands and reads the host key; nothing secret has been sent then. A pinned key's type is asked for first,
    /// so that a server with a further key does not look like another server.
    ///
    /// A server that sends for ever without a greeting is not noticed here: cut the line from outside.
    pub fn shake_hands(line: Line, pin: Option<&HostKey>) -> Result<(Self, HostKey), NodeError> {
        let Line { stream, place } = line;
        let mut session = ssh2::Session::new().map_err(|error| unreachable(&place, &error))?;
        session.set_timeout(milliseconds(OPERATION));
        session.set_tcp_stream(stream);
        if let Some(pin) = pin {
            // A preference that this library does not know leaves its own order, which is no worse.
            let _ = session.method_pref(MethodType::HostKey, &preferred_host_keys(pin.kind()));
        }
        session
            .handshake()
            .map_err(|error| unreachable(&place, &error))?;
        let (bytes, kind) = session
            .host_key()
            .ok_or_else(|| unreachable(&place, &"the server showed no host key"))?;
        let key = HostKey::new(key_type_name(kind), bytes);
        Ok((
            Self {
                session,
                sftp: None,
            },
            key,
        ))
    }

    /// Logs in.
    pub fn login(&self, user: &str, key: &PrivateKey) -> Result<(), NodeError> {
        /// libssh2's code for a private key that it cannot use.
        const UNUSABLE_KEY: i32 = -16;
        self.session
            .userauth_pubkey_memory(user, None, key.pem(), None)
            .map_err(|error| match error.code() {
                ssh2::ErrorCode::Session(UNUSABLE_KEY) => NodeError::new(
                    Reason::InvalidPrivateKey,
                    format!(
                        "the private key of Secret {SSH_SECRET} cannot be used: {}; store an RSA, ECDSA or Ed25519 key",
                        error.message()
                    ),
                ),
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

    /// Runs a command and waits for its end.
    pub fn run(&self, command: &str, limit: Duration) -> Result<Output, NodeError> {
        let failed = |problem: &dyn std::fmt::Display| {
            NodeError::new(
                Reason::TransferFailed,
                format!("the connection was lost while the node carried out {command}: {problem}"),
            )
        };
        self.session.set_timeout(milliseconds(limit));
        let outcome = (|| {
            let mut channel = self.session.channel_session()?;
            channel.exec(command)?;
            // A command gets its arguments and nothing else: standard input of Windows' server is not to be trusted.
            channel.send_eof()?;
            let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
            channel.stream(0).take(OUTPUT).read_to_end(&mut stdout)?;
            channel.stderr().take(OUTPUT).read_to_end(&mut stderr)?;
            channel.wait_close()?;
            let status = channel.exit_status()?;
            Ok::<_, std::io::Error>(Output {
                stdout: lossy(&stdout),
                stderr: lossy(&stderr),
                status,
            })
        })();
        self.session.set_timeout(milliseconds(OPERATION));
        outcome.map_err(|error| failed(&error))
    }

    /// Whether there is such a file.
    pub fn exists(&mut self, path: &str) -> Result<bool, NodeError> {
        let found = self.sftp()?.stat(Path::new(path));
        match found {
            Ok(_) => Ok(true),
            Err(error)
                if matches!(
                    sftp_code(&error),
                    Some(code::NO_SUCH_FILE | code::NO_SUCH_PATH)
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(transfer(path, &error)),
        }
    }

    /// Makes a folder and those above it.
    pub fn make_folders(&mut self, path: &str) -> Result<(), NodeError> {
        let ends = path
            .match_indices('/')
            .map(|(at, _)| at)
            .skip(1)
            .chain([path.len()]);
        for end in ends {
            let folder = &path[..end];
            if self.exists(folder)? {
                continue;
            }
            self.sftp()?
                .mkdir(Path::new(folder), 0o755)
                .map_err(|error| transfer(folder, &error))?;
        }
        Ok(())
    }

    /// Writes a file from the start. Its name must be one that nobody uses before it was verified.
    pub fn upload(&mut self, path: &str, content: &[u8]) -> Result<(), NodeError> {
        let session = self.session.clone();
        let sftp = self.sftp()?;
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
        let mut file = sftp
            .open_mode(Path::new(path), flags, 0o644, OpenType::File)
            .map_err(|error| transfer(path, &error))?;
        let mut sent = 0;
        while sent < content.len() {
            let next = &content[sent..content.len().min(sent + CHUNK)];
            match file.write(next) {
                Ok(0) => {
                    return Err(NodeError::new(
                        Reason::TransferFailed,
                        format!("{path}: the node takes no more data"),
                    ));
                }
                Ok(written) => sent += written,
                Err(error) if was_answered(&session) => {
                    // The server still answers: give back the space that the torso takes.
                    drop(file);
                    let _ = sftp.unlink(Path::new(path));
                    return Err(refused_write(path, sent, content.len(), &error));
                }
                Err(error) => {
                    let problem = format!(
                        "{path}: sending ended after {sent} of {} bytes: {error}",
                        content.len()
                    );
                    return Err(NodeError::new(Reason::TransferFailed, problem));
                }
            }
        }
        file.close().map_err(|error| transfer(path, &error))
    }

    /// Gives a file its name; what had that name before goes.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), NodeError> {
        if self.exists(to)? {
            self.sftp()?
                .unlink(Path::new(to))
                .map_err(|error| transfer(to, &error))?;
        }
        let flags = Some(RenameFlags::ATOMIC | RenameFlags::NATIVE);
        self.sftp()?
            .rename(Path::new(from), Path::new(to), flags)
            .map_err(|error| transfer(to, &error))
    }

    /// Removes a file if it is there.
    pub fn remove(&mut self, path: &str) -> Result<(), NodeError> {
        let removed = self.sftp()?.unlink(Path::new(path));
        match removed {
            Ok(()) => Ok(()),
            Err(error)
                if matches!(
                    sftp_code(&error),
                    Some(code::NO_SUCH_FILE | code::NO_SUCH_PATH)
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(transfer(path, &error)),
        }
    }

    fn sftp(&mut self) -> Result<&Sftp, NodeError> {
        if self.sftp.is_none() {
            let opened = self.session.sftp().map_err(|error| {
                NodeError::new(
                    Reason::TransferFailed,
                    format!("the server offers no SFTP: {error}; check the line \"Subsystem sftp\" in sshd_config on the node"),
                )
            })?;
            self.sftp = Some(opened);
        }
        match &self.sftp {
            Some(sftp) => Ok(sftp),
            None => Err(NodeError::new(
                Reason::TransferFailed,
                "the server offers no SFTP",
            )),
        }
    }
}

fn milliseconds(limit: Duration) -> u32 {
    u32::try_from(limit.as_millis()).unwrap_or(u32::MAX)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn sftp_code(error: &ssh2::Error) -> Option<i32> {
    match error.code() {
        ssh2::ErrorCode::SFTP(code) => Some(code),
        ssh2::ErrorCode::Session(_) => None,
    }
}

fn transfer(path: &str, error: &ssh2::Error) -> NodeError {
    let hint = match sftp_code(error) {
        Some(code::PERMISSION_DENIED) => "; the SSH user must be an administrator of the node",
        Some(code::NO_SPACE | code::QUOTA_EXCEEDED) => {
            return NodeError::new(
                Reason::DiskFull,
                format!("{path}: {error}; free some space on drive C:"),
            );
        }
        _ => "",
    };
    NodeError::new(Reason::TransferFailed, format!("{path}: {error}{hint}"))
}

/// Whether the last failure was an answer of the SFTP server and not the loss of the connection: the crate's
/// `io::Error` does not tell.
fn was_answered(session: &ssh2::Session) -> bool {
    const SFTP_PROTOCOL: i32 = -31;
    ssh2::Error::last_session_error(session)
        .is_some_and(|error| error.code() == ssh2::ErrorCode::Session(SFTP_PROTOCOL))
}

/// Windows' SFTP server has no code of its own for a full disk: a write that fails after the file could be opened is
/// one in all likelihood.
fn refused_write(path: &str, sent: usize, size: usize, error: &dyn std::fmt::Display) -> NodeError {
    NodeError::new(
        Reason::DiskFull,
        format!(
            "the node took {sent} of {size} bytes of {path} and then refused to write ({error}): in all likelihood no \
             space is left on drive C:; free some space. What ran on the node before still runs"
        ),
    )
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

fn preferred_host_keys(pinned: &str) -> String {
    const ALL: [&str; 6] = [
        "ssh-ed25519",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "rsa-sha2-512",
        "rsa-sha2-256",
    ];
    let is_pinned =
        |name: &str| name == pinned || (pinned == "ssh-rsa" && name.starts_with("rsa-"));
    let (first, rest): (Vec<&str>, Vec<&str>) = ALL.into_iter().partition(|name| is_pinned(name));
    first.into_iter().chain(rest).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pinned_type_is_asked_for_first_and_none_is_left_out() {
        assert!(
            preferred_host_keys("ssh-rsa").starts_with("rsa-sha2-512,rsa-sha2-256,ssh-ed25519")
        );
        assert!(
            preferred_host_keys("ecdsa-sha2-nistp384")
                .starts_with("ecdsa-sha2-nistp384,ssh-ed25519")
        );
        assert_eq!(preferred_host_keys("nonsense").split(',').count(), 6);
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
