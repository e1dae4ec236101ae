//! Reports the figures as a table and as JSON.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// One figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// The figure.
    pub value: f64,
    /// Its unit: `ms`, `MB` (10⁶ bytes), `×` for a ratio of two figures of this run, …
    pub unit: String,
    /// The upper limit, or the lower limit if `at_least` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bar: Option<f64>,
    /// Whether the bar is a lower limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// Builds a table of figures: `what => value, unit`, optionally followed by `at_most` or `at_least` and a bar.
macro_rules! rows {
    ($($what:expr => $value:expr, $unit:literal $(, $bar:ident $limit:expr)?;)*) => {
        vec![$($crate::report::Row::new($what, $value, $unit)$(.$bar($limit))?),*]
    };
}
pub(crate) use rows;

impl Row {
    /// Creates a figure without a bar.
    pub fn new(what: impl Into<String>, value: f64, unit: &str) -> Self {
        Self {
            what: what.into(),
            value,
            unit: unit.to_owned(),
            bar: None,
            at_least: false,
        }
    }

    /// Sets an upper limit.
    #[must_use]
    pub fn at_most(self, bar: f64) -> Self {
        let bar = Some(bar);
        Self { bar, ..self }
    }

    /// Sets a lower limit.
    #[must_use]
    pub fn at_least(self, bar: f64) -> Self {
        Self {
            bar: Some(bar),
            at_least: true,
            ..self
        }
    }

    fn is_met(&self) -> Option<bool> {
        let bar = self.bar?;
        Some(if self.at_least {
            self.value >= bar
        } else {
            self.value <= bar
        })
    }

    fn line(&self) -> String {
        let number = |value: f64| match value.abs() {
            small if small < 10.0 => format!("{value:.3}"),
            middle if middle < 1000.0 => format!("{value:.1}"),
            _ => format!("{value:.0}"),
        };
        let bar = self.bar.map_or_else(String::new, |bar| {
            let sign = if self.at_least { "≥" } else { "≤" };
            format!("{sign} {} {}", number(bar), self.unit)
        });
        let met = match self.is_met() {
            None => "",
            Some(true) => "met",
            Some(false) => "MISSED",
        };
        let value = format!("{} {}", number(self.value), self.unit);
        format!("  {:<72} {value:>14} {bar:>14} {met}", self.what)
    }
}

/// All figures of one machine, by measurement.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    machine: Machine,
    measurements: BTreeMap<String, Measured>,
}

/// The figures of one measurement, and what they were measured on.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    /// When it was measured, in seconds since 1970.
    at: u64,
    /// The commit as `git describe` names it; empty if git fails.
    commit: String,
    /// Whether it was measured with all repetitions, at full length.
    full: bool,
    rows: Vec<Row>,
}

impl Report {
    /// Reads the report in this file, so that a part can be measured again. Figures of another machine are dropped.
    pub fn read_or_new(path: &Path) -> Result<Self> {
        let machine = Machine::this()?;
        let new = Self {
            machine: machine.clone(),
            measurements: BTreeMap::new(),
        };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(new),
            Err(error) => {
                return Err(error).with_context(|| format!("reading {}", path.display()));
            }
        };
        let known: Self = serde_json::from_str(&text).with_context(|| {
            let path = path.display();
            format!("{path} holds something else than figures of this version; remove it, or name another file with --json")
        })?;
        Ok(if known.machine == machine { known } else { new })
    }

    /// Replaces the figures of one measurement.
    pub fn replace(&mut self, measurement: &str, full: bool, rows: Vec<Row>) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let described = Command::new("git")
            .args(["describe", "--always", "--dirty"])
            .output();
        let measured = Measured {
            at: now.map_or(0, |now| now.as_secs()),
            commit: described.map_or_else(
                |_| String::new(),
                |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            ),
            full,
            rows,
        };
        self.measurements.insert(measurement.to_owned(), measured);
    }

    /// Writes the report as JSON.
    pub fn write(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        let text = serde_json::to_string_pretty(self)?;
        fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))
    }

    /// Prints one measurement as a table.
    pub fn print(&self, measurement: &str) {
        let measured = self.measurements.get(measurement);
        let lines = measured
            .into_iter()
            .flat_map(|measured| &measured.rows)
            .map(Row::line);
        let title = format!("{measurement} ({})", self.machine);
        for line in std::iter::once(title).chain(lines) {
            // An error is ignored: the figures are in the file as well.
            let _ = writeln!(io::stdout(), "{line}");
        }
    }
}
