//! Measures the sizes of the programs.

use std::fs;

use anyhow::Result;

use crate::figures::megabytes;
use crate::report::{Row, rows};
use crate::{Options, operator_binary, payload};

/// Measures the operator and the agent as shipped: stripped, and the operator without its payload.
pub fn measure(_: Options) -> Result<Vec<Row>> {
    let operator = fs::metadata(operator_binary()?)?.len();
    let agent = fs::metadata(payload()?.join("windows-storage-agent.exe"))?.len();
    Ok(rows! {
        "operator, stripped" => megabytes(operator), "MB", at_most 15.0;
        "agent, stripped" => megabytes(agent), "MB", at_most 2.0;
    })
}
