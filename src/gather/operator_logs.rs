//! Gathers the logs of the operator's pods.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use futures::io::{self, AllowStdIo, AsyncRead};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::{Api, Client};
use tokio::time::{Instant, timeout_at};

use crate::client::deadline;
use crate::client::installed::SELECTOR;
use crate::gather::folder::{self, FolderError};
use crate::gather::redact;

/// How many lines of a container's log are taken, the last ones. The kubelet bounds the file in bytes.
const LINES: i64 = 50_000;
/// The time limit for all logs together.
const LOGS: Duration = Duration::from_secs(120);

/// Writes the logs of the operator's pods, including those of previous containers. Returns their number.
pub async fn logs(
    client: &Client,
    namespace: &str,
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
            ..LogParams::default()
        };
        let which = if previous { "previous" } else { "current" };
        let opened = deadline::call("read the log", api.log_stream(pod, &parameters)).await;
        let problem = match opened {
            Ok(stream) => {
                let folder = [pod, container].map(folder::file_name).join("/");
                let path = format!("operator/{folder}/{which}.log");
                let mut file = redact::Lines::new(folder::create(root, &path)?);
                let problem = copy(stream, &mut file, until).await;
                file.finish().map_err(folder::not_written(root, &path))?;
                count += 1;
                problem
            }
            Err(error) => Some(error.answer()),
        };
        problems.extend(
            problem.map(|problem| {
                format!("{which}.log of pod {pod}, container {container}: {problem}")
            }),
        );
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

/// Copies until the end or `until`. Returns why there may be more.
async fn copy(stream: impl AsyncRead, file: &mut impl Write, until: Instant) -> Option<String> {
    let mut file = AllowStdIo::new(file);
    let Ok(copied) = timeout_at(until, io::copy(stream, &mut file)).await else {
        let limit = LOGS.as_secs();
        let why = format!("the rest: the logs took longer than {limit} s together");
        return Some(why);
    };
    copied.err().map(|error| format!("the rest: {error}"))
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, TryStreamExt, stream};

    use super::*;

    #[tokio::test]
    async fn what_came_before_a_log_broke_off_or_stood_still_is_kept() {
        let soon = Instant::now() + Duration::from_millis(50);
        let begun = || stream::once(async { Ok(b"line 1\n".to_vec()) });
        let broken = stream::once(async { Err(io::Error::other("cut off")) });
        let broken = Box::pin(begun().chain(broken)).into_async_read();
        let still = Box::pin(begun().chain(stream::pending())).into_async_read();
        let (mut one, mut other, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        let problem = copy(broken, &mut one, soon).await;
        assert_eq!(problem.as_deref(), Some("the rest: cut off"));
        let problem = copy(still, &mut other, soon).await;
        assert!(problem.is_some_and(|problem| problem.contains("longer than 120 s")));
        assert_eq!([one, other], [b"line 1\n", b"line 1\n"]);
        let text = "line 1\n".repeat(1 << 16);
        let later = Instant::now() + LOGS;
        let copied = copy(text.as_bytes(), &mut whole, later).await;
        assert!(copied.is_none() && whole == text.as_bytes());
    }
}
