//! `check`: the judgement on a cluster or on files.

use std::io::{self, ErrorKind, IsTerminal};
use std::time::Duration;

use anyhow::Context;
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use windows_storage_operator::assess::assess;
use windows_storage_operator::assess::report::Upgradeable;
use windows_storage_operator::check::{Progress, from_api, from_files};
use windows_storage_operator::files::Source;
use windows_storage_operator::index::Cluster;
use windows_storage_operator::report::{render, use_color};

use crate::cli::CheckArgs;
use crate::command::{connect, tell};

/// Judges and shows the judgement.
pub fn check(arguments: &CheckArgs) -> anyhow::Result<Upgradeable> {
    let mut cluster = if arguments.files.is_empty() {
        read_cluster(arguments)?
    } else {
        read_files(arguments)?
    };
    let report = assess(&mut cluster);
    let stdout = io::stdout();
    let color = use_color(arguments.color, stdout.is_terminal(), |name| {
        std::env::var_os(name)
    });
    match render(&report, arguments.output, color, &mut stdout.lock()) {
        // Who reads only the first lines has not failed, and neither has the judgement.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written.context("cannot write the report")?,
    }
    Ok(report.verdict.upgradeable)
}

fn read_cluster(arguments: &CheckArgs) -> anyhow::Result<Cluster> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let bar = progress_bar();
    let cluster = runtime.block_on(async {
        let (client, version) = connect(&arguments.cluster).await?;
        let cluster = from_api(&client, version, &mut |progress| show(&bar, progress)).await?;
        Ok::<_, anyhow::Error>(cluster)
    });
    bar.finish_and_clear();
    cluster
}

fn read_files(arguments: &CheckArgs) -> anyhow::Result<Cluster> {
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
