//! The report as one page that needs nothing else.

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::assess::report::{DriverReadiness, NodeReadiness, ReadinessReport, VolumeUse};

use super::color::Tone;
use super::sentences::{as_sentence, count, names, nodes_left_out};
use super::view::{First, Group, Limits, Nodes, Note, View};

const STYLE: &str = include_str!("style.css");
/// Should anything of the cluster's ever get past the escaping, it does nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Writes the report, in which nothing may be hidden.
pub(super) fn render(report: &ReadinessReport, made: Timestamp) -> String {
    let view = View::of(report, Limits::PAGE);
    let headline = &view.headline;
    let made = Timestamp::from_second(made.as_second()).unwrap_or(made);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                title { (headline.verdict) ": Windows storage readiness" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header class=(class(headline.tone)) {
                    h1 { (headline.verdict) }
                    p { code { (report.verdict.reason.as_str()) } ": " (headline.sentences.join(" ")) }
                }
                main {
                    (matrix(&view.nodes, &view.drivers))
                    (groups(view.blocking_title, &view.blocking, 0))
                    (findings("Findings on nodes", &view.node_notes))
                    (groups("Other missing drivers, not blocking", &view.other_drivers.shown, view.other_drivers.more))
                    (findings("Other findings", &view.notes))
                }
                footer {
                    p { (view.counts) }
                    p { "Made " time datetime=(made) { (made) } }
                }
            }
        }
    };
    page.into_string() + "\n"
}

fn matrix(nodes: &Nodes<'_>, drivers: &First<&DriverReadiness>) -> Markup {
    let left_out = nodes_left_out(nodes);
    if nodes.shown.is_empty() && left_out.is_none() {
        return html! {};
    }
    html! {
        section class="matrix" {
            h2 { "Windows nodes" }
            @if !nodes.shown.is_empty() {
                (scroll("Windows nodes and their drivers", &html! {
                    thead {
                        tr {
                            th scope="col" { "Node" }
                            th scope="col" { "Ready" }
                            th scope="col" { "CSINode" }
                            @for driver in &drivers.shown {
                                th scope="col" { code { (driver.name) } }
                            }
                        }
                    }
                    tbody {
                        @for node in &nodes.shown {
                            tr {
                                th scope="row" { code { (node.name) } }
                                (state(node.ready, "ready", "not ready"))
                                (state(node.csi_node, "present", "missing"))
                                @for driver in &drivers.shown { (registration(node, &driver.name)) }
                            }
                        }
                    }
                }))
            }
            @if let Some(left_out) = left_out { p { (left_out) } }
            (more(drivers.more, "driver"))
        }
    }
}

fn registration(node: &NodeReadiness, driver: &str) -> Markup {
    let is_in = |drivers: &[String]| drivers.iter().any(|name| name == driver);
    if is_in(&node.drivers) {
        state(true, "registered", "")
    } else if is_in(&node.missing_drivers) {
        state(false, "", "missing")
    } else {
        html! { td { "not needed" } }
    }
}

fn state(good: bool, yes: &str, no: &str) -> Markup {
    if good {
        html! { td class=(class(Tone::Good)) { (yes) } }
    } else {
        html! { td class=(class(Tone::Bad)) { (no) } }
    }
}

fn groups(title: &str, groups: &[Group<'_>], hidden: usize) -> Markup {
    if groups.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 { (title) }
            @for group in groups {
                h3 { code { (group.name) } }
                p { (as_sentence(&group.what)) }
                @if let Some(daemon_set) = group.daemon_set {
                    p { "DaemonSet for Windows nodes: " code { (daemon_set) } }
                }
                @if !group.volumes.shown.is_empty() {
                    h4 { "Volumes" }
                    (scroll(&format!("Volumes: {}", group.name), &volumes(&group.volumes.shown)))
                    (more(group.volumes.more, "volume"))
                }
                @if !group.notes.shown.is_empty() {
                    h4 { "What to do" }
                    (notes(&group.notes))
                }
            }
            (more(hidden, "driver"))
        }
    }
}

fn volumes(volumes: &[&VolumeUse]) -> Markup {
    html! {
        thead {
            tr {
                th scope="col" { "Namespace" }
                th scope="col" { "Workload" }
                th scope="col" { "Volume" }
                th scope="col" { "Claim" }
                th scope="col" { "Persistent volume" }
                th scope="col" { "Class" }
                th scope="col" { "Plugin" }
            }
        }
        tbody {
            @for volume in volumes {
                tr {
                    td { code { (volume.workload.namespace) } }
                    th scope="row" {
                        code { (volume.workload.kind.to_lowercase()) "/" (volume.workload.name) }
                    }
                    td { code { (volume.volume) } }
                    (name(volume.persistent_volume_claim.as_deref()))
                    (name(volume.persistent_volume.as_deref()))
                    (name(volume.storage_class.as_deref()))
                    (name(volume.plugin.as_deref()))
                }
            }
        }
    }
}

fn name(name: Option<&str>) -> Markup {
    html! {
        td {
            @if let Some(name) = name { code { (name) } } @else { "none" }
        }
    }
}

fn findings(title: &str, findings: &First<Note<'_>>) -> Markup {
    if findings.shown.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 { (title) }
            (notes(findings))
        }
    }
}

fn notes(notes: &First<Note<'_>>) -> Markup {
    if notes.shown.is_empty() {
        return html! {};
    }
    html! {
        ul {
            @for note in &notes.shown {
                @let places: Vec<&str> = note.places.iter().map(String::as_str).collect();
                li {
                    (note.message) " "
                    span class="where" { code { (note.code) } ": " (names(&places)) }
                }
            }
        }
        (more(notes.more, "finding"))
    }
}

/// A table that scrolls within itself, also from the keyboard.
fn scroll(label: &str, rows: &Markup) -> Markup {
    html! {
        div class="scroll" role="region" tabindex="0" aria-label=(label) {
            table { (rows) }
        }
    }
}

fn more(more: usize, thing: &str) -> Markup {
    html! {
        @if more > 0 {
            p { "and " (count(more, &format!("more {thing}"))) " (-o json lists all)" }
        }
    }
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Warning => "warning",
        Tone::Strong => "strong",
    }
}
