//! Sets up how this process ends, who can read its memory, and how much memory it keeps; reads its clocks.

use std::io::Write;
use std::time::Duration;

/// The exit status after a panic, which is Rust's own.
const PANICKED: i32 = 101;

/// Sets up the whole process. Must be called first, before there are other threads.
pub fn set_up() {
    #[cfg(unix)]
    forbid_dumps();
    end_on_panic();
    keep_little_memory();
}

/// Keeps the kernel from dumping the process's memory, and processes of the same user from reading it: it contains an SSH
/// key, tokens and passphrases. Processes with `CAP_SYS_PTRACE` can still read it.
#[cfg(unix)]
fn forbid_dumps() {
    use rustix::process::{Resource, Rlimit, setrlimit};

    // No kernel refuses either call: both only reduce what is allowed.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, none);
}

/// Ends the process at the first panic in any task or thread: the rest would continue with a part missing.
fn end_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let place = place.as_deref().unwrap_or("an unknown place");
        // Not the message: it may contain a key.
        if tracing::enabled!(tracing::Level::ERROR) {
            tracing::error!(place, "the program has a bug and ends: panicked at {place}");
        } else {
            let line = format!("error: the program has a bug and ends: panicked at {place}\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
        // SAFETY: `_exit` takes any number and does not return. exit(3) would clean up OpenSSL while other threads use it.
        unsafe { libc::_exit(PANICKED) }
    }));
}

/// Makes glibc keep little freed memory. By default it has an arena per thread, and keeps more the larger the freed blocks
/// were: four times what is in use, on a cluster of 20,000 pods.
fn keep_little_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in [
        (libc::M_ARENA_MAX, 1),
        (libc::M_TRIM_THRESHOLD, 128 * 1024),
        (libc::M_MMAP_THRESHOLD, 64 * 1024),
    ] {
        // SAFETY: mallopt takes any numbers and does not change existing allocations. If it fails, the default stays.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Returns whole free pages to the system, which takes a few milliseconds.
pub fn give_back_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim may be called at any time from any thread and does not change existing allocations.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// Returns the time since the machine booted, including time in which it slept or this process was stopped. The other
/// clocks of the standard library stand still while a machine sleeps, and the wall clock can be set.
#[cfg(unix)]
pub fn since_boot() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    // On macOS, this clock continues during sleep.
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    // Neither is ever negative.
    clock_gettime(clock).try_into().unwrap_or_default()
}

/// Returns the time since the first call: the standard library's clock continues while Windows sleeps.
#[cfg(windows)]
pub fn since_boot() -> Duration {
    use std::sync::LazyLock;
    use std::time::Instant;

    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    FIRST.elapsed()
}

/// Returns how long this thread has used a core.
#[cfg(unix)]
pub fn processor_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    used.try_into().unwrap_or_default()
}

/// Returns the time on the clock, which stands in for how long this thread has used a core.
#[cfg(windows)]
pub fn processor_time() -> Duration {
    since_boot()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// The panic that the child process causes.
    const CASE: &str = "PANIC_CASE";
    const SECRET: &str = "hunter2";

    /// Does nothing by itself: the test below runs it as a child process.
    #[test]
    fn in_a_process_of_its_own() {
        let Ok(case) = std::env::var(CASE) else {
            return;
        };
        end_on_panic();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            if case == "task with a log in JSON" {
                tracing_subscriber::fmt()
                    .json()
                    .with_writer(std::io::stderr)
                    .init();
                drop(tokio::spawn(async { panic!("{SECRET}") }));
            } else {
                drop(tokio::task::spawn_blocking(|| panic!("{SECRET}")));
            }
            std::future::pending::<()>().await;
        });
    }

    #[test]
    fn a_panic_in_any_task_or_thread_ends_the_process_with_one_line_that_names_the_place() {
        for (case, start) in [
            ("task with a log in JSON", "{\"timestamp\":"),
            (
                "thread",
                "error: the program has a bug and ends: panicked at",
            ),
        ] {
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["process::tests::in_a_process_of_its_own", "--exact"])
                .args(["--nocapture", "--test-threads=1"])
                .env(CASE, case)
                .output()
                .unwrap();
            let logged = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(PANICKED), "{case}: {logged}");
            assert!(logged.starts_with(start), "{case}: {logged}");
            assert!(logged.contains("src/process.rs:"), "{case}: {logged}");
            assert_eq!(logged.lines().count(), 1, "{case}: {logged}");
            assert!(!logged.contains(SECRET), "{case}: {logged}");
        }
    }
}
