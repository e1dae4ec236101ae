//! Does anything grow? Objects come and go, watches are dropped, the API server is restarted, hosts die and come back,
//! and every so often all stands still and the gate has to say what the objects say. One
//! operator runs, so no leader changes: the API server's restarts stand in for that, since after each all is connected and
//! read anew.
//!
//! Time is compressed where nothing that grows hangs on it: changes come as fast as the API server takes them, hosts are
//! looked at every ten seconds rather than every five minutes. The gate's own pauses and the watches' lives are as they
//! are.

mod cluster;
mod rounds;
mod trend;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use testbed::api_proxy::ApiProxy;
use testbed::sandbox::Sandbox;

use crate::process::Sampler;
use crate::report::Row;
use crate::{Options, operator_binary};
use cluster::Cluster;
use rounds::{Rounds, Tally};
use trend::trends;

const MINUTES: u64 = 3;
const MINUTES_FULL: u64 = 60;
/// Pauses between two looks at the process.
const INTERVAL: Duration = Duration::from_secs(1);

/// Runs the operator through all of it, and looks at what it takes of the machine.
pub fn measure(options: Options) -> Result<Vec<Row>> {
    let minutes = if options.full { MINUTES_FULL } else { MINUTES };
    let sandbox = Sandbox::start()?;
    let cluster = Cluster::new(&sandbox)?;
    let payload = cluster::payload(sandbox.control_plane.dir())?;
    let command = sandbox.operator(&operator_binary()?, &payload)?;
    let proxy = ApiProxy::start(command.kubeconfig())?;
    let log = sandbox.control_plane.dir().join("operator.log");
    let command = command.with_kubeconfig(proxy.kubeconfig());
    let mut operator = command.start(Some(&log), &[], true)?;
    let sampler = Sampler::start(operator.id(), INTERVAL);
    let mut rounds = Rounds::new(&sandbox, &proxy, cluster)?;
    let length = Duration::from_secs(minutes * 60);
    let tally = rounds.run(length).and_then(|tally| {
        let ended = operator.ended()?;
        anyhow::ensure!(ended.is_none(), "the operator ended: {ended:?}");
        Ok(tally)
    });
    let tally = tally.with_context(|| last_words(&log))?;
    let mut rows = rows(minutes, &tally);
    rows.extend(trends(&sampler.finish()?, INTERVAL));
    Ok(rows)
}

fn last_words(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(30)..];
    format!("the operator's last words:\n{}", last.join("\n"))
}

#[allow(clippy::cast_precision_loss, reason = "counts of minutes")]
fn rows(minutes: u64, tally: &Tally) -> Vec<Row> {
    let told = |what: &str, count: usize| Row::new(format!("soak: {what}"), count as f64, "");
    vec![
        Row::new("soak: length", minutes as f64, "min"),
        told("changes of objects", tally.changes),
        told("watches ended", tally.watches),
        told("API server restarts", tally.restarts),
        told("hosts that died", tally.deaths),
        told("quiet points", tally.quiet),
        told(
            "quiet points at which the gate said something else",
            tally.wrong,
        )
        .at_most(0.0),
        told("times opened when it could be", tally.rightly_opened).at_least(1.0),
        told("times opened while it had to be closed", tally.opened).at_most(0.0),
    ]
}
