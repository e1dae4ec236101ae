//! Points at which a test lets the agent die, as a power failure would.
//!
//! The file `fault` in the agent's folder says where: a number, to die at the so manieth point that any of the agent's
//! processes reaches; or the beginning of a point's name, to die there every time. The points that are passed are listed
//! in `fault.trace`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Whether a test has Windows shut down: while the file `shutdown` is in the agent's folder.
#[must_use]
pub fn shuts_down() -> bool {
    fs::exists(format!(r"{STATE_DIR}\shutdown")).unwrap_or(false)
}

/// Stands still, while a test has the file `hang` in the agent's folder.
pub fn hang() {
    while fs::exists(format!(r"{STATE_DIR}\hang")).unwrap_or(false) {
        HANGS.store(true, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(100));
    }
    HANGS.store(false, Ordering::Relaxed);
}

/// Whether [`hang`] stands still.
#[must_use]
pub fn hangs() -> bool {
    HANGS.load(Ordering::Relaxed)
}

static HANGS: AtomicBool = AtomicBool::new(false);

/// Without a word to anybody: no destructor, no handler, no flush.
fn die() {
    // SAFETY: the pseudo-handle of the own process is always valid.
    unsafe { TerminateProcess(GetCurrentProcess(), 9) };
}
