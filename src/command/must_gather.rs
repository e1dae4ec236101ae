//! `must-gather`: everything that one needs to see from afar what is wrong.

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, anyhow};
use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};
use windows_storage_operator::gather::{Folder, Limits, Options, Progress, Summary, gather};
use windows_storage_operator::visible::visible;

use crate::cli::{MustGatherArgs, Since, SinceTime};
use crate::command::progress::Shown;
use crate::command::{connect, tell};

/// How long threads that read from nodes may take to see that their connections were cut.
const ENDING: Duration = Duration::from_secs(3);

/// Somebody has asked the process to end.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; nothing was kept")]
pub struct Interrupted {
    signal: u8,
}

impl Interrupted {
    /// What a shell says of a process that such a signal has ended.
    pub fn status(&self) -> u8 {
        128 + self.signal
    }
}

/// Gathers, and says where. Where it is interrupted, or fails, nothing is left.
pub fn must_gather(arguments: &MustGatherArgs) -> anyhow::Result<()> {
    let since = since(arguments)?;
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
            ended = work(arguments, since, &folder) => ended,
            signal = interruption() => Err(Interrupted { signal }.into()),
        }
    });
    // Before the folder gets its name or goes: nobody may write into it any more.
    runtime.shutdown_timeout(ENDING);
    let summary = ended?;
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

/// From when on logs are wanted. `oc adm must-gather` tells the image what it was told itself by the environment.
fn since(arguments: &MustGatherArgs) -> anyhow::Result<Option<Timestamp>> {
    /// A variable that is empty counts as one that is not there.
    fn told<T: FromStr<Err = String>>(variable: &str) -> anyhow::Result<Option<T>> {
        let Some(value) = std::env::var_os(variable).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        let value = value.to_string_lossy();
        let parsed = value.parse().map(Some);
        parsed.map_err(|problem| anyhow!("{variable}={}: {problem}", visible(&value)))
    }

    let now = Timestamp::now();
    let (since, time) = match (arguments.since, arguments.since_time) {
        (None, None) => (
            told::<Since>("MUST_GATHER_SINCE")?,
            told::<SinceTime>("MUST_GATHER_SINCE_TIME")?,
        ),
        given => given,
    };
    let since = since.map(|since| since.before(now));
    let time = time.map(|SinceTime(time)| time);
    // Rather more than asked for than less.
    Ok(since.into_iter().chain(time).min())
}

async fn work(
    arguments: &MustGatherArgs,
    since: Option<Timestamp>,
    folder: &Folder,
) -> anyhow::Result<Summary> {
    let options = Options {
        namespace: arguments.namespace.clone().filter(|name| !name.is_empty()),
        limits: Limits::of_node(arguments.node_log_limit.saturating_mul(1024 * 1024)),
        since,
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

/// Waits until somebody asks the process to end, or the terminal is gone, and says by which signal.
async fn interruption() -> u8 {
    // Their numbers are the same on all systems.
    tokio::select! {
        () = received(SignalKind::hangup()) => 1,
        () = received(SignalKind::interrupt()) => 2,
        () = received(SignalKind::terminate()) => 15,
    }
}

async fn received(kind: SignalKind) {
    match signal(kind) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    }
}
