//! What Windows nodes tell of themselves: services and pipes, and their logs.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use protocol::NodeState;
use protocol::paths::{AGENT_LOG_DIR, CSI_PROXY_LOG_DIR, to_sftp};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::gather::clean;
use crate::gather::folder::{self, FolderError};
use crate::gather::logs::{Beginning, Limits, Log, Room, sort};
use crate::gather::objects::visible_json;
use crate::gather::summary::{NodeLine, bytes, told_by};
use crate::index::Cluster;
use crate::node::{
    NodeError, NodePlan, Planner, ReadFailure, Reason, Session, Target, look, state,
};
use crate::visible::visible;

/// Nodes that are looked at at one time.
const AT_ONCE: usize = 16;
/// How long one node may take from the login on.
const NODE: Duration = Duration::from_secs(300);
/// From when on no more logs are begun, nor read on: what is there by then is better than nothing.
const LOGS: Duration = Duration::from_secs(240);
/// Files of one folder that are thought of. The two programs leave a handful.
const MOST_FILES: usize = 200;
/// Who writes logs, and where.
const FOLDERS: [(&str, &str); 2] = [
    ("csi-proxy", CSI_PROXY_LOG_DIR),
    ("windows-storage-agent", AGENT_LOG_DIR),
];

/// What was found out about a node, or why nothing was.
enum Looked {
    Seen(Box<Seen>),
    Not(NodeError),
    External,
}

/// What was found on a node.
#[derive(Default)]
struct Seen {
    state: Option<NodeState>,
    logs: u64,
    bytes: u64,
    /// Logs from before the time that was asked for.
    older: usize,
    problems: Vec<String>,
    renamed: Vec<String>,
    /// What could not be written on this machine.
    broken: Option<FolderError>,
}

/// Looks at all Windows nodes and tells of each as soon as it is done.
pub async fn gather(
    cluster: &Cluster,
    root: &Path,
    wanted_logs: (Limits, Option<Timestamp>),
    done: &mut (dyn FnMut(&NodeLine) + Send),
) -> Result<Vec<NodeLine>, FolderError> {
    let wanted = cluster.wanted();
    let planner = Planner::to_look(cluster, &wanted);
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut visits = JoinSet::new();
    for (name, node) in cluster.windows_nodes() {
        let (name, plan) = (name.to_string(), planner.plan(name, node));
        let (places, root) = (Arc::clone(&places), root.to_owned());
        let namespace = cluster.namespace.clone();
        visits.spawn(async move {
            let looked = match plan {
                NodePlan::External => Looked::External,
                NodePlan::Blocked(error) => Looked::Not(error),
                NodePlan::Waiting => Looked::Not(NodeError::new(Reason::TimedOut, "not ready")),
                NodePlan::Visit(target) => {
                    // Never closed; without a permit the looks only are not bounded.
                    let _place = places.acquire().await;
                    look_at(&target, &namespace, root, wanted_logs).await
                }
            };
            (name, looked)
        });
    }
    let mut lines = BTreeMap::new();
    while let Some(Ok((name, looked))) = visits.join_next().await {
        let line = match looked {
            Looked::Seen(seen) => match seen.broken {
                Some(error) => return Err(error),
                None => line_of(&name, *seen),
            },
            Looked::Not(error) => {
                NodeLine::unseen(&name, format!("{}: {error}", error.reason.as_str()))
            }
            Looked::External => NodeLine::unseen(
                &name,
                "looked after by somebody else, not connected to".to_owned(),
            ),
        };
        done(&line);
        lines.insert(name, line);
    }
    Ok(lines.into_values().collect())
}

