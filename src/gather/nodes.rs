//! Gathers services, pipes and logs from Windows nodes.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt, TryStreamExt};
use indicatif::HumanBytes;
use jiff::Timestamp;
use protocol::NodeState;
use protocol::paths::{AGENT_LOG_DIR, CSI_PROXY_LOG_DIR, to_sftp};

use crate::gather::Options;
use crate::gather::folder::{self, FolderError};
use crate::gather::redact;
use crate::gather::summary::{NodeLine, state_in_words};
use crate::index::Cluster;
use crate::node::{
    self, NodeError, NodePlan, Planner, ReadFailure, Session, Target, Trust, inspect, printable,
    state,
};
use crate::report::json;

/// How many nodes are inspected in parallel.
const AT_ONCE: usize = 16;
/// The time limit per node after login.
const NODE: Duration = Duration::from_secs(300);
/// When to stop reading logs: a partial result is better than none.
const LOGS: Duration = Duration::from_secs(240);
/// The maximum number of files per folder. The two programs leave only a few.
const MOST_FILES: usize = 200;
/// The programs that write logs, and their log folders.
const FOLDERS: [(&str, &str); 2] = [
    ("csi-proxy", CSI_PROXY_LOG_DIR),
    ("windows-storage-agent", AGENT_LOG_DIR),
];

/// A log on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Log {
    /// The program that writes the log.
    of: &'static str,
    /// The log's folder as a Windows path.
    folder: &'static str,
    /// The file.
    file: node::Found,
}

/// Sorts newest first. The order of files from the same second does not depend on the server.
fn sort(logs: &mut [Log]) {
    logs.sort_by(|a, b| {
        (b.file.modified, a.of, &a.file.name).cmp(&(a.file.modified, b.of, &b.file.name))
    });
}

/// The results from a node.
#[derive(Default)]
struct Found {
    state: Option<NodeState>,
    logs: u64,
    bytes: u64,
    problems: Vec<String>,
}

/// Inspects all Windows nodes, and reports each as soon as it is done.
pub async fn gather(
    cluster: &Cluster,
    root: &Path,
    options: &Options,
    done: &mut (dyn FnMut(&NodeLine) + Send),
) -> Result<Vec<NodeLine>, FolderError> {
    let spec = cluster.wanted();
    let planner = Planner::read_only(cluster, &spec, Timestamp::now());
    let inspections = cluster.windows_nodes().map(|(name, node)| {
        let plan = planner.plan(name, node);
        async move {
            let words = match plan {
                NodePlan::Reconcile(Ok(target)) | NodePlan::Remove(_, Ok(target)) => {
                    return inspect_node(&target, &cluster.namespace, root, options).await;
                }
                NodePlan::Reconcile(Err(error)) | NodePlan::Remove(_, Err(error)) => words(&error),
                NodePlan::External(who) | NodePlan::Release(who, _) => {
                    let who = printable(&who);
                    format!("managed by another owner, {who}, not connected to")
                }
                NodePlan::RemovalWaits(hold) => hold.to_string(),
                NodePlan::Undecided(_) | NodePlan::Absent(_) | NodePlan::Waiting => {
                    "not connected to, as the operator is not either".to_owned()
                }
            };
            Ok(NodeLine::unseen(name, words))
        }
    });
    let mut inspections = pin!(stream::iter(inspections).buffer_unordered(AT_ONCE));
    let mut lines = Vec::new();
    while let Some(line) = inspections.try_next().await? {
        done(&line);
        lines.push(line);
    }
    lines.sort_by(|a: &NodeLine, b| a.name.cmp(&b.name));
    Ok(lines)
}

fn words(error: &NodeError) -> String {
    format!("{}: {error}", error.reason.as_str())
}

async fn inspect_node(
    target: &Target,
    namespace: &str,
    root: &Path,
    options: &Options,
) -> Result<NodeLine, FolderError> {
    let folder = format!("nodes/{}", folder::file_name(&target.node));
    let (root, options) = (root.to_owned(), options.clone());
    let inspected = inspect(target, namespace, Trust::Known, NODE, move |session| {
        let inspection = Inspection {
            session,
            root,
            folder,
            until: Instant::now() + LOGS,
            found: Found::default(),
        };
        inspection.all(&options)
    });
    Ok(match inspected.await {
        Ok(found) => line(&target.node, found?),
        Err(error) => NodeLine::unseen(&target.node, words(&error)),
    })
}

/// Builds a node's summary.
fn line(name: &str, found: Found) -> NodeLine {
    let problems = found.problems;
    let of_agent = match &found.state {
        Some(state) => state_in_words(state),
        None if problems.is_empty() => "no agent".to_owned(),
        None => "the agent did not respond".to_owned(),
    };
    let (logs, size) = (found.logs, HumanBytes(found.bytes));
    NodeLine {
        name: name.to_owned(),
        is_reached: true,
        words: format!("{of_agent}; {logs} log(s), {size}"),
        problems,
    }
}

struct Inspection<'a> {
    session: &'a mut Session,
    root: PathBuf,
    folder: String,
    until: Instant,
    found: Found,
}

