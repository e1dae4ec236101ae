//! A panic is a fault of this program. In whatever task or thread it happens, it ends the process, with one line that
//! says where: what would be left goes on with a part missing, and nobody would see.

use std::any::Any;
use std::io::Write;
use std::panic::{Location, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::visible::visible;

/// The exit status after a panic, Rust's own.
pub const STATUS: i32 = 101;
/// How long telling may take. Who reads the log may have stopped, and what it goes through may be what has failed.
const TELLING: Duration = Duration::from_secs(2);
/// No message is told further than this, in characters.
const LONGEST: usize = 300;
/// What stands before a value in the messages of Rust's own library and of most others.
const BEFORE_VALUES: [&str; 6] = [": ", "\n", "\"", "'", " of `", " slicing `"];

/// From now on a panic in any thread ends the process.
pub fn end_the_process() {
    std::panic::set_hook(Box::new(end));
}

fn end(panic: &PanicHookInfo<'_>) {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    if IS_TOLD.swap(true, Ordering::SeqCst) {
        // Another thread was first. It ends the process, and the first panic is the one to look at.
        loop {
            thread::park();
        }
    }
    // Where not even a thread can be had, the message matters more than its bound.
    let _ = thread::Builder::new().spawn(|| {
        thread::sleep(TELLING);
        exit();
    });
    tell(panic.payload(), panic.location());
    exit();
}

/// At once: what runs at a usual end could wait for what the panic has left behind, and cleans up after OpenSSL while
/// other threads use it.
fn exit() -> ! {
    // SAFETY: _exit takes any number, and does not return.
    unsafe { libc::_exit(STATUS) }
}

fn tell(payload: &(dyn Any + Send), location: Option<&Location<'_>>) {
    let message = message(payload);
    let place = location.map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let current = thread::current();
    let thread = visible(current.name().unwrap_or("without a name"));
    if tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!(
            thread,
            place,
            "the program has a fault and ends: panicked: {message}"
        );
    } else {
        let line =
            format!("error: the program has a fault and ends: panicked at {place}: {message}\n");
        // Who reads it may be gone.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    // Only where the environment asks for one.
    let backtrace = std::backtrace::Backtrace::capture();
    if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
        let _ = writeln!(std::io::stderr(), "{backtrace}");
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    let message = if let Some(text) = payload.downcast_ref::<&'static str>() {
        // As it stands in the source.
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        without_values(text)
    } else {
        "without a message".to_owned()
    };
    let message = visible(&message);
    match message.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message,
    }
}