async fn look_at(
    target: &Target,
    namespace: &str,
    root: PathBuf,
    (limits, since): (Limits, Option<Timestamp>),
) -> Looked {
    let name = folder::file_name(&target.node);
    let mut seen = Seen::default();
    if name != target.node {
        seen.renamed.push(format!("its folder is nodes/{name}"));
    }
    let seen = Arc::new(Mutex::new(seen));
    let folder = format!("nodes/{name}");
    let of_visit = Arc::clone(&seen);
    let looked = look(target, namespace, NODE, move |session| {
        let mut visit = Visit {
            session,
            root: &root,
            folder: &folder,
            until: Instant::now() + LOGS,
            seen: &of_visit,
        };
        if let Err(error) = visit.all(limits, since) {
            visit.seen().broken = Some(error);
        }
    });
    let looked = looked.await;
    let seen = std::mem::take(&mut *lock(&seen));
    ended(looked, seen)
}

/// What was found until the look was over. One that was called off may have left something.
fn ended(looked: Result<(), NodeError>, mut seen: Seen) -> Looked {
    match looked {
        Ok(()) => Looked::Seen(Box::new(seen)),
        Err(error) if seen.state.is_some() || seen.logs > 0 || seen.broken.is_some() => {
            let problem = format!("the rest: {}: {error}", error.reason.as_str());
            seen.problems.push(problem);
            Looked::Seen(Box::new(seen))
        }
        Err(error) => Looked::Not(error),
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    // What was found before a panic was found.
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Visit<'a> {
    session: &'a mut Session,
    root: &'a Path,
    folder: &'a str,
    until: Instant,
    /// Told at once: a look that takes too long is left alone with what it has.
    seen: &'a Mutex<Seen>,
}

impl Visit<'_> {
    fn all(&mut self, limits: Limits, since: Option<Timestamp>) -> Result<(), FolderError> {
        match state(self.session) {
            Ok(Some(state)) => {
                let written = self.write_state(&state);
                self.seen().state = Some(state);
                self.unless_of_name(written)?;
            }
            Ok(None) => {}
            Err(error) => self.note(error.to_string()),
        }
        let mut logs = Vec::new();
        for (of, folder) in FOLDERS {
            logs.extend(self.logs_in(of, folder));
        }
        if let Some(since) = since {
            let found = logs.len();
            logs.retain(|log| log.is_since(since));
            self.seen().older = found - logs.len();
        }
        sort(&mut logs);
        let mut room = Room::of(limits);
        let mut left = Vec::new();
        for log in &logs {
            if self.session.is_over() {
                // It was said why.
                return Ok(());
            }
            match room.for_next().filter(|_| Instant::now() < self.until) {
                Some(most) => room.take(self.log(log, most)?),
                None if log.file.size > 0 => left.push(log),
                None => {}
            }
        }
        if let Some(first) = left.first() {
            let of_all = left.iter().map(|log| log.file.size).sum();
            self.note(format!(
                "{} older log(s) of {} were left out, {} is the newest of them; --node-log-limit says how much is taken",
                left.len(),
                bytes(of_all),
                visible(&first.file.name)
            ));
        }
        Ok(())
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(self.seen)
    }

    fn note(&self, problem: String) {
        self.seen().problems.push(problem);
    }

    /// What a node calls its files ends nothing but the writing of that file.
    fn unless_of_name(&self, written: Result<(), FolderError>) -> Result<bool, FolderError> {
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.is_of_name() => {
                self.note(error.to_string());
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn write_state(&self, state: &NodeState) -> Result<(), FolderError> {
        let path = format!("{}/state.json", self.folder);
        // Plain data always serializes.
        let mut value = serde_json::to_value(state).unwrap_or_default();
        clean::state(&mut value);
        let text = visible_json(&value).unwrap_or_default() + "\n";
        folder::write(self.root, &path, text.as_bytes())
    }

    fn logs_in(&mut self, of: &'static str, folder: &'static str) -> Vec<Log> {
        if self.session.is_over() {
            return Vec::new();
        }
        let files = match self.session.files_in(&to_sftp(folder), MOST_FILES) {
            Ok(files) => files.unwrap_or_default(),
            Err(error) => {
                self.note(error.to_string());
                return Vec::new();
            }
        };
        let mut logs = Vec::new();
        for mut file in files {
            if !self.session.is_over() {
                let path = format!("{}/{}", to_sftp(folder), file.name);
                // What cannot be asked for is told when it cannot be read.
                let _ = self.session.look_again(&path, &mut file);
            }
            logs.push(Log { of, folder, file });
        }
        logs
    }

    /// Takes the end of a log: how much was read.
    fn log(&mut self, log: &Log, most: u64) -> Result<u64, FolderError> {
        let from = format!("{}/{}", to_sftp(log.folder), log.file.name);
        let name = folder::log_name(&log.file.name);
        let to = format!("{}/{}/{name}", self.folder, log.of);
        let mut file: Option<BufWriter<std::fs::File>> = None;
        let mut beginning = Beginning::default();
        let mut made = Ok(());
        let (root, until) = (self.root, self.until);
        let mut is_late = false;
        let seen = self.seen;
        let read = self.session.read_end(&from, most, &mut |left_out, piece| {
            is_late = Instant::now() >= until;
            if is_late {
                return Err(std::io::ErrorKind::TimedOut.into());
            }
            let file = match &mut file {
                Some(file) => file,
                None => match folder::create(root, &to) {
                    Ok(created) => {
                        lock(seen).logs += 1;
                        file.insert(created)
                    }
                    Err(error) => {
                        made = Err(error);
                        return Err(std::io::ErrorKind::Other.into());
                    }
                },
            };
            let (line, kept) = beginning.pass(left_out, piece);
            file.write_all(line.unwrap_or_default().as_bytes())?;
            file.write_all(kept)
        });
        if !self.unless_of_name(made)? {
            return Ok(0);
        }
        if let Some(mut file) = file {
            let flushed = file.flush();
            flushed.map_err(folder::not_written(root, &to))?;
            if name != log.file.name {
                let line = format!("{} is written as {name}", log.file.name);
                self.seen().renamed.push(line);
            }
        }
        match read {
            Ok(part) => {
                if part.shortened {
                    let shown = visible(&log.file.name);
                    self.note(format!(
                        "{shown} was shortened while it was read, so its end may be missing"
                    ));
                }
                self.seen().bytes += part.read;
                Ok(part.read)
            }
            Err(ReadFailure::Node(error)) => {
                self.note(error.to_string());
                Ok(0)
            }
            Err(ReadFailure::Here(_)) if is_late => {
                let shown = visible(&log.file.name);
                self.note(format!(
                    "{shown}: the node is slow, and no more than this came in {} s",
                    LOGS.as_secs()
                ));
                Ok(most)
            }
            Err(ReadFailure::Here(error)) => Err(folder::not_written(root, &to)(error)),
        }
    }
}

fn line_of(name: &str, seen: Seen) -> NodeLine {
    let of_agent = match &seen.state {
        Some(state) => told_by(state),
        None if seen.problems.is_empty() => "no agent".to_owned(),
        None => "the agent says nothing".to_owned(),
    };
    let older = match seen.older {
        0 => String::new(),
        older => format!(", {older} older one(s) not asked for"),
    };
    let (logs, size) = (seen.logs, bytes(seen.bytes));
    NodeLine {
        name: name.to_owned(),
        is_reached: true,
        words: format!("{of_agent}; {logs} log(s), {size}{older}"),
        problems: seen.problems,
        renamed: seen.renamed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_before_time_was_up_counts() {
        let late = || Err(NodeError::new(Reason::TimedOut, "it took longer"));
        let seen = Seen {
            logs: 2,
            ..Seen::default()
        };
        let Looked::Seen(seen) = ended(late(), seen) else {
            panic!("two logs are there");
        };
        let line = line_of("win-1", *seen);
        assert!(line.is_reached && line.words.contains("2 log(s)"));
        assert!(line.problems[0].contains("it took longer"), "{line:?}");
        assert!(matches!(ended(late(), Seen::default()), Looked::Not(_)));
    }
}
