//! The faults of a simulated host, and counters of what it has received.

use std::time::Duration;

use super::agent::Printed;

/// `PowerShell`'s output if its standard error is not a terminal.
const CLIXML: &str = "#< CLIXML\r\n<Objs Version=\"1.1.0.1\" \
    xmlns=\"http://schemas.microsoft.com/powershell/2004/04\"></Objs>";

/// When a connection is cut, relative to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After the request has arrived, before it is carried out.
    Before,
    /// After the request was carried out; the answer is lost.
    After,
}

/// How a host greets clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Greeting {
    /// As a current SSH server.
    #[default]
    Modern,
    /// As a server that offers only algorithms broken long ago: SHA-1 and CBC.
    Weak,
    /// Accepts connections but never sends anything.
    Silent,
    /// Sends endless data in place of a greeting.
    Flood,
}

/// How a host answers commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Speech {
    /// The agent's answer, unchanged.
    #[default]
    Plain,
    /// A banner and a byte-order mark before the answer, a prompt after it, and `PowerShell`'s CLIXML on stderr.
    Noisy,
    /// The answer, with an exit status for failure.
    ExitStatus(u32),
    /// Only this many bytes of the answer.
    Cut(usize),
    /// This text in place of the answer.
    Instead(String),
    /// These bytes on standard error, and this exit status.
    Refusal(Vec<u8>, u32),
    /// Output that never ends.
    Endless,
    /// One byte of a stream that is neither standard output nor standard error, and then nothing.
    Stray,
}

impl Speech {
    /// Returns the output that the client receives. The server itself handles `Endless`.
    pub fn spoken(&self, mut printed: Printed) -> Printed {
        let is_answer = printed.stdout.starts_with(b"{");
        match self {
            Self::Plain | Self::Endless | Self::Stray => {}
            // Windows' own programs print as always.
            Self::Cut(_) | Self::Instead(_) if !is_answer => {}
            Self::Noisy => {
                printed.stdout = [
                    "Microsoft Windows [Version 10.0.20348.2700]\r\n\r\n\u{feff}".as_bytes(),
                    &printed.stdout,
                    b"\r\nPS C:\\Users\\Administrator> ",
                ]
                .concat();
                printed.stderr.extend(CLIXML.as_bytes());
            }
            Self::ExitStatus(status) => printed.status = *status,
            Self::Cut(length) => printed.stdout.truncate(*length),
            Self::Instead(text) => printed.stdout = text.clone().into_bytes(),
            Self::Refusal(text, status) => {
                printed = Printed {
                    stdout: Vec::new(),
                    stderr: text.clone(),
                    status: *status,
                }
            }
        }
        printed
    }
}

/// The faults of a host.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Additional latency of each request.
    pub latency: Duration,
    /// Network distance: the delay of every byte in each direction. A round trip takes twice this, including that of
    /// the TCP handshake.
    pub distance: Duration,
    /// How the host greets clients.
    pub greeting: Greeting,
    /// Refuses all keys.
    pub refuses_logins: bool,
    /// How the host answers commands.
    pub speech: Speech,
    /// Output of the shell before everything else, also before SFTP, in the machine's code page
    /// (PowerShell/Win32-OpenSSH#1674, #1768).
    pub shell_prints: Vec<u8>,
    /// Commands start, but do not end before [`super::SimulatedHost::release`].
    pub holds_commands: bool,
    /// How long csi-proxy is stopped while the agent applies a change to a working one.
    pub interruption: Duration,
    /// The power is cut in the middle of the next `apply`.
    pub reboot_in_apply: bool,
    /// Number of the request that is held until [`super::SimulatedHost::release`].
    pub(super) hold: Option<u64>,
    /// Number of the request at which the connection is cut.
    pub(super) cut: Option<(u64, Moment)>,
}

/// What a host has received since it was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Total number of connections.
    pub connections: u64,
    /// Current number of connections.
    pub connections_now: u64,
    /// Maximum number of concurrent connections.
    pub connections_most: u64,
    /// Successful logins.
    pub logins: u64,
    /// Requests: the connection, login attempts, channels, commands, SFTP packets.
    pub requests: u64,
    /// Commands that were run.
    pub commands: u64,
    /// Files that were opened for writing.
    pub uploads: u64,
    /// Bytes received on the wire.
    pub bytes_received: u64,
    /// Whether the host accepts new connections.
    pub listening: bool,
    /// Requests and commands that are currently held.
    pub held: u64,
}
