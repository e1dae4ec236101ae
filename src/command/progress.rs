//! How far `must-gather` is: a line that moves on a terminal, lines one below the other elsewhere.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use windows_storage_operator::gather::Progress;
use windows_storage_operator::visible::visible;

use crate::command::tell;

/// Fits into 40 columns; what is longer is cut at the terminal's width.
const READING: &str = "{spinner} {wide_msg}";
const NODES: &str = "{spinner} [{bar:12}] {pos}/{len} {wide_msg}";

/// What is shown.
pub struct Shown {
    /// On a terminal.
    bar: Option<ProgressBar>,
    /// The kind that was told of last, elsewhere.
    told: String,
}

impl Shown {
    /// Nothing is shown yet.
    pub fn new() -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            style(&bar, READING);
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self {
            bar,
            told: String::new(),
        }
    }

    /// Shows how far it is.
    pub fn show(&mut self, progress: &Progress<'_>) {
        match &self.bar {
            Some(bar) => on_terminal(bar, progress),
            None => self.line_by_line(progress),
        }
    }

    /// Nothing more is shown.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }

    fn line_by_line(&mut self, progress: &Progress<'_>) {
        match progress {
            // A line for each kind, not for each page.
            Progress::Objects(read) if read.what == self.told => {}
            Progress::Objects(read) => {
                read.what.clone_into(&mut self.told);
                tell(&format!(
                    "reading {} ({} of {})",
                    read.what,
                    read.done + 1,
                    read.of
                ));
            }
            Progress::Operator => tell("reading what is the operator's own"),
            Progress::Nodes { of, last: None, .. } => {
                tell(&format!("looking at {of} Windows node(s)"));
            }
            Progress::Nodes {
                done,
                of,
                last: Some(node),
            } => tell(&format!(
                "node {done} of {of}, {}: {}",
                visible(&node.name),
                visible(&node.words)
            )),
        }
    }
}

fn on_terminal(bar: &ProgressBar, progress: &Progress<'_>) {
    match progress {
        Progress::Objects(read) => bar.set_message(format!(
            "{} ({}/{}), {} objects",
            read.what,
            read.done,
            read.of,
            HumanCount(read.objects)
        )),
        Progress::Operator => bar.set_message("the operator's own"),
        Progress::Nodes { done, of, last } => {
            if last.is_none() {
                style(bar, NODES);
                bar.set_length(*of as u64);
            }
            bar.set_position(*done as u64);
            bar.set_message(last.map_or_else(|| "nodes".to_owned(), |node| visible(&node.name)));
        }
    }
}

fn style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
}