impl Inspection<'_> {
    fn all(mut self, options: &Options) -> Result<Found, FolderError> {
        let state = state(self.session);
        if let Some(state) = self.noted(state) {
            self.write_state(&state)?;
            self.found.state = Some(state);
        }
        let mut logs = Vec::new();
        for (of, folder) in FOLDERS {
            logs.extend(self.logs_in(of, folder));
        }
        sort(&mut logs);
        // One file may use half of the limit, to leave room for another. Count the bytes that were read: Windows lists
        // open files with the size that they had when they were opened.
        let (mut room, file) = (options.node_log_limit, options.node_log_limit.div_ceil(2));
        let mut left = Vec::new();
        for log in &logs {
            if self.session.given_up {
                // The reason has been noted already.
                return Ok(self.found);
            }
            if room > 0 && Instant::now() < self.until {
                room = room.saturating_sub(self.log(log, room.min(file))?);
            } else if log.file.size > 0 {
                left.push(log);
            }
        }
        if let Some(first) = left.first() {
            self.found.problems.push(format!(
                "{} older log(s) of {} were left out, {} is the newest of them; --node-log-limit says how much is taken",
                left.len(),
                HumanBytes(left.iter().map(|log| log.file.size).sum()),
                first.file.name
            ));
        }
        Ok(self.found)
    }

    /// Returns what the node sent, if anything. Notes a failure as a problem.
    fn noted<T>(&mut self, given: Result<Option<T>, NodeError>) -> Option<T> {
        given.unwrap_or_else(|error| {
            self.found.problems.push(error.to_string());
            None
        })
    }

    fn write_state(&self, state: &NodeState) -> Result<(), FolderError> {
        // Plain data always serializes.
        let mut value = serde_json::to_value(state).unwrap_or_default();
        redact::other(&mut value);
        let text = json(&value).unwrap_or_default();
        let path = format!("{}/state.json", self.folder);
        folder::write(&self.root, &path, text.as_bytes())
    }

    fn logs_in(&mut self, of: &'static str, folder: &'static str) -> Vec<Log> {
        if self.session.given_up {
            return Vec::new();
        }
        let files = self.session.files_in(&to_sftp(folder), MOST_FILES);
        let files = self.noted(files);
        let log = |mut file: node::Found| {
            if !self.session.given_up {
                let path = format!("{}/{}", to_sftp(folder), file.name);
                // An error here is noted when reading the file fails too.
                let _ = self.session.update_stat(&path, &mut file);
            }
            Log { of, folder, file }
        };
        files.into_iter().flatten().map(log).collect()
    }

    /// Copies the end of a log. Returns how many bytes were read.
    fn log(&mut self, log: &Log, most: u64) -> Result<u64, FolderError> {
        let shown = &log.file.name;
        let from = format!("{}/{shown}", to_sftp(log.folder));
        let name = folder::log_name(shown);
        let to = format!("{}/{}/{name}", self.folder, log.of);
        let mut file = redact::Lines::new(folder::create(&self.root, &to)?);
        let mut is_empty = true;
        let until = self.until;
        let read = self.session.read_end(&from, most, &mut |left_out, piece| {
            if Instant::now() >= until {
                return Err(ErrorKind::TimedOut.into());
            }
            if is_empty {
                file.begin_after(left_out);
                is_empty = false;
            }
            file.write_all(piece)
        });
        file.finish()
            .map_err(folder::not_written(&self.root, &to))?;
        if is_empty {
            // If this fails, an empty file is left, which is harmless.
            let _ = std::fs::remove_file(self.root.join(&to));
        } else {
            self.found.logs += 1;
        }
        let (taken, problem) = match read {
            Ok(part) => {
                self.found.bytes += part.read;
                let shortened = "was shortened while it was read, so its end may be missing";
                let problem = part.shortened.then(|| format!("{shown} {shortened}"));
                (part.read, problem)
            }
            Err(ReadFailure::Node(error)) => (0, Some(error.to_string())),
            Err(ReadFailure::Here(error)) if error.kind() == ErrorKind::TimedOut => {
                let limit = LOGS.as_secs();
                let slow = format!("the node is slow, and no more than this came in {limit} s");
                (most, Some(format!("{shown}: {slow}")))
            }
            Err(ReadFailure::Here(error)) => {
                return Err(folder::not_written(&self.root, &to)(error));
            }
        };
        self.found.problems.extend(problem);
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str, size: u64, modified: u64) -> Log {
        Log {
            of: "agent",
            folder: "C:",
            file: node::Found {
                name: name.to_owned(),
                size,
                modified,
            },
        }
    }

    #[test]
    fn the_newest_come_first_and_names_decide_where_time_does_not() {
        let mut logs = vec![log("old", 1, 1), log("b", 1, 7), log("a", 1, 7)];
        sort(&mut logs);
        let names: Vec<&str> = logs.iter().map(|log| &*log.file.name).collect();
        assert_eq!(names, ["a", "b", "old"]);
    }
}
