//! The logs of the operator's pods.

use std::path::Path;
use std::time::Duration;

use futures::{AsyncRead, AsyncReadExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::{Api, Client};
use tokio::time::Instant;

use crate::deadline;
use crate::gather::folder::{self, FolderError};
use crate::installed::SELECTOR;

/// The most of one container's log, in lines and in bytes.
const LINES: i64 = 50_000;
const BYTES: u64 = 10 * 1024 * 1024;
/// How long the logs may take together.
const LOGS: Duration = Duration::from_secs(120);

/// The logs of the operator's pods, those of containers that ended before as well: how many there were.
pub async fn logs(
    client: &Client,
    (namespace, since): (&str, Option<Timestamp>),
    root: &Path,
    problems: &mut Vec<String>,
) -> Result<u64, FolderError> {
    let until = Instant::now() + LOGS;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let selected = ListParams::default().labels(SELECTOR);
    let listed = match deadline::call("list the operator's pods", pods.list(&selected)).await {
        Ok(listed) => listed,
        Err(error) => {
            problems.push(format!("logs of the operator: {}", error.answer()));
            return Ok(0);
        }
    };
    if listed.items.is_empty() {
        problems.push(format!(
            "logs of the operator: namespace {namespace} has no pods with the label {SELECTOR}; --namespace names another"
        ));
    }
    let mut count = 0;
    for pod in listed.items {
        let name = pod.metadata.name.clone().unwrap_or_default();
        for (container, restarted) in containers(&pod) {
            for previous in [false, true] {
                if previous && !restarted {
                    continue;
                }
                let parameters = LogParams {
                    container: Some(container.clone()),
                    previous,
                    tail_lines: Some(LINES),
                    // The kubelet knows when each line was written.
                    since_time: since,
                    timestamps: false,
                    ..LogParams::default()
                };
                let Tail { kept, problem } = log(&pods, &name, &parameters, until).await;
                let end = if previous {
                    "previous.log"
                } else {
                    "current.log"
                };
                let path = format!(
                    "operator/{}/{}/{end}",
                    folder::file_name(&name),
                    folder::file_name(&container)
                );
                if problem.is_none() || !kept.is_empty() {
                    folder::write(root, &path, &kept)?;
                    count += 1;
                }
                if let Some(problem) = problem {
                    let part = match kept.len() {
                        0 => String::new(),
                        bytes => format!("after {bytes} bytes that are kept: "),
                    };
                    problems.push(format!(
                        "{end} of pod {name}, container {container}: {part}{problem}"
                    ));
                }
            }
        }
    }
    Ok(count)
}

/// The containers of a pod, and whether they were started again.
fn containers(pod: &Pod) -> Vec<(String, bool)> {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    let restarted = |name: &str| {
        let mut statuses = statuses.into_iter().flatten();
        statuses.any(|status| status.name == name && status.restart_count > 0)
    };
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .map(|container| (container.name.clone(), restarted(&container.name)))
        .collect()
}

/// The end of a log, as far as it came.
#[derive(Default)]
struct Tail {
    kept: Vec<u8>,
    /// Why there may be more.
    problem: Option<String>,
}

async fn log(pods: &Api<Pod>, name: &str, parameters: &LogParams, until: Instant) -> Tail {
    match deadline::call("read the log", pods.log_stream(name, parameters)).await {
        Ok(stream) => tail(stream, BYTES, until).await,
        Err(error) => Tail {
            problem: Some(error.answer()),
            ..Tail::default()
        },
    }
}

/// The last bytes of what comes until then, from the beginning of a line on.
async fn tail(stream: impl AsyncRead, most: u64, until: Instant) -> Tail {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut stream = std::pin::pin!(stream);
    let mut kept = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    let mut is_cut = false;
    let problem = loop {
        let read = match tokio::time::timeout_at(until, stream.read(&mut piece)).await {
            Ok(Ok(0)) => break None,
            Ok(Ok(read)) => read,
            Ok(Err(error)) => break Some(error.to_string()),
            Err(_) => {
                break Some(format!(
                    "the logs took longer than {} s together",
                    LOGS.as_secs()
                ));
            }
        };
        kept.extend_from_slice(&piece[..read]);
        // Twice as much, so that not each piece moves all of it.
        if kept.len() > most.saturating_mul(2) {
            kept.drain(..kept.len() - most);
            is_cut = true;
        }
    };
    if kept.len() > most {
        kept.drain(..kept.len() - most);
        is_cut = true;
    }
    if is_cut && let Some(end) = kept.iter().position(|byte| *byte == b'\n') {
        kept.drain(..=end);
    }
    Tail { kept, problem }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, TryStreamExt, stream};

    use super::*;

    #[tokio::test]
    async fn only_the_end_of_a_log_is_kept_and_whole_lines_of_it() {
        let until = Instant::now() + LOGS;
        let text = "line 1\nline 2\nline 3\n";
        let kept = |most| tail(text.as_bytes(), most, until);
        assert_eq!(kept(100).await.kept, text.as_bytes());
        assert_eq!(kept(10).await.kept, b"line 3\n");
        let long = "x\n".repeat(1 << 20);
        let Tail { kept, problem } = tail(long.as_bytes(), 1000, until).await;
        assert!(kept.len() <= 1000 && kept.len() > 990, "{}", kept.len());
        assert_eq!(problem, None);
    }

    #[tokio::test]
    async fn what_came_before_a_log_broke_off_or_stood_still_is_kept() {
        let until = Instant::now() + LOGS;
        let begun = || stream::once(async { Ok(b"line 1\n".to_vec()) });
        let broken = stream::once(async { Err(std::io::Error::other("cut off")) });
        let broken = Box::pin(begun().chain(broken)).into_async_read();
        let Tail { kept, problem } = tail(broken, BYTES, until).await;
        assert_eq!(kept, b"line 1\n");
        assert_eq!(problem.as_deref(), Some("cut off"));
        let still = Box::pin(begun().chain(stream::pending())).into_async_read();
        let Tail { kept, problem } =
            tail(still, BYTES, Instant::now() + Duration::from_millis(50)).await;
        assert_eq!(kept, b"line 1\n");
        assert!(problem.is_some_and(|problem| problem.contains("longer than 120 s")));
    }
}
