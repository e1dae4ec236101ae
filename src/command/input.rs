//! What is judged: a cluster, or files that were taken from one.

use std::time::Duration;

use anyhow::Context;
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use windows_storage_operator::check::{Progress, from_api, from_files};
use windows_storage_operator::files::Source;
use windows_storage_operator::index::Cluster;

use crate::cli::InputArgs;
use crate::command::{connect, tell};

/// What was read.
pub struct Input {
    /// The cluster.
    pub cluster: Cluster,
    /// The namespace that is meant where none is named: the context's, or else as kubectl has it.
    pub namespace: String,
}

/// Reads a cluster, or the files in its place.
pub fn read(arguments: &InputArgs) -> anyhow::Result<Input> {
    if arguments.files.is_empty() {
        read_cluster(arguments)
    } else {
        let cluster = read_files(arguments)?;
        let namespace = "default".to_owned();
        Ok(Input { cluster, namespace })
    }
}

fn read_cluster(arguments: &InputArgs) -> anyhow::Result<Input> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let bar = progress_bar();
    let input = runtime.block_on(async {
        let (client, version) = connect(&arguments.cluster).await?;
        let cluster = from_api(&client, version, &mut |progress| show(&bar, progress)).await?;
        let namespace = client.default_namespace().to_owned();
        Ok::<_, anyhow::Error>(Input { cluster, namespace })
    });
    bar.finish_and_clear();
    input
}

fn read_files(arguments: &InputArgs) -> anyhow::Result<Cluster> {
    let sources: Vec<Source> = arguments.files.iter().cloned().map(Source::from).collect();
    let bar = progress_bar();
    let input = from_files(&sources, &mut |progress| show(&bar, progress));
    bar.finish_and_clear();
    let input = input?;
    tell(&format!("read {}", input.summary));
    if !input.not_given.is_empty() {
        tell(&format!(
            "note: the input has no {}; if the cluster has any, the verdict does not know of them",
            input.not_given.join(", no ")
        ));
    }
    Ok(input.cluster)
}

/// A line on standard error that moves while there is something to wait for; nothing where that is no terminal.
fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

fn show(bar: &ProgressBar, progress: Progress<'_>) {
    let Progress {
        what,
        done,
        of,
        objects,
        bytes,
    } = progress;
    let bytes = bytes.map(|bytes| format!(", {}", HumanBytes(bytes)));
    bar.set_message(format!(
        "reading {} ({done} of {of} done, {} objects{})",
        what.escape_debug(),
        HumanCount(objects),
        bytes.unwrap_or_default()
    ));
}
