//! The report as text for a terminal.

use std::fmt::Write;

use crate::assess::report::{NodeReadiness, ReadinessReport, VolumeUse};

use super::color::{Paint, Tone};
use super::grid::{self, Cell};
use super::sentences::{count, names, nodes_left_out};
use super::view::{First, Group, Limits, Nodes, Note, View};

const INDENT: usize = 2;

/// Writes the report, in which nothing may be hidden.
pub(super) fn render(report: &ReadinessReport, color: bool) -> String {
    let view = View::of(report, Limits::TERMINAL);
    let mut page = Page {
        text: String::new(),
        paint: Paint { color },
    };
    page.headline(&view, report.verdict.reason.as_str());
    if !view.blocking.is_empty() {
        page.title(view.blocking_title);
        page.groups(&view.blocking);
    }
    page.nodes(&view.nodes, &view.node_notes);
    if !view.other_drivers.shown.is_empty() {
        page.title("Other missing drivers, not blocking");
        page.groups(&view.other_drivers.shown);
        page.more(0, view.other_drivers.more, "driver");
    }
    if !view.notes.shown.is_empty() {
        page.title("Other findings");
        page.notes(0, &view.notes);
    }
    page.line("");
    page.line(&view.counts);
    page.text
}

/// A text for a terminal, as far as it is written.
pub(super) struct Page {
    /// The text.
    pub(super) text: String,
    /// Whether it is coloured.
    pub(super) paint: Paint,
}

impl Page {
    /// Adds a line.
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn headline(&mut self, view: &View<'_>, reason: &str) {
        let headline = &view.headline;
        let verdict = format!("{} ({reason})", headline.verdict);
        let verdict = self.paint.paint(headline.tone, &verdict);
        // One line each: together they are too long to be read at a glance.
        let sentences = headline.sentences.join("\n  ");
        self.line(&format!("{verdict}: {sentences}"));
    }

    /// Adds a title, with an empty line before it.
    pub(super) fn title(&mut self, title: &str) {
        let title = self.paint.paint(Tone::Strong, &title.to_uppercase());
        self.line("");
        self.line(&title);
    }

    /// Adds what is said of drivers that are missing.
    pub(super) fn groups(&mut self, groups: &[Group<'_>]) {
        for (number, group) in groups.iter().enumerate() {
            if number > 0 {
                self.line("");
            }
            let name = self.paint.paint(Tone::Strong, group.name);
            self.line(&format!("{name}: {}.", group.what));
            if let Some(daemon_set) = group.daemon_set {
                self.line(&format!("  DaemonSet for Windows nodes: {daemon_set}"));
            }
            self.notes(INDENT, &group.notes);
            self.volumes(&group.volumes);
        }
    }

    fn volumes(&mut self, volumes: &First<&VolumeUse>) {
        if volumes.shown.is_empty() {
            return;
        }
        let rows: Vec<_> = volumes.shown.iter().map(|volume| row(volume)).collect();
        let header = [
            "NAMESPACE",
            "WORKLOAD",
            "VOLUME",
            "CLAIM",
            "PERSISTENT VOLUME",
            "CLASS",
            "PLUGIN",
        ];
        grid::write(&mut self.text, self.paint, INDENT, header, &rows);
        self.more(INDENT, volumes.more, "volume");
    }

    fn nodes(&mut self, nodes: &Nodes<'_>, findings: &First<Note<'_>>) {
        let left_out = nodes_left_out(nodes);
        if nodes.shown.is_empty() && left_out.is_none() {
            return;
        }
        self.title("Windows nodes");
        if !nodes.shown.is_empty() {
            let rows: Vec<_> = nodes.shown.iter().map(|node| node_row(node)).collect();
            let header = ["NAME", "READY", "CSINODE", "DRIVERS", "MISSING DRIVERS"];
            grid::write(&mut self.text, self.paint, 0, header, &rows);
        }
        if let Some(left_out) = left_out {
            self.line(&left_out);
        }
        self.notes(0, findings);
    }

    /// Adds findings.
    pub(super) fn notes(&mut self, indent: usize, notes: &First<Note<'_>>) {
        for note in &notes.shown {
            let places: Vec<&str> = note.places.iter().map(String::as_str).collect();
            let bullet = self.paint.paint(Tone::Warning, "*");
            let _ = writeln!(
                self.text,
                "{:indent$}{bullet} {} ({}: {})",
                "",
                note.message,
                note.code,
                names(&places)
            );
        }
        self.more(indent, notes.more, "finding");
    }

    fn more(&mut self, indent: usize, more: usize, thing: &str) {
        if more > 0 {
            let more = count(more, &format!("more {thing}"));
            let _ = writeln!(self.text, "{:indent$}and {more} (-o json lists all)", "");
        }
    }
}

fn row(volume: &VolumeUse) -> [Cell; 7] {
    let workload = &volume.workload;
    let cell = |text: &Option<String>| Cell::new(text.as_deref().unwrap_or_default());
    [
        Cell::new(&workload.namespace),
        Cell::new(format!(
            "{}/{}",
            workload.kind.to_lowercase(),
            workload.name
        )),
        Cell::new(&volume.volume),
        cell(&volume.persistent_volume_claim),
        cell(&volume.persistent_volume),
        cell(&volume.storage_class),
        cell(&volume.plugin),
    ]
}

fn node_row(node: &NodeReadiness) -> [Cell; 5] {
    let list = |drivers: &[String]| {
        Cell::new(names(
            &drivers.iter().map(String::as_str).collect::<Vec<_>>(),
        ))
    };
    let missing = list(&node.missing_drivers);
    [
        Cell::new(&node.name),
        yes_or_no(node.ready),
        yes_or_no(node.csi_node),
        list(&node.drivers),
        if node.missing_drivers.is_empty() {
            missing
        } else {
            missing.tone(Tone::Bad)
        },
    ]
}

/// For whether something is as it should be.
pub(super) fn yes_or_no(good: bool) -> Cell {
    if good {
        Cell::new("yes").tone(Tone::Good)
    } else {
        Cell::new("no").tone(Tone::Bad)
    }
}
