//! `must-gather`: everything that one needs to see from afar what is wrong, as a folder of files. Nothing is changed, in the
//! cluster or on nodes.
//!
//! The objects are those that the judgement goes by, written as they are judged, so that `check -f` on the folder judges as
//! `check` did on the cluster. What could not be had is reported, and ends nothing.

mod folder;
mod logs;
mod nodes;
mod objects;
mod operator;
mod operator_logs;
pub mod redact;
mod summary;

use std::io;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;

use crate::assess::assess;
use crate::check::{self, ApiError, Read};
use crate::deadline::Budget;
use crate::installed::OPERATOR;
use crate::objects::Gathered;
use crate::report::{Format, json, render};
use crate::visible::visible;
pub use folder::{Folder, FolderError};
use objects::Objects;
pub use summary::{NodeLine, Summary};

/// How long the API server is asked for objects, in all, and how long for logs. `oc adm must-gather` gives up after ten
/// minutes, and the nodes are still to come.
const OBJECTS: Duration = Duration::from_secs(240);

/// Why nothing could be gathered.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// It could not be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The cluster could not be read.
    #[error(transparent)]
    Cluster(#[from] ApiError),
    /// The API server gives nothing that is judged.
    #[error(
        "nothing of the cluster can be read, so nothing was kept; see that kubectl get nodes works with the same kubeconfig. The \
         first is {0}"
    )]
    NothingRead(String),
}

/// What to gather.
#[derive(Clone, Debug)]
pub struct Options {
    /// The operator's namespace; where it is not given it is found by the operator's Deployment.
    pub namespace: Option<String>,
    /// How much of the logs of one node is taken, in bytes.
    pub node_log_limit: u64,
    /// Logs from then on; `None` for all.
    pub since: Option<Timestamp>,
}

/// How far it is.
#[derive(Debug)]
pub enum Stage<'a> {
    /// Objects are read.
    Objects(check::Progress<'a>),
    /// What is the operator's own is read.
    Operator,
    /// So many of so many nodes were looked at, this one last.
    Nodes {
        /// How many.
        done: usize,
        /// Of how many.
        of: usize,
        /// The last one.
        last: Option<&'a NodeLine>,
    },
}

/// Gathers everything into a folder.
pub async fn gather(
    client: &Client,
    version: String,
    options: &Options,
    root: &Path,
    report: &mut (dyn FnMut(Stage<'_>) + Send),
) -> Result<Summary, GatherError> {
    let begin = Timestamp::now();
    let mut objects = Objects::new(root);
    let mut budget = Budget::of(OBJECTS);
    let mut take = |read: Read<'_>| {
        objects.take(&read);
        if let Read::Ask(progress) = read {
            report(Stage::Objects(progress));
        }
    };
    let reading = check::read(client, version.clone(), &mut budget, false, &mut take);
    let mut cluster = reading.await?;
    objects.check()?;
    if let Some(problem) = objects.nothing_read() {
        return Err(GatherError::NothingRead(visible(&problem)));
    }
    let (namespace, why) = operator::namespace(client, options.namespace.as_deref()).await;
    cluster.namespace.clone_from(&namespace);

    report(Stage::Operator);
    let mut reader = operator::Reader {
        client,
        namespace: &namespace,
        objects: &mut objects,
        budget: &mut budget,
    };
    reader.settings(&mut cluster).await;
    reader.others().await;
    objects.check()?;
    let selected = (&*namespace, options.since);
    let operator_logs = operator_logs::logs(client, selected, root, &mut objects.problems).await?;

    let of = cluster.windows_nodes().count();
    let mut done = 0;
    let mut looked = |last: Option<&NodeLine>| {
        done += usize::from(last.is_some());
        report(Stage::Nodes { done, of, last });
    };
    looked(None);
    let nodes = nodes::gather(&cluster, root, options, &mut |line| looked(Some(line))).await?;

    let record = Gathered::new(Some(version.clone()), objects.kinds);
    write(root, "gathered.json", json(&record))?;
    let time = Timestamp::from_second(begin.as_second()).unwrap_or(begin);
    let summary = Summary {
        time: time.to_string(),
        kubernetes_version: version,
        namespace: format!("{namespace} ({why})"),
        logs_since: options.since.map(|since| since.to_string()),
        objects: objects.count,
        problems: objects.problems,
        operator_logs,
        nodes,
        report: assess(&mut cluster),
    };
    for (name, format) in [
        ("report.txt", Format::Table),
        ("report.json", Format::Json),
        ("report.html", Format::Html),
    ] {
        write(root, name, render(&summary.report, format, false, begin))?;
    }
    write(root, "summary.txt", Ok(summary.text()))?;
    // What `oc adm must-gather` looks for: whose it is, and which version.
    let version = format!("{OPERATOR}\n{}\n", env!("CARGO_PKG_VERSION"));
    write(root, "version", Ok(version))?;
    Ok(summary)
}

fn write(root: &Path, name: &str, text: io::Result<String>) -> Result<(), FolderError> {
    let text = text.map_err(folder::not_written(root, name))?;
    folder::write(root, name, text.as_bytes())
}
