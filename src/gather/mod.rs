//! `must-gather`: collects what is needed for remote troubleshooting, as a folder of files. Changes nothing in the
//! cluster or on nodes.
//!
//! It collects the objects that the assessment uses, in the form that it reads, so that `check -f` on the folder returns
//! the same verdict as `check` on the cluster. What cannot be read is reported and does not stop the rest.

mod folder;
mod nodes;
mod objects;
mod operator;
mod operator_logs;
pub mod redact;
mod summary;

use std::io;
use std::path::Path;
use std::time::Duration;

use kube::Client;

use crate::assess::assess_once;
use crate::assess::report::{About, ReadinessReport};
use crate::check;
use crate::client::deadline::Budget;
use crate::client::installed::{self, OPERATOR};
use crate::client::listing::Step;
use crate::index::Cluster;
use crate::objects::{Gathered, cluster_kinds};
use crate::report::{Format, json, render};
use crate::visible::visible;
pub use folder::{Folder, FolderError};
use objects::Objects;
pub use summary::{NodeLine, Summary};

/// The total time for reading objects from the API server. `oc adm must-gather` times out after ten minutes, and nodes
/// and logs come afterwards.
const OBJECTS: Duration = Duration::from_secs(240);

/// Why nothing was gathered.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// The folder cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The API server returned no object that the assessment uses.
    #[error(
        "nothing of the cluster can be read, so nothing was kept; check that kubectl get nodes works with the same kubeconfig. The \
         first is {0}"
    )]
    NothingRead(String),
}

/// Options of a must-gather.
#[derive(Clone, Debug)]
pub struct Options {
    /// The operator's namespace. By default that of its Deployment, if there is one.
    pub namespace: Option<String>,
    /// The limit for the logs of one node in bytes.
    pub node_log_limit: u64,
    /// What is gathered from, and when.
    pub about: About,
}

/// Gathers everything into a folder. Reports the progress in lines.
pub async fn gather(
    client: &Client,
    version: String,
    options: &Options,
    root: &Path,
    report: &mut (dyn FnMut(&str) + Send),
) -> Result<Summary, GatherError> {
    let mut objects = Objects::new(root);
    let mut budget = Budget::of(OBJECTS);
    let mut cluster = Cluster {
        api_server_version: Some(version.clone()),
        ..Cluster::default()
    };
    let of = cluster_kinds().count();
    for (number, kind) in (1..).zip(cluster_kinds()) {
        let mut take = |step: &Step| match step {
            Step::Begin => objects.begin(),
            Step::Ask => report(&format!("reading {} ({number} of {of})", kind.name())),
            Step::Page(page) => objects.put(&kind.resource, page),
        };
        let listing = check::list(client, kind, &mut cluster, &mut take);
        let ended = budget.ask(listing).await;
        check::conclude(kind, &mut cluster, &ended);
        objects.end_kind(&kind.resource, kind.table(&cluster));
    }
    objects.check()?;
    if let Some(problem) = objects.nothing_read() {
        return Err(GatherError::NothingRead(visible(&problem)));
    }
    let (namespace, how) = match &options.namespace {
        Some(given) => (given.clone(), ""),
        None => namespace(client).await,
    };
    cluster.namespace.clone_from(&namespace);

    report("reading what is the operator's own");
    let mut reader = operator::Reader {
        client,
        namespace: &namespace,
        objects: &mut objects,
        budget: &mut budget,
    };
    reader.settings(&mut cluster).await;
    reader.others().await;
    objects.check()?;
    let operator_logs =
        operator_logs::logs(client, &namespace, root, &mut objects.problems).await?;

    let of = cluster.windows_nodes().count();
    report(&format!("collecting from {of} Windows node(s)"));
    let mut done = 0;
    let mut looked = |node: &NodeLine| {
        done += 1;
        let (name, words) = (visible(&node.name), visible(&node.words));
        report(&format!("node {done} of {of}, {name}: {words}"));
    };
    let nodes = nodes::gather(&cluster, root, options, &mut looked).await?;

    let record = Gathered::new(Some(version), objects.kinds);
    write(root, "gathered.json", json(&record))?;
    let summary = Summary {
        namespace: namespace + how,
        objects: objects.count,
        problems: objects.problems,
        operator_logs,
        nodes,
        report: ReadinessReport {
            about: Some(options.about.clone()),
            ..assess_once(&cluster, None)
        },
    };
    for (name, format) in [
        ("report.txt", Format::Table),
        ("report.json", Format::Json),
        ("report.html", Format::Html),
    ] {
        write(root, name, render(&summary.report, format, false))?;
    }
    write(root, "summary.txt", Ok(summary.text()))?;
    // `oc adm must-gather` reads this file: the tool's name and version.
    let version = format!("{OPERATOR}\n{}\n", env!("CARGO_PKG_VERSION"));
    write(root, "version", Ok(version))?;
    Ok(summary)
}

/// Returns the namespace of the operator's Deployment, or the default if there is none, or more than one, and says so.
async fn namespace(client: &Client) -> (String, &'static str) {
    let found = installed::namespaces(client).await.unwrap_or_default();
    let mut found = found.into_iter();
    if let (Some(namespace), None) = (found.next(), found.next()) {
        return (namespace, "");
    }
    let how = " (by default: no Deployment of the operator was found, or several; --namespace names another)";
    (OPERATOR.to_owned(), how)
}

fn write(root: &Path, name: &str, text: io::Result<String>) -> Result<(), FolderError> {
    let text = text.map_err(folder::not_written(root, name))?;
    folder::write(root, name, text.as_bytes())
}
