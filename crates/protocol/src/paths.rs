//! The paths of files on a Windows node.
//!
//! All paths use backslashes, as Windows programs and the services document do; SFTP wants [`to_sftp`].

/// The agent's program.
pub const AGENT_EXE: &str = r"C:\k\windows-storage-agent.exe";
/// A copy of the agent that was there before, for as long as the new one has not proved itself and until the next comes.
pub const AGENT_PREVIOUS: &str = r"C:\k\windows-storage-agent.previous.exe";
/// The agent that was there before, in the very file that it may still run from.
pub const AGENT_RETIRED: &str = r"C:\k\windows-storage-agent.retired.exe";
/// The agent's own folder: requests, uploads, journal. Only SYSTEM and Administrators may use it.
pub const STATE_DIR: &str = r"C:\k\windows-storage";
/// Where SFTP puts what a request refers to.
pub const INCOMING_DIR: &str = r"C:\k\windows-storage\incoming";
/// What the names of requests' files begin with in [`INCOMING_DIR`]; the rest is another one for each connection, so that a
/// command which outlives its connection finds nothing of the next.
pub const REQUEST_PREFIX: &str = "request-";
/// The same for uploads of csi-proxy.
pub const CSI_PROXY_PREFIX: &str = "csi-proxy-";
/// The same for the agent's own program in [`BOOTSTRAP_DIR`].
pub const AGENT_PREFIX: &str = "agent-";
/// Where SFTP puts the agent itself, which the SSH user then runs: below a folder in which only administrators can
/// write, because the agent has not protected any folder of its own yet. In lower case for file systems that care.
pub const BOOTSTRAP_DIR: &str = r"C:\windows\windows-storage";
/// What the agent was doing when it ended, while it was doing something.
pub const JOURNAL_FILE: &str = r"C:\k\windows-storage\journal.json";
/// The request that the agent keeps the node to.
pub const DESIRED_FILE: &str = r"C:\k\windows-storage\desired.json";
/// What the agent remembers beyond the request: services that it made, restarts, the last result.
pub const STATE_FILE: &str = r"C:\k\windows-storage\state.json";
/// The folder of the programs.
pub const PROGRAM_DIR: &str = r"C:\k";
/// The agent's log files.
pub const AGENT_LOG_DIR: &str = r"C:\var\log\windows-storage-agent";
/// csi-proxy's program.
pub const CSI_PROXY_EXE: &str = r"C:\k\csi-proxy.exe";
/// csi-proxy's log folder; csi-proxy does not make it.
pub const CSI_PROXY_LOG_DIR: &str = r"C:\var\log\csi-proxy";
/// The agent's service name.
pub const AGENT_SERVICE: &str = "windows-storage-agent";
/// csi-proxy's service name, the one that WMCO uses.
pub const CSI_PROXY_SERVICE: &str = "csi-proxy";
/// The pipe over which the agent's command reaches the service of an agent of version 0.1, which always has this name.
pub const AGENT_PIPE: &str = r"\\.\pipe\windows-storage-agent";
/// The value of its own registry key in which the agent's service notes the name of its pipe: another one at each start, so
/// that nobody can take it first. Only administrators write there, and a full disk is no hindrance.
pub const PIPE_VALUE: &str = "Pipe";

/// Whether a file of [`INCOMING_DIR`] or [`BOOTSTRAP_DIR`] was brought for one reconcile alone.
#[must_use]
pub fn is_brought(name: &str) -> bool {
    let prefixes = [REQUEST_PREFIX, CSI_PROXY_PREFIX, AGENT_PREFIX];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// The same path as SFTP servers on Windows take it: `C:/k/file`.
#[must_use]
pub fn to_sftp(windows_path: &str) -> String {
    windows_path.replace('\\', "/")
}
