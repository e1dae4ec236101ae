//! The report with nothing hidden in its texts.

use std::fmt::Write;

use crate::assess::report::{
    ClusterFacts, DriverReadiness, Finding, NodeReadiness, ReadinessReport, Verdict, VolumeUse,
    Workload,
};
use crate::visible::{is_hidden, visible};

/// Whether a text has nothing hidden but the ends of its lines.
pub(super) fn is_visible_text(text: &str) -> bool {
    !text.chars().any(|char| char != '\n' && is_hidden(char))
}

/// A JSON text that means the same and has nothing hidden.
///
/// `serde_json` escapes only what JSON demands, and that is less than what terminals obey. Hidden characters are in
/// strings alone, never after a lone backslash. JSON writes those that do not fit into four digits as two halves.
pub(crate) fn json(text: &str) -> String {
    written_out(text, |char, shown| {
        for half in char.encode_utf16(&mut [0; 2]) {
            // Writing to a String does not fail.
            let _ = write!(shown, "\\u{half:04x}");
        }
    })
}

/// The same for readers of YAML, most of which know no halves.
pub(crate) fn json_as_yaml(text: &str) -> String {
    written_out(text, |char, shown| {
        let number = u32::from(char);
        // Writing to a String does not fail.
        let _ = if number > 0xffff {
            write!(shown, "\\U{number:08x}")
        } else {
            write!(shown, "\\u{number:04x}")
        };
    })
}

fn written_out(text: &str, write: impl Fn(char, &mut String)) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if char != '\n' && is_hidden(char) {
            write(char, &mut shown);
        } else {
            shown.push(char);
        }
    }
    shown
}

/// The report with everything hidden in it written out, as `\u{1b}`.
pub(super) fn report(report: &ReadinessReport) -> ReadinessReport {
    let mut report = report.clone();
    // Without `..`, so that a new field is not forgotten.
    let ReadinessReport {
        api_version,
        kind,
        cluster,
        verdict,
        nodes,
        volumes,
        drivers,
        findings: others,
    } = &mut report;
    show(api_version);
    show(kind);
    let ClusterFacts {
        kubernetes_version,
        windows_nodes: _,
    } = cluster;
    show_all(kubernetes_version);
    let Verdict {
        upgradeable: _,
        reason: _,
        message,
    } = verdict;
    show(message);
    nodes.iter_mut().for_each(node);
    volumes.iter_mut().for_each(volume);
    drivers.iter_mut().for_each(driver);
    findings(others);
    report
}

fn node(node: &mut NodeReadiness) {
    let NodeReadiness {
        name,
        csi_node: _,
        drivers,
        missing_drivers,
        ready: _,
        findings: found,
        needs_csi_proxy: _,
    } = node;
    show(name);
    show_all(drivers);
    show_all(missing_drivers);
    findings(found);
}

fn volume(volume: &mut VolumeUse) {
    let VolumeUse {
        workload,
        volume,
        source: _,
        persistent_volume_claim,
        persistent_volume,
        storage_class,
        plugin,
        csi_driver,
        in_tree: _,
        blocking: _,
        missing_on,
    } = volume;
    let Workload {
        kind,
        namespace,
        name,
    } = workload;
    show_all([kind, namespace, name, volume]);
    show_all(
        [
            persistent_volume_claim,
            persistent_volume,
            storage_class,
            plugin,
            csi_driver,
        ]
        .into_iter()
        .flatten(),
    );
    show_all(missing_on);
}

fn driver(driver: &mut DriverReadiness) {
    let DriverReadiness {
        name,
        registered_on,
        missing_on,
        daemon_set,
        csi_proxy_pipes,
        findings: found,
    } = driver;
    show(name);
    show_all(registered_on);
    show_all(missing_on);
    show_all(daemon_set);
    show_all(csi_proxy_pipes);
    findings(found);
}

fn findings(findings: &mut [Finding]) {
    for finding in findings {
        let Finding {
            code,
            object,
            message,
        } = finding;
        show_all([code, object, message]);
    }
}

fn show_all<'a>(texts: impl IntoIterator<Item = &'a mut String>) {
    texts.into_iter().for_each(show);
}

fn show(text: &mut String) {
    if !text.chars().any(is_hidden) {
        return;
    }
    *text = visible(text);
}
