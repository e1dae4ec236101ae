//! Gathers the logs of the operator's pods.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use futures::{AsyncRead, AsyncReadExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::{Api, Client};
use tokio::time::Instant;

use crate::client::deadline;
use crate::client::installed::SELECTOR;
use crate::gather::folder::{self, FolderError};
use crate::gather::redact;

/// The limits per container log, in lines and in bytes.
const LINES: i64 = 50_000;
const BYTES: usize = 10 * 1024 * 1024;
/// The time limit for all logs together.
const LOGS: Duration = Duration::from_secs(120);

/// Writes the logs of the operator's pods, including those of previous containers. Returns their number.
pub async fn logs(
    client: &Client,
    (namespace, since): (&str, Option<Timestamp>),
    root: &Path,
    problems: &mut Vec<String>,
) -> Result<u64, FolderError> {
    let until = Instant::now() + LOGS;
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let selected = ListParams::default().labels(SELECTOR);
    let pods = match deadline::call("list the operator's pods", api.list(&selected)).await {
        Ok(pods) => pods.items,
        Err(error) => {
            problems.push(format!("logs of the operator: {}", error.answer()));
            return Ok(0);
        }
    };
    if pods.is_empty() {
        problems.push(format!(
            "logs of the operator: namespace {namespace} has no pods with the label {SELECTOR}; --namespace names another"
        ));
    }
    let mut count = 0;
    for (pod, container, previous) in pods.iter().flat_map(logs_of) {
        let parameters = LogParams {
            container: Some(container.to_owned()),
            previous,
            tail_lines: Some(LINES),
            // The kubelet knows each line's time.
            since_time: since,
            ..LogParams::default()
        };
        let opened = deadline::call("read the log", api.log_stream(pod, &parameters)).await;
        let (kept, problem) = match opened {
            Ok(stream) => tail(stream, BYTES, until).await,
            Err(error) => (Vec::new(), Some(error.answer())),
        };
        let which = if previous { "previous" } else { "current" };
        if problem.is_none() || !kept.is_empty() {
            let folder = [pod, container].map(folder::file_name).join("/");
            let path = format!("operator/{folder}/{which}.log");
            let mut file = redact::Lines::new(folder::create(root, &path)?);
            file.write_all(&kept)
                .and_then(|()| file.finish())
                .map_err(folder::not_written(root, &path))?;
            count += 1;
        }
        if let Some(problem) = problem {
            let part = match kept.len() {
                0 => String::new(),
                bytes => format!("after {bytes} bytes that are kept: "),
            };
            problems.push(format!(
                "{which}.log of pod {pod}, container {container}: {part}{problem}"
            ));
        }
    }
    Ok(count)
}

/// Returns the logs of a pod: pod, container, and whether it is the log of the previous container.
fn logs_of(pod: &Pod) -> impl Iterator<Item = (&str, &str, bool)> {
    let statuses = pod.status.iter();
    let statuses = statuses.flat_map(|status| status.container_statuses.iter().flatten());
    let restarted = statuses.filter(|status| status.restart_count > 0);
    let restarted: Vec<&str> = restarted.map(|status| &*status.name).collect();
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.flat_map(move |container| {
        let name = container.name.as_str();
        let before = restarted.contains(&name).then_some((pod_name, name, true));
        std::iter::once((pod_name, name, false)).chain(before)
    })
}

/// Reads until the end or `until`. Returns the last bytes, from the start of a line, and an error if there may be more.
async fn tail(stream: impl AsyncRead, most: usize, until: Instant) -> (Vec<u8>, Option<String>) {
    let mut stream = std::pin::pin!(stream);
    let mut kept = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    let mut all = 0;
    let problem = loop {
        match tokio::time::timeout_at(until, stream.read(&mut piece)).await {
            Ok(Ok(0)) => break None,
            Ok(Ok(read)) => {
                all += read;
                kept.extend_from_slice(&piece[..read]);
            }
            Ok(Err(error)) => break Some(error.to_string()),
            Err(_) => {
                let limit = LOGS.as_secs();
                break Some(format!("the logs took longer than {limit} s together"));
            }
        }
        // Keep up to twice the limit, so that not every read moves the whole buffer.
        if kept.len() > most * 2 {
            kept.drain(..kept.len() - most);
        }
    };
    kept.drain(..kept.len().saturating_sub(most));
    if all > most
        && let Some(end) = kept.iter().position(|byte| *byte == b'\n')
    {
        kept.drain(..=end);
    }
    (kept, problem)
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
        assert_eq!(kept(100).await.0, text.as_bytes());
        assert_eq!(kept(10).await.0, b"line 3\n");
        let long = "x\n".repeat(1 << 20);
        let (kept, problem) = tail(long.as_bytes(), 1000, until).await;
        assert!(kept.len() <= 1000 && kept.len() > 990, "{}", kept.len());
        assert_eq!(problem, None);
    }

    #[tokio::test]
    async fn what_came_before_a_log_broke_off_or_stood_still_is_kept() {
        let until = Instant::now() + LOGS;
        let begun = || stream::once(async { Ok(b"line 1\n".to_vec()) });
        let broken = stream::once(async { Err(std::io::Error::other("cut off")) });
        let broken = Box::pin(begun().chain(broken)).into_async_read();
        let (kept, problem) = tail(broken, BYTES, until).await;
        assert_eq!(kept, b"line 1\n");
        assert_eq!(problem.as_deref(), Some("cut off"));
        let still = Box::pin(begun().chain(stream::pending())).into_async_read();
        let soon = Instant::now() + Duration::from_millis(50);
        let (kept, problem) = tail(still, BYTES, soon).await;
        assert_eq!(kept, b"line 1\n");
        assert!(problem.is_some_and(|problem| problem.contains("longer than 120 s")));
    }
}
