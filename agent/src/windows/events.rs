//! Writes to the Windows event log under the agent's own name.

use std::io;
use std::ptr::{null, null_mut};

use protocol::paths::AGENT_SERVICE;
use windows_storage_agent::events::Event;
use windows_sys::Win32::System::EventLog::{
    DeregisterEventSource, RegisterEventSourceW, ReportEventW,
};

use super::win32::{check, wide};
use super::{log, registry};

/// The registry key of the agent's event source, relative to the keys of services.
const SOURCE: &str = r"EventLog\Application\windows-storage-agent";
/// Windows' own message table for programs without one: each message is just its text.
const MESSAGES: &str = r"C:\Windows\System32\EventCreate.exe";
/// Errors, warnings, information.
const TYPES: u32 = 7;
/// Slightly below the longest text that Windows accepts.
const LONGEST: usize = 8000;

/// Registers the event source, so that viewers find the texts.
pub fn install() {
    let installed = registry::set_text(SOURCE, "EventMessageFile", MESSAGES)
        .and_then(|()| registry::set_number(SOURCE, "TypesSupported", TYPES));
    log::unless_ok("registering with the event log", installed);
}

/// Removes the registration.
pub fn uninstall() {
    log::unless_ok("leaving the event log", registry::remove(SOURCE));
}

/// Writes an event. A failure is only logged: the agent's own log has more detail.
pub fn report(event: Event, text: &str) {
    log::unless_ok("writing to the event log", try_report(event, text));
}

fn try_report(event: Event, text: &str) -> io::Result<()> {
    let text: String = text.chars().take(LONGEST).collect();
    let (name, text) = (wide(AGENT_SERVICE), wide(&text));
    // SAFETY: the name is nul-terminated; null stands for this machine.
    let source = unsafe { RegisterEventSourceW(null(), name.as_ptr()) };
    if source.is_null() {
        return Err(io::Error::last_os_error());
    }
    let texts = [text.as_ptr()];
    let level = event.level() as u16;
    // SAFETY: the source is open; there is one nul-terminated text and no data.
    let reported = check(unsafe {
        ReportEventW(
            source,
            level,
            0,
            event.id(),
            null_mut(),
            1,
            0,
            texts.as_ptr(),
            null(),
        )
    });
    // SAFETY: we opened the source, and it is closed once.
    unsafe { DeregisterEventSource(source) };
    reported
}
