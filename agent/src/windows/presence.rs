//! What the service tells of itself, in its own registry key: only administrators can write there, and a write needs no room
//! on the disk.

use std::time::Duration;

use protocol::paths::AGENT_SERVICE;
use windows_sys::Win32::System::SystemInformation::GetTickCount64;

use super::process::Process;
use super::{log, registry};

/// The value with the SHA-256 of the program that the service runs.
const PROGRAM: &str = "Program";
/// The value with the time of its last heartbeat, in seconds since Windows started.
const HEARTBEAT: &str = "Heartbeat";
/// How often the thread that does all work records a heartbeat.
pub const BEAT: Duration = Duration::from_secs(if cfg!(feature = "fault-injection") {
    1
} else {
    60
});
/// Longer than any single wait of that thread, such as for the start of csi-proxy.
const STUCK: u64 = if cfg!(feature = "fault-injection") {
    5
} else {
    600
};

/// Records the program that the service runs.
pub fn set_program(sha256: &str) -> std::io::Result<()> {
    registry::set_text(AGENT_SERVICE, PROGRAM, sha256)
}

/// Returns the SHA-256 of the program that the service runs, or ran last.
pub fn program() -> Option<String> {
    let sha256 = registry::text(AGENT_SERVICE, PROGRAM).ok();
    sha256.filter(|sha256| !sha256.is_empty())
}

/// Records a heartbeat.
pub fn beat() {
    let beaten = registry::set_text(AGENT_SERVICE, HEARTBEAT, &uptime().to_string());
    log::unless_ok("recording a heartbeat", beaten);
}

/// Returns why a service that Windows shows as running, with this process, does no work.
pub fn problem(process: Option<u32>) -> Option<String> {
    if process.is_none_or(Process::is_gone) {
        return Some("its process has ended".to_owned());
    }
    let beaten = registry::text(AGENT_SERVICE, HEARTBEAT).ok();
    let Some(beaten) = beaten.and_then(|beaten| beaten.parse().ok()) else {
        // An older agent still runs, which records none.
        return Some("it has recorded no heartbeat".to_owned());
    };
    let still = uptime().saturating_sub(beaten);
    (still > STUCK).then(|| format!("it has been stuck for {still} s"))
}

fn uptime() -> u64 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { GetTickCount64() / 1000 }
}
