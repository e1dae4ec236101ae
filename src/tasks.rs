//! Every task and every thread of this program begins here, so that none ends unseen: a panic ends the process wherever it
//! happens (see [`crate::panics`]), one that has an end is waited for or need not be, and the end of one that lasts is a
//! fault.

use std::convert::Infallible;
use std::future::Future;

use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle, JoinSet};

/// Begins a task that comes to an end by itself.
pub fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(work)
}

/// The same from outside of the runtime.
pub fn spawn_on<T: Send + 'static>(
    runtime: &Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    runtime.spawn(work)
}

/// Does blocking work on a thread of its own.
pub fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    tokio::task::spawn_blocking(work)
}

/// Work that goes on for as long as its task is there. Should it end, so does the process, with its name: nobody would do
/// it any more.
pub async fn lasting(what: &'static str, work: impl Future<Output = ()>) -> Infallible {
    work.await;
    ended(what)
}

#[expect(clippy::panic, reason = "it ends the process as any other fault does")]
fn ended(what: &'static str) -> ! {
    panic!("{what} has ended, which it never does")
}

/// Tasks of one kind. They end with it.
#[derive(Debug)]
pub struct Tasks<T>(JoinSet<T>);

impl<T: Send + 'static> Tasks<T> {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self(JoinSet::new())
    }

    /// Begins one more.
    pub fn spawn(&mut self, work: impl Future<Output = T> + Send + 'static) {
        self.0.spawn(work);
    }

    /// Waits for the next one that ends; `None` where there is none.
    pub async fn join_next(&mut self) -> Option<T> {
        loop {
            if let Some(value) = value(self.0.join_next().await?) {
                return Some(value);
            }
        }
    }

    /// One that has ended already.
    pub fn try_join_next(&mut self) -> Option<T> {
        loop {
            if let Some(value) = value(self.0.try_join_next()?) {
                return Some(value);
            }
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Send + 'static> Default for Tasks<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// What a task came to. A panic is handed on, for where it has not ended the process: in tests.
fn value<T>(ended: Result<T, JoinError>) -> Option<T> {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(value) => Some(value),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // Nobody ends single ones: the runtime is ending.
        Err(Err(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// What begins a task or a thread.
    const BEGINNINGS: [&str; 7] = [
        "tokio::spawn",
        "task::spawn",
        "spawn_blocking",
        "JoinSet",
        "thread::spawn",
        "thread::Builder",
        "thread::scope",
    ];
    /// The thread that ends the process begins when it has a fault.
    const ALLOWED: [&str; 2] = ["tasks.rs", "panics.rs"];

    /// The part of a file that is in the program.
    fn shipped(text: &str) -> &str {
        text.split("#[cfg(test)]\nmod tests {").next().unwrap()
    }

    #[test]
    fn nothing_else_begins_a_task_or_a_thread() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let files: Vec<(String, String)> = walkdir::WalkDir::new(&root)
            .into_iter()
            .map(Result::unwrap)
            .filter(|entry| entry.path().extension().is_some_and(|end| end == "rs"))
            .map(|entry| {
                let name = entry.path().strip_prefix(&root).unwrap();
                let text = std::fs::read_to_string(entry.path()).unwrap();
                (name.to_str().unwrap().to_owned(), text)
            })
            .collect();
        // Modules that only tests have, by their names: they are declared as such.
        let tests: BTreeSet<String> = files
            .iter()
            .flat_map(|(_, text)| text.split("#[cfg(test)]\n").skip(1))
            .filter_map(|rest| {
                let rest = rest.trim_start_matches("pub(in crate::node) ");
                let name = rest.strip_prefix("mod ")?.split_once(';')?.0;
                (!name.contains(' ')).then(|| name.to_owned())
            })
            .collect();
        assert!(files.len() > 100 && tests.contains("faults"), "{tests:?}");
        let mut looked_at = 0;
        for (name, text) in &files {
            let of_test = Path::new(name).components().any(|part| {
                let part = Path::new(part.as_os_str()).with_extension("");
                tests.contains(part.to_str().unwrap())
            });
            if of_test || ALLOWED.contains(&name.as_str()) {
                continue;
            }
            looked_at += 1;
            for beginning in BEGINNINGS {
                assert!(
                    !shipped(text).contains(beginning),
                    "{name} has {beginning}: begin tasks and threads by crate::tasks"
                );
            }
        }
        assert!(looked_at > 80, "{looked_at} of {} files", files.len());
    }

    #[tokio::test]
    async fn each_end_is_told_once_and_a_panic_is_handed_on() {
        let mut tasks = Tasks::new();
        tasks.spawn(async { 1 });
        assert_eq!(tasks.join_next().await, Some(1));
        assert_eq!(tasks.join_next().await, None);
        assert!(tasks.is_empty() && tasks.try_join_next().is_none());
        tasks.spawn(async { panic!("in a task") });
        let waiting = spawn(async move { tasks.join_next().await });
        assert!(waiting.await.unwrap_err().is_panic());
    }
}
