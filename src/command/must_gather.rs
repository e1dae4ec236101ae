//! `must-gather`: everything that one needs to see from afar what is wrong.

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::signal::unix::{SignalKind, signal};
use windows_storage_operator::gather::{Folder, Limits, Options, Progress, Summary, gather};
use windows_storage_operator::visible::visible;

use crate::cli::MustGatherArgs;
use crate::command::progress::Shown;
use crate::command::run::stopped;
use crate::command::{connect, tell};

/// How long threads that read from nodes may take to see that their connections were cut.
const ENDING: Duration = Duration::from_secs(3);

/// Gathers, and says where. Where it is interrupted, or fails, nothing is left.
pub fn must_gather(arguments: &MustGatherArgs) -> anyhow::Result<()> {
    let name = match &arguments.dest {
        Some(name) => name.clone(),
        // As `oc adm must-gather` calls them.
        None => PathBuf::from(format!("must-gather.local.{}", rand::random::<u64>() >> 1)),
    };
    let folder = Folder::create(&name)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = work(arguments, &folder) => ended.map(Some),
            () = stopped() => Ok(None),
            () = hung_up() => Ok(None),
        }
    });
    // Before the folder gets its name or goes: nobody may write into it any more.
    runtime.shutdown_timeout(ENDING);
    let Some(summary) = ended? else {
        drop(folder);
        bail!("interrupted; nothing was kept");
    };
    let name = folder.keep()?;
    tell_of(&summary);
    let place = visible(&name.to_string_lossy());
    match writeln!(io::stdout(), "{place}") {
        // It is kept, whoever reads that. Of a pipe that is closed nobody wants to know.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            tell(&format!("cannot write to standard output: {error}"));
            tell(&format!("gathered into {place}"));
        }
        _ => {}
    }
    Ok(())
}

async fn work(arguments: &MustGatherArgs, folder: &Folder) -> anyhow::Result<Summary> {
    let options = Options {
        namespace: arguments.namespace.clone().filter(|name| !name.is_empty()),
        limits: Limits::of_node(arguments.node_log_limit.saturating_mul(1024 * 1024)),
    };
    let (client, version) = connect(&arguments.cluster).await?;
    let mut shown = Shown::new();
    let mut tell = |progress: Progress<'_>| shown.show(&progress);
    let summary = gather(&client, version, &options, folder.path(), &mut tell).await;
    shown.finish();
    Ok(summary?)
}

/// What is not in order comes last, where it is seen.
fn tell_of(summary: &Summary) {
    let (reached, of) = summary.reached();
    let verdict = &summary.report.verdict;
    tell(&format!("objects: {}", summary.objects));
    tell(&format!("Windows nodes: {reached} of {of} looked at"));
    for node in &summary.nodes {
        if !node.is_reached {
            tell(&format!(
                "{}: {}",
                visible(&node.name),
                visible(&node.words)
            ));
        }
        for problem in &node.problems {
            tell(&format!("{}: {}", visible(&node.name), visible(problem)));
        }
    }
    for problem in &summary.problems {
        tell(&format!("could not be had: {}", visible(problem)));
    }
    tell(&format!(
        "upgradeable: {} ({})",
        verdict.upgradeable.as_str(),
        verdict.reason.as_str()
    ));
}

/// The terminal is gone.
async fn hung_up() {
    match signal(SignalKind::hangup()) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    }
}
