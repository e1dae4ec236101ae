//! Points at which a test kills the agent, as a power failure would.
//!
//! The file `fault` in the agent's folder selects the point: a number n kills the agent once, at the n-th point that any of
//! its processes reaches; the beginning of a point's name kills it there every time. `fault.trace` lists the points passed.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::thread;
use std::time::Duration;

use protocol::paths::STATE_DIR;
use windows_sys::Win32::System::Threading::{GetCurrentProcess, TerminateProcess};

/// A point between two effects.
pub fn point(name: &str) {
    let file = format!(r"{STATE_DIR}\fault");
    let Ok(wanted) = fs::read_to_string(&file) else {
        return;
    };
    let wanted = wanted.trim();
    let trace = OpenOptions::new()
        .append(true)
        .create(true)
        .open(format!(r"{STATE_DIR}\fault.trace"));
    if let Ok(mut trace) = trace {
        let _ = writeln!(trace, "{name}");
    }
    match wanted.parse::<u32>() {
        Ok(1) => {
            let _ = fs::remove_file(&file);
            die();
        }
        Ok(left) => {
            let _ = fs::write(&file, left.saturating_sub(1).to_string());
        }
        Err(_) if name.starts_with(wanted) => die(),
        Err(_) => {}
    }
}

/// Returns whether a test simulates a shutdown of Windows: while the file `shutdown` exists in the agent's folder.
pub fn shuts_down() -> bool {
    fs::exists(format!(r"{STATE_DIR}\shutdown")).unwrap_or(false)
}

/// Blocks while the file `hang` exists in the agent's folder.
pub fn hang() {
    while fs::exists(format!(r"{STATE_DIR}\hang")).unwrap_or(false) {
        thread::sleep(Duration::from_millis(100));
    }
}

/// Ends the process without destructors, handlers or flushing.
fn die() {
    // SAFETY: the pseudo-handle of the own process is always valid.
    unsafe { TerminateProcess(GetCurrentProcess(), 9) };
}
