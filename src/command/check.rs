//! `check`: the judgement on a cluster or on files.

use jiff::Timestamp;
use windows_storage_operator::assess::assess;
use windows_storage_operator::assess::report::Upgradeable;
use windows_storage_operator::report::render;

use crate::cli::CheckArgs;
use crate::command::{input, is_colored, print};

/// Judges and shows the judgement.
pub fn check(arguments: &CheckArgs) -> anyhow::Result<Upgradeable> {
    let mut cluster = input::read(&arguments.input)?.cluster;
    let report = assess(&mut cluster);
    let color = is_colored(arguments.color);
    let made = Timestamp::now();
    print(&render(&report, arguments.output, color, made)?)?;
    Ok(report.verdict.upgradeable)
}
