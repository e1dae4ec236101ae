//! Shows the progress of a command: one updated line on a terminal, separate lines elsewhere for `must-gather`.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use windows_storage_operator::check;
use windows_storage_operator::gather::Stage;
use windows_storage_operator::visible::visible;

use crate::command::report_line;

/// Returns a spinner on standard error, which shows nothing unless that is a terminal. Text beyond the terminal's width is
/// cut.
pub fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// Shows the progress of reading.
pub fn show_reading(bar: &ProgressBar, reading: &check::Progress<'_>) {
    let check::Progress {
        what,
        done,
        of,
        objects,
    } = *reading;
    bar.set_message(format!(
        "reading {} ({done} of {of} done, {} objects)",
        what.escape_debug(),
        HumanCount(objects)
    ));
}

/// The progress display of `must-gather`.
pub struct Gathering {
    bar: ProgressBar,
    /// The last line reported, if there is no terminal.
    last: String,
}

impl Gathering {
    /// Creates a display that shows nothing yet.
    pub fn new() -> Self {
        Self {
            bar: spinner(),
            last: String::new(),
        }
    }

    /// Shows the progress.
    pub fn show(&mut self, stage: &Stage<'_>) {
        let line = match stage {
            Stage::Objects(reading) if stderr().is_terminal() => {
                return show_reading(&self.bar, reading);
            }
            Stage::Objects(reading) => {
                let (kind, number, of) = (reading.what, reading.done + 1, reading.of);
                format!("reading {kind} ({number} of {of})")
            }
            Stage::Operator => "reading what is the operator's own".to_owned(),
            Stage::Nodes { of, last: None, .. } => format!("collecting from {of} Windows node(s)"),
            Stage::Nodes {
                done,
                of,
                last: Some(node),
            } => {
                let (name, words) = (visible(&node.name), visible(&node.words));
                format!("node {done} of {of}, {name}: {words}")
            }
        };
        if stderr().is_terminal() {
            self.bar.set_message(line);
        } else if line != self.last {
            // One line per kind, not per page.
            report_line(&line);
            self.last = line;
        }
    }

    /// Ends the display.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
