//! The readiness report, for people as a table or a page, for machines as JSON or YAML.

mod color;
mod grid;
mod html;
mod nodes;
mod question;
mod sentences;
mod table;
mod view;
mod visible;
mod why;

use std::io;

use clap::ValueEnum;
use jiff::Timestamp;
use serde::Serialize;

use crate::assess::report::ReadinessReport;
pub use color::{ColorChoice, use_color};
pub use nodes::{NodeList, NodesFormat};
pub use question::{Kind, Question, QuestionError};
pub(crate) use visible::{json as escaped, json_as_yaml as escaped_for_yaml};
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

/// Writes the report. `color` is for [`Format::Table`] alone; [`use_color`] knows whether it is wanted. When it was made
/// is on the page alone, which outlives the others: these are the same as long as what was judged is.
pub fn render(
    report: &ReadinessReport,
    format: Format,
    color: bool,
    made: Timestamp,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let text = match format {
        Format::Table => table::render(&visible::report(report), color),
        Format::Json => json(report)?,
        Format::Yaml => yaml(report)?,
        Format::Html => html::render(&visible::report(report), made),
    };
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn json(value: &impl Serialize) -> io::Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    Ok(visible::json(&text) + "\n")
}

fn json_as_yaml(value: &impl Serialize) -> io::Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    Ok(visible::json_as_yaml(&text) + "\n")
}

fn yaml(value: &impl Serialize) -> io::Result<String> {
    let text = serde_yaml::to_string(value).map_err(io::Error::other)?;
    // YAML's plain and single-quoted strings know no escapes. JSON is YAML too and can say everything.
    if visible::is_visible_text(&text) {
        Ok(text)
    } else {
        json_as_yaml(value)
    }
}

#[cfg(test)]
mod tests;
