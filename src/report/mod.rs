//! Renders the readiness report: for people as a table or a page, for machines as JSON or YAML.

mod blocks;
mod check;
mod hosts;
mod html;
mod json;
mod notes;
mod preview;
mod question;
mod sentences;
mod tables;
mod text;
mod why;

use std::io;

use clap::ValueEnum;
use jiff::Timestamp;
use serde::Serialize;

use crate::assess::report::{About, ReadinessReport};
use blocks::Block;
pub use hosts::hosts;
pub(crate) use json::{json, json_as_yaml};
pub use preview::preview;
pub use question::{Kind, Question, QuestionError};
pub(crate) use sentences::{count, names};
pub use why::{Answer, Explanation, explain};

/// What a report is written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for a terminal
    #[default]
    Table,
    /// The whole report for programs
    Json,
    /// The same as JSON, as YAML
    Yaml,
    /// One self-contained page
    Html,
}

/// Renders the report. `color` applies to [`Format::Table`] only.
pub fn render(report: &ReadinessReport, format: Format, color: bool) -> io::Result<String> {
    match format {
        Format::Html => Ok(check::page(report)),
        format => drawn(report, || check::lines(report), format, color),
    }
}

/// Renders `value` for programs, or its lines for people.
fn drawn(
    value: &impl Serialize,
    lines: impl FnOnce() -> Vec<Block>,
    format: Format,
    color: bool,
) -> io::Result<String> {
    match format {
        Format::Json => json(value),
        Format::Yaml => json::yaml(value),
        Format::Table | Format::Html => Ok(text::draw(&lines(), color)),
    }
}

/// Returns what reports are about that are made now. The caller adds what was read.
pub fn about(now: Timestamp) -> About {
    let time = Timestamp::from_second(now.as_second()).unwrap_or(now);
    About {
        time: time.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..About::default()
    }
}

#[cfg(test)]
mod tests;
