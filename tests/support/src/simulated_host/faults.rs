//! The faults of a simulated host, and counters of what it received.

use std::time::Duration;

use super::agent::Printed;

/// What `PowerShell` prints when its standard error is no terminal.
const CLIXML: &str = "#< CLIXML\r\n<Objs Version=\"1.1.0.1\" \
    xmlns=\"http://schemas.microsoft.com/powershell/2004/04\"></Objs>";

/// When a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The request has arrived and nothing was done.
    Before,
    /// The request was carried out and the answer is lost.
    After,
}

/// How a host meets those who connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Greeting {
    /// As an SSH server of today.
    #[default]
    Modern,
    /// As one that offers only what was broken long ago: SHA-1 and CBC.
    Weak,
    /// It takes connections and never says a word.
    Silent,
    /// It sends for ever where a greeting should be.
    Flood,
}

/// How a host answers commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Speech {
    /// As the agent answers.
    #[default]
    Plain,
    /// With a banner and a byte-order mark before the answer, a prompt after it, and `PowerShell`'s CLIXML on standard
    /// error.
    Noisy,
    /// The answer, and an exit status that means failure.
    ExitStatus(u32),
    /// Only so many bytes of the answer.
    Cut(usize),
    /// This text in place of the answer.
    Instead(String),
    /// These bytes on standard error, and that exit status.
    Refusal(Vec<u8>, u32),
    /// Output that never ends.
    Endless,
}

impl Speech {
    /// What the client gets; `Endless` is the server's to do.
    #[must_use]
    pub fn spoken(&self, mut printed: Printed) -> Printed {
        match self {
            Self::Plain | Self::Endless => {}
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

/// What is wrong with a host.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// How long each request takes besides the work.
    pub latency: Duration,
    /// How far away it is: every byte arrives so much later, in each direction. A round trip takes twice this, the one
    /// that makes a connection included.
    pub distance: Duration,
    /// How it meets those who connect.
    pub greeting: Greeting,
    /// It knows no key.
    pub refuses_logins: bool,
    /// How it answers commands.
    pub speech: Speech,
    /// What the shell prints before all else, also before SFTP, in the machine's code page
    /// (PowerShell/Win32-OpenSSH#1674, #1768).
    pub shell_prints: Vec<u8>,
    /// How long the agent waits for a file of which nothing comes, where it is not as long as the real one's.
    pub patience: Option<Duration>,
    /// Commands start and do not end before [`super::SimulatedHost::release`].
    pub holds_commands: bool,
    /// How long csi-proxy is stopped while the agent changes what works there.
    pub interruption: Duration,
    /// The power is cut in the middle of the next `apply`.
    pub reboot_in_apply: bool,
    /// The request, by its number, that is held until [`super::SimulatedHost::release`].
    pub(super) hold: Option<u64>,
    /// The request, by its number, that is answered by the end of the connection.
    pub(super) cut: Option<(u64, Moment)>,
}

/// What was seen on a host since it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections in all.
    pub connections: u64,
    /// Connections now.
    pub connections_now: u64,
    /// The most connections at one time.
    pub connections_most: u64,
    /// Logins that were let in.
    pub logins: u64,
    /// Requests: the connection, attempts to log in, channels, commands, SFTP packets.
    pub requests: u64,
    /// Commands that were run.
    pub commands: u64,
    /// Files that were opened for writing.
    pub uploads: u64,
    /// Bytes that came in, as they were on the wire.
    pub bytes_received: u64,
    /// Whether new connections are taken.
    pub listening: bool,
    /// Requests and commands that are held at this moment.
    pub held: u64,
}
