//! What Windows nodes tell of themselves: services and pipes, and their logs.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use windows_storage_agent::paths::{AGENT_LOG_DIR, CSI_PROXY_LOG_DIR, CSI_PROXY_SERVICE, to_sftp};
use windows_storage_agent::protocol::NodeState;

use crate::gather::clean;
use crate::gather::folder::{self, FolderError};
use crate::gather::logs::{Beginning, Limits, Log, Room, sort};
use crate::gather::objects::visible_json;
use crate::gather::summary::{NodeLine, bytes};
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
    while let Some(joined) = visits.join_next().await {
        let (name, looked) = match joined {
            Ok(ended) => ended,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // Nobody ends single ones.
            Err(_) => continue,
        };
        let line = match looked {
            Looked::Seen(seen) => match seen.broken {
                Some(error) => return Err(error),
                None => line_of(&name, *seen),
            },
            Looked::Not(error) => NodeLine {
                name: name.clone(),
                is_reached: false,
                words: format!("{}: {error}", error.reason.as_str()),
                problems: Vec::new(),
            },
            Looked::External => NodeLine {
                name: name.clone(),
                is_reached: false,
                words: "looked after by somebody else, not connected to".to_owned(),
                problems: Vec::new(),
            },
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
    let folder = format!("nodes/{}", folder::file_name(&target.node));
    let looked = look(target, namespace, NODE, move |session| {
        let mut visit = Visit {
            session,
            root: &root,
            folder: &folder,
            until: Instant::now() + LOGS,
            seen: Seen::default(),
        };
        if let Err(error) = visit.all(limits, since) {
            visit.seen.broken = Some(error);
        }
        visit.seen
    });
    match looked.await {
        Ok(seen) => Looked::Seen(Box::new(seen)),
        Err(error) => Looked::Not(error),
    }
}

struct Visit<'a> {
    session: &'a mut Session,
    root: &'a Path,
    folder: &'a str,
    until: Instant,
    seen: Seen,
}

impl Visit<'_> {
    fn all(&mut self, limits: Limits, since: Option<Timestamp>) -> Result<(), FolderError> {
        match state(self.session) {
            Ok(Some(state)) => {
                self.write_state(&state)?;
                self.seen.state = Some(state);
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
            self.seen.older = found - logs.len();
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

    fn note(&mut self, problem: String) {
        self.seen.problems.push(problem);
    }

    fn write_state(&self, state: &NodeState) -> Result<(), FolderError> {
        let path = format!("{}/state.json", self.folder);
        // Plain data always serializes.
        let mut value = serde_json::to_value(state).unwrap_or_default();
        clean::data(&mut value);
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
        let to = format!(
            "{}/{}/{}",
            self.folder,
            log.of,
            folder::log_name(&log.file.name)
        );
        let mut file: Option<BufWriter<std::fs::File>> = None;
        let mut beginning = Beginning::default();
        let mut made = Ok(());
        let (root, until) = (self.root, self.until);
        let mut is_late = false;
        let read = self.session.read_end(&from, most, &mut |left_out, piece| {
            is_late = Instant::now() >= until;
            if is_late {
                return Err(std::io::ErrorKind::TimedOut.into());
            }
            let file = match &mut file {
                Some(file) => file,
                None => match folder::create(root, &to) {
                    Ok(created) => file.insert(created),
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
        made?;
        if let Some(mut file) = file {
            let flushed = file.flush();
            flushed.map_err(folder::not_written(root, &to))?;
            self.seen.logs += 1;
        }
        match read {
            Ok(part) => {
                if part.shortened {
                    let shown = visible(&log.file.name);
                    self.note(format!(
                        "{shown} was shortened while it was read, so its end may be missing"
                    ));
                }
                self.seen.bytes += part.read;
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
    }
}

fn told_by(state: &NodeState) -> String {
    let mut services = state.services.iter();
    let csi_proxy = services.find(|service| service.name.eq_ignore_ascii_case(CSI_PROXY_SERVICE));
    let csi_proxy = csi_proxy.map_or_else(
        || "not kept".to_owned(),
        |service| format!("{:?}", service.state),
    );
    let open = state.pipes.iter().filter(|pipe| pipe.open).count();
    let foreign = match state.foreign.len() {
        0 => String::new(),
        count => format!(", {count} csi-proxy of somebody else"),
    };
    visible(&format!(
        "agent {} {:?}, csi-proxy {csi_proxy}, {open} pipe(s) open{foreign}",
        state.agent_version, state.agent_service
    ))
}
