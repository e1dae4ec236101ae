//! Shows the progress of a command.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressFinish, ProgressStyle};
use windows_storage_operator::check;

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
        bytes,
    } = *reading;
    let bytes = bytes.map(|bytes| format!(", {}", HumanBytes(bytes)));
    bar.set_message(format!(
        "reading {} ({done} of {of} done, {} objects{})",
        what.escape_debug(),
        HumanCount(objects),
        bytes.unwrap_or_default()
    ));
}

/// A line that is updated on a terminal; elsewhere, each new one is a line of its own. It is gone with this value.
pub struct Line {
    bar: ProgressBar,
    /// The last line reported, if there is no terminal.
    last: String,
}

impl Line {
    /// Shows nothing yet.
    pub fn new() -> Self {
        Self {
            bar: spinner().with_finish(ProgressFinish::AndClear),
            last: String::new(),
        }
    }

    /// Shows the line.
    pub fn show(&mut self, line: &str) {
        if stderr().is_terminal() {
            self.bar.set_message(line.to_owned());
        } else if line != self.last {
            report_line(line);
            line.clone_into(&mut self.last);
        }
    }
}
