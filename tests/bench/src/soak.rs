//! Does anything grow? Objects come and go, watches are dropped, the API server is restarted, hosts die and come back,
//! and every so often all stands still and the gate has to say what the objects say. One
//! operator runs, so no leader changes: the API server's restarts stand in for that, since after each all is connected and
//! read anew.
//!
//! Time is compressed where nothing that grows hangs on it: changes come as fast as the API server takes them, hosts are
//! looked at every ten seconds rather than every five minutes. The gate's own pauses and the watches' lives are as they
//! are.

mod cluster;
mod plot;
mod rounds;
mod sample;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use testbed::api_proxy::ApiProxy;
use testbed::sandbox::Sandbox;

use crate::report::Row;
use crate::{Options, operator_binary, root};
use cluster::Cluster;
use rounds::{Rounds, Tally};
use sample::{Sampler, Series};

const MINUTES: u64 = 3;
const MINUTES_FULL: u64 = 60;
const PLOT: &str = "target/bench/soak.svg";

/// Runs the operator through all of it, and looks at what it takes of the machine.
pub fn measure(options: Options) -> Result<Vec<Row>> {
    let minutes = if options.full { MINUTES_FULL } else { MINUTES };
    let sandbox = Sandbox::start()?;
    let cluster = Cluster::new(&sandbox)?;
    let payload = cluster::payload(sandbox.control_plane.dir())?;
    let command = sandbox.operator(&operator_binary()?, &payload)?;
    let proxy = ApiProxy::start(command.kubeconfig())?;
    let log = sandbox.control_plane.dir().join("operator.log");
    let mut operator = command.with_kubeconfig(proxy.kubeconfig()).start(
        Some(&log),
        &["--serve-address=127.0.0.1:0"],
        true,
    )?;
    let sampler = Sampler::start(operator.id(), served_at(&log)?);
    let mut rounds = Rounds::new(&sandbox, &proxy, cluster)?;
    let length = Duration::from_secs(minutes * 60);
    let tally = rounds.run(length).and_then(|tally| {
        let ended = operator.ended()?;
        anyhow::ensure!(ended.is_none(), "the operator ended: {ended:?}");
        Ok(tally)
    });
    let tally = tally.with_context(|| last_words(&log))?;
    let series = sampler.finish()?;
    println!("{}", plot::text(&series));
    let file = root().join(PLOT);
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&file, plot::svg(&series, &tally.restarts))?;
    println!("plot: {PLOT}");
    Ok(rows(minutes, &tally, &series))
}

/// Where the operator serves its metrics, as its log tells.
fn served_at(log: &Path) -> Result<String> {
    const MARKER: &str = "health and metrics are served on http://";
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        if let Some((_, rest)) = text.split_once(MARKER)
            && let Some((address, _)) = rest.split_once(char::is_whitespace)
        {
            return Ok(address.to_owned());
        }
        anyhow::ensure!(
            Instant::now() < deadline,
            "the operator does not start:\n{text}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn last_words(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(30)..];
    format!("the operator's last words:\n{}", last.join("\n"))
}

#[allow(clippy::cast_precision_loss, reason = "counts of minutes")]
fn rows(minutes: u64, tally: &Tally, series: &Series) -> Vec<Row> {
    let told = |what: &str, count: usize| Row::new(format!("soak: {what}"), count as f64, "");
    let mut rows = vec![
        Row::new("soak: length", minutes as f64, "min"),
        told("changes of objects", tally.changes),
        told("watches ended", tally.watches),
        told("API server restarts", tally.restarts.len()),
        told("hosts that died", tally.deaths),
        told("quiet points", tally.quiet),
        told(
            "quiet points at which the gate said something else",
            tally.wrong,
        )
        .at_most(0.0),
        told("times opened when it could be", tally.rightly_opened).at_least(1.0),
        told("times opened while it had to be closed", tally.opened).at_most(0.0),
    ];
    for curve in &series.curves {
        let name = curve.name;
        rows.push(Row::new(
            format!("soak: {name}, fourth quarter's median"),
            curve.last_quarter(),
            curve.unit,
        ));
        let change = Row::new(
            format!("soak: {name}, fourth quarter's median beside the second's"),
            curve.growth(),
            "%",
        );
        if curve.is_memory {
            rows.push(change.at_most(10.0));
            rows.push(Row::new(
                format!("soak: {name}, slope after the first quarter"),
                curve.slope_per_minute() * 1000.0,
                "kB/min",
            ));
        } else {
            rows.push(change);
            rows.push(
                Row::new(
                    format!("soak: {name} at the end over the most of the second quarter"),
                    curve.end_over_second_quarter(),
                    curve.unit,
                )
                .at_most(0.0),
            );
        }
    }
    rows
}
