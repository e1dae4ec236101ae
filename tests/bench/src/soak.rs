//! Soak test: does anything grow? Objects are created and deleted, watches are dropped, the API server is restarted,
//! hosts die and recover. At quiet points everything pauses, and the gate has to match the objects. One operator runs,
//! so there is no change of leader; the API server's restarts stand in for that, since the operator then reconnects and
//! reads everything again.
//!
//! Time is compressed where growth does not depend on it: changes come as fast as the API server takes them, and hosts
//! are checked every ten seconds rather than every five minutes. The gate's own pauses and the lifetimes of watches are
//! not changed.

mod cluster;
mod rounds;
mod trend;

use std::time::Duration;

use anyhow::{Context, Result};
use testbed::api_proxy::ApiProxy;
use testbed::sandbox::Sandbox;

use crate::process::{Sampler, last_lines};
use crate::report::{Row, rows};
use crate::{Options, operator_binary, small_payload};
use cluster::Cluster;
use rounds::{Rounds, Tally};
use trend::trends;

const MINUTES: u64 = 3;
const MINUTES_FULL: u64 = 60;
/// Interval between two samples of the process.
const INTERVAL: Duration = Duration::from_secs(1);

/// Runs the soak and samples the operator's resource use.
pub fn measure(options: Options) -> Result<Vec<Row>> {
    let minutes = if options.full { MINUTES_FULL } else { MINUTES };
    let sandbox = Sandbox::start()?;
    let cluster = Cluster::new(&sandbox)?;
    // Simulated hosts run no programs, so a few bytes are enough.
    let payload = small_payload(sandbox.control_plane.dir(), 32, 32)?;
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
    let tally = tally.with_context(|| last_lines(&log))?;
    let mut rows = rows(minutes, &tally);
    rows.extend(trends(&sampler.finish()?, INTERVAL));
    Ok(rows)
}

#[allow(clippy::cast_precision_loss, reason = "counts of minutes")]
fn rows(minutes: u64, tally: &Tally) -> Vec<Row> {
    rows! {
        "soak: length" => minutes as f64, "min";
        "soak: changes of objects" => tally.changes as f64, "";
        "soak: watches ended" => tally.watches as f64, "";
        "soak: API server restarts" => tally.restarts as f64, "";
        "soak: hosts that died" => tally.deaths as f64, "";
        "soak: quiet points" => tally.quiet as f64, "";
        "soak: quiet points at which the gate said something else" => tally.wrong as f64, "", at_most 0.0;
        "soak: times opened when it could be" => tally.rightly_opened as f64, "", at_least 1.0;
        "soak: times opened while it had to be closed" => tally.opened as f64, "", at_most 0.0;
    }
}
