//! `must-gather`: gathers everything that is needed to diagnose problems remotely.

use std::path::PathBuf;
use std::time::Duration;

use windows_storage_operator::gather::{Folder, Options, Summary, gather};
use windows_storage_operator::visible::visible;

use crate::cli::MustGatherArgs;
use crate::command::connect::{connect, place};
use crate::command::progress::Line;
use crate::command::signals::{Signal, signalled};
use crate::command::{print, report_line, runtime};

/// How long threads that read from nodes may take to notice that their connections were closed.
const ENDING: Duration = Duration::from_secs(3);

/// The process was asked to end.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; nothing was kept")]
pub struct Interrupted(i32);

impl Interrupted {
    /// Returns the status that a shell reports for a process that this signal has ended.
    pub fn status(&self) -> u8 {
        u8::try_from(128 + self.0).unwrap_or(u8::MAX)
    }
}

/// Gathers, and prints where. If it fails or is interrupted, nothing is left.
pub fn must_gather(arguments: &MustGatherArgs) -> anyhow::Result<()> {
    let name = match &arguments.dest {
        Some(name) => name.clone(),
        // The name that `oc adm must-gather` uses.
        None => PathBuf::from(format!("must-gather.local.{}", rand::random::<u64>() >> 1)),
    };
    let folder = Folder::create(&name)?;
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = work(arguments, &folder) => ended,
            signal = signalled([Signal::Hangup, Signal::Interrupt, Signal::Terminate]) => {
                Err(Interrupted(signal).into())
            }
        }
    });
    // Before the folder is renamed or removed: nothing may write into it any more.
    runtime.shutdown_timeout(ENDING);
    let summary = ended?;
    let name = folder.keep()?;
    for line in summary.text().lines() {
        report_line(line);
    }
    let place = visible(&name.to_string_lossy());
    if let Err(error) = print(&format!("{place}\n")) {
        // The folder is kept anyway.
        report_line(format!("{error:#}"));
        report_line(format!("gathered into {place}"));
    }
    Ok(())
}

async fn work(arguments: &MustGatherArgs, folder: &Folder) -> anyhow::Result<Summary> {
    let options = Options {
        about: place(&arguments.cluster).await?,
        namespace: arguments.namespace.clone().filter(|name| !name.is_empty()),
        node_log_limit: arguments.node_log_limit.saturating_mul(1024 * 1024),
    };
    let (client, version) = connect(&arguments.cluster).await?;
    let mut shown = Line::new();
    let mut show = |line: &str| shown.show(line);
    Ok(gather(&client, version, &options, folder.path(), &mut show).await?)
}
