//! `check`: the judgement on a cluster or on files.

use std::io::{self, ErrorKind, IsTerminal};

use anyhow::Context;
use jiff::Timestamp;
use windows_storage_operator::assess::assess;
use windows_storage_operator::assess::report::Upgradeable;
use windows_storage_operator::report::{render, use_color};

use crate::cli::CheckArgs;
use crate::command::input;

/// Judges and shows the judgement.
pub fn check(arguments: &CheckArgs) -> anyhow::Result<Upgradeable> {
    let mut cluster = input::read(&arguments.input)?.cluster;
    let report = assess(&mut cluster);
    let stdout = io::stdout();
    let color = use_color(arguments.color, stdout.is_terminal(), |name| {
        std::env::var_os(name)
    });
    let made = Timestamp::now();
    match render(&report, arguments.output, color, made, &mut stdout.lock()) {
        // Who reads only the first lines has not failed, and neither has the judgement.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written.context("cannot write the report")?,
    }
    Ok(report.verdict.upgradeable)
}
