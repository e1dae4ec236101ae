//! Measures a cluster larger than most: 5,000 nodes, 2,000 of them with Windows, and 150,000 pods.

use anyhow::Result;

use crate::Options;
use crate::cluster::{self, Part, Size};
use crate::memory::usage_of_operator;
use crate::report::{Row, rows};
use crate::{decision, start};

const HUGE: Size = Size {
    windows: Part {
        nodes: 2_000,
        stateful_pods: 5_000,
        stateless_pods: 8_000,
    },
    linux: Part {
        nodes: 3_000,
        stateful_pods: 2_000,
        stateless_pods: 130_000,
    },
    without_driver: 1,
};
/// How often the gate is opened.
const OPENINGS: usize = 12;

/// Measures memory, the time to the first verdict, and the gate.
pub fn measure(options: Options) -> Result<Vec<Row>> {
    let control_plane = cluster::start(&HUGE)?;
    let usage = usage_of_operator(&control_plane, &HUGE, options)?;
    // Without kubectl for comparison: it needs 12 GB, more than the API server leaves of 24 GB.
    let verdict = start::first_verdict(&control_plane)?;
    let mut rows = rows! {
        "anonymous, steady" => usage.steady, "MB", at_most 100.0;
        "anonymous, peak" => usage.peak, "MB", at_most 100.0;
        "process start to the first correct OperatorCondition" => verdict, "s";
    };
    rows.extend(decision::on(&control_plane, &HUGE, OPENINGS)?);
    Ok(rows)
}