/// What was put into a message may be anything that was at hand, a key as well. It is told up to the first value; the
/// place tells the rest.
fn without_values(text: &str) -> String {
    let ends = BEFORE_VALUES.iter().filter_map(|before| text.find(before));
    match ends.min() {
        Some(end) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Output, Stdio};
    use std::sync::Barrier;
    use std::time::Instant;

    use super::*;
    use crate::tasks;

    const SECRET: &str = "hunter2";

    /// Which of these a test runs in a process of its own.
    const CASE: &str = "PANICS_CASE";

    fn in_a_process(case: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["panics::tests::in_a_process_of_its_own", "--exact"])
            .args(["--nocapture", "--test-threads=1"])
            .env(CASE, case)
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::null());
        command
    }

    fn ended(case: &str) -> (Option<i32>, String) {
        let Output { status, stderr, .. } = in_a_process(case).output().unwrap();
        (status.code(), String::from_utf8(stderr).unwrap())
    }

    fn log_as_json() {
        tracing_subscriber::fmt()
            .json()
            .with_writer(std::io::stderr)
            .init();
    }

    /// Nothing by itself: the tests below have it end in each way.
    #[test]
    fn in_a_process_of_its_own() {
        let Ok(case) = std::env::var(CASE) else {
            return;
        };
        end_the_process();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        match case.as_str() {
            "plain" => {
                let read = |text: String| -> Result<(), String> { Err(text) };
                read(format!("{SECRET}\u{1b}[31m")).unwrap();
            }
            "task" => {
                log_as_json();
                runtime.block_on(async {
                    // Nobody waits for it.
                    drop(tasks::spawn(async { panic!("line\none\u{1b}") }));
                    std::future::pending::<()>().await;
                });
            }
            "blocking" => runtime.block_on(async {
                drop(tasks::blocking(|| panic!("in a thread")));
                std::future::pending::<()>().await;
            }),
            "ended" => runtime.block_on(async {
                let mut group = tasks::Tasks::new();
                group.spawn(tasks::lasting("a watch", async {}));
                std::future::pending::<()>().await;
            }),
            "all" => {
                let barrier = Barrier::new(8);
                thread::scope(|scope| {
                    for _ in 0..8 {
                        scope.spawn(|| {
                            barrier.wait();
                            panic!("one of many")
                        });
                    }
                });
            }
            "twice" => {
                struct Again;
                impl Drop for Again {
                    fn drop(&mut self) {
                        panic!("again");
                    }
                }
                let _again = Again;
                panic!("once");
            }
            "unread" => {
                // Nobody reads what is told, and the pipe is full.
                let filler = [b'x'; 4096];
                drop(thread::spawn(move || {
                    while std::io::stderr().write_all(&filler).is_ok() {}
                }));
                thread::sleep(Duration::from_millis(300));
                panic!("unheard");
            }
            other => unreachable!("{other}"),
        }
    }

    #[test]
    fn a_panic_says_where_and_never_what_was_at_hand() {
        let (status, told) = ended("plain");
        assert_eq!(status, Some(STATUS), "{told}");
        assert!(told.contains("panicked at src/panics.rs:"), "{told}");
        assert!(
            told.contains("called `Result::unwrap()` on an `Err` value…\n"),
            "{told}"
        );
        assert!(!told.contains(SECRET) && !told.contains('\u{1b}'), "{told}");
    }

    #[test]
    fn a_panic_in_a_task_for_which_nobody_waits_is_one_line_of_the_log() {
        let (status, told) = ended("task");
        assert_eq!(status, Some(STATUS), "{told}");
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines.len(), 1, "{told}");
        let line: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
        assert_eq!(line["level"], "ERROR");
        let fields = &line["fields"];
        let message = fields["message"].as_str().unwrap();
        assert!(
            message.ends_with("panicked: line\\u{a}one\\u{1b}"),
            "{told}"
        );
        assert_eq!(fields["thread"], "tokio-rt-worker");
        assert!(
            fields["place"]
                .as_str()
                .unwrap()
                .starts_with("src/panics.rs:")
        );
    }

    #[test]
    fn a_panic_in_a_thread_beside_tasks_ends_the_process() {
        let (status, told) = ended("blocking");
        assert_eq!(status, Some(STATUS), "{told}");
        assert!(told.contains("in a thread"), "{told}");
    }

    #[test]
    fn the_end_of_a_task_that_lasts_is_a_fault() {
        let (status, told) = ended("ended");
        assert_eq!(status, Some(STATUS), "{told}");
        assert!(
            told.contains("a watch has ended, which it never does"),
            "{told}"
        );
    }

    #[test]
    fn of_many_panics_at_once_and_of_a_second_one_the_first_is_told_and_nothing_hangs() {
        for case in ["all", "twice"] {
            let (status, told) = ended(case);
            assert_eq!(status, Some(STATUS), "{told}");
            assert_eq!(told.matches("panicked").count(), 1, "{told}");
        }
    }

    #[test]
    fn a_log_that_nobody_reads_does_not_hold_up_the_end() {
        let mut child = in_a_process("unread")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Held and not read.
        let _stderr = child.stderr.take();
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "it hangs");
            thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(status.code(), Some(STATUS));
    }

    #[test]
    fn values_are_left_out_of_messages_and_messages_are_bounded() {
        let told = |text: &str| message(&text.to_owned());
        for (text, expected) in [
            (
                "index out of bounds: the len is 3 but the index is 5",
                "index out of bounds…",
            ),
            ("the key: hunter2", "the key…"),
            (
                "byte index 1 is out of bounds of `hunter2`",
                "byte index 1 is out of bounds…",
            ),
            (
                "begin <= end (4 <= 2) when slicing `hunter2`",
                "begin <= end (4 <= 2) when…",
            ),
            (
                "byte index 1 is not a char boundary; it is inside 'é'",
                "byte index 1 is not a char boundary; it is inside …",
            ),
            (
                "assertion `left == right` failed\n  left: 1",
                "assertion `left == right` failed…",
            ),
            ("nobody has it", "nobody has it"),
        ] {
            assert_eq!(told(text), expected);
        }
        assert_eq!(message(&"at: hand"), "at: hand", "it stands in the source");
        assert_eq!(message(&7_u8), "without a message");
        assert_eq!(told(&"x".repeat(5000)).chars().count(), LONGEST + 1);
    }
}
