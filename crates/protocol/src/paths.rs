//! The paths of files on a Windows node.
//!
//! All paths use backslashes, as Windows programs and the services document do. For SFTP, convert them with [`to_sftp`].

/// The agent's program.
pub const AGENT_EXE: &str = r"C:\k\windows-storage-agent.exe";
/// A copy of the previous agent, for rollback. The next install replaces it.
pub const AGENT_PREVIOUS: &str = r"C:\k\windows-storage-agent.previous.exe";
/// The previous agent's own file, renamed because it may still be running.
pub const AGENT_RETIRED: &str = r"C:\k\windows-storage-agent.retired.exe";
/// The agent's own folder for requests, uploads and the journal. Only SYSTEM and Administrators have access.
pub const STATE_DIR: &str = r"C:\k\windows-storage";
/// The folder for files that SFTP uploads for a request.
pub const INCOMING_DIR: &str = r"C:\k\windows-storage\incoming";
/// The prefix of request files in [`INCOMING_DIR`]. The rest of the name differs for each connection, so that a command
/// that outlives its connection cannot read the files of the next.
pub const REQUEST_PREFIX: &str = "request-";
/// The prefix of csi-proxy uploads in [`INCOMING_DIR`].
pub const CSI_PROXY_PREFIX: &str = "csi-proxy-";
/// The prefix of agent programs in [`BOOTSTRAP_DIR`].
pub const AGENT_PREFIX: &str = "agent-";
/// The folder for the uploaded agent, which the SSH user then runs. Only administrators can write to its parent: the agent
/// has not protected a folder of its own yet. Lower case, for case-sensitive file systems.
pub const BOOTSTRAP_DIR: &str = r"C:\windows\windows-storage";
/// The operation in progress. The file exists only during an operation.
pub const JOURNAL_FILE: &str = r"C:\k\windows-storage\journal.json";
/// The request that the agent enforces.
pub const DESIRED_FILE: &str = r"C:\k\windows-storage\desired.json";
/// Agent state beyond the request: restarts, the last result.
pub const STATE_FILE: &str = r"C:\k\windows-storage\state.json";
/// The folder of the agent's and csi-proxy's programs.
pub const PROGRAM_DIR: &str = r"C:\k";
/// The folder of the agent's log files.
pub const AGENT_LOG_DIR: &str = r"C:\var\log\windows-storage-agent";
/// csi-proxy's program.
pub const CSI_PROXY_EXE: &str = r"C:\k\csi-proxy.exe";
/// The program that was in that place before the current one.
pub const CSI_PROXY_PREVIOUS: &str = r"C:\k\csi-proxy.exe.previous";
/// csi-proxy's log folder. csi-proxy does not create it.
pub const CSI_PROXY_LOG_DIR: &str = r"C:\var\log\csi-proxy";
/// The agent's service name.
pub const AGENT_SERVICE: &str = "windows-storage-agent";
/// csi-proxy's service name, the same as WMCO's.
pub const CSI_PROXY_SERVICE: &str = "csi-proxy";
/// Whether a file in [`INCOMING_DIR`] or [`BOOTSTRAP_DIR`] was uploaded for a single reconcile.
pub fn is_brought(name: &str) -> bool {
    let prefixes = [REQUEST_PREFIX, CSI_PROXY_PREFIX, AGENT_PREFIX];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the command line of the agent's service for an agent at this path, exactly as the agent configures it: Windows
/// keeps it as `ImagePath` in the service's registry key, which only administrators can write.
pub fn agent_service_command(program: &str) -> String {
    format!("{program} service")
}

/// Converts a path for SFTP servers on Windows: `C:/k/file`.
pub fn to_sftp(windows_path: &str) -> String {
    windows_path.replace('\\', "/")
}
