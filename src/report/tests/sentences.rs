//! Tests of the headline, of colour, and of the command line's values.

use super::samples::{self, AZURE_DISK};
use super::{ColorChoice, Format, text, use_color};
use crate::assess::report::{ReadinessReport, Reason, Upgradeable};

fn headline(report: &ReadinessReport) -> String {
    let text = text(report, Format::Table);
    let (headline, _) = text.split_once("\n\n").unwrap();
    headline.to_owned()
}

/// Two nodes, and volumes whose driver is missing or does not exist.
fn risky(
    upgradeable: Upgradeable,
    reason: Reason,
    lacking: usize,
    abandoned: usize,
) -> ReadinessReport {
    let nodes = vec![
        samples::node("win-1", Some(&[]), &[AZURE_DISK]),
        samples::node("win-2", Some(&[AZURE_DISK]), &[]),
    ];
    let mut report = samples::with_nodes(samples::report(upgradeable, reason, ""), nodes);
    let disk = Some("kubernetes.io/azure-disk");
    let lack = samples::volume("web", "data", disk, Some(AZURE_DISK), &["win-1"]);
    let none = samples::volume("old", "data", Some("kubernetes.io/rbd"), None, &[]);
    report.volumes = [vec![lack; lacking], vec![none; abandoned]].concat();
    report
}

#[test]
fn each_reason_has_its_sentence() {
    use Reason::{CSINodeMissing, DriversMissing, NoCSIMigration, NoInTreeVolumes, Override};
    use Upgradeable::{False, True};
    let mut without_csi_nodes = risky(False, CSINodeMissing, 3, 0);
    for node in &mut without_csi_nodes.nodes {
        node.csi_node = false;
    }
    for (report, line) in [
        (
            samples::report(True, NoInTreeVolumes, ""),
            "UPGRADEABLE (NoInTreeVolumes): No Windows workload uses an in-tree volume.",
        ),
        (
            risky(False, DriversMissing, 12, 0),
            "NOT UPGRADEABLE (DriversMissing): 12 in-tree volumes of Windows workloads lack their CSI driver on at \
             least one Windows node.",
        ),
        (
            risky(False, DriversMissing, 1, 0),
            "NOT UPGRADEABLE (DriversMissing): 1 in-tree volume of Windows workloads lacks its CSI driver on at \
             least one Windows node.",
        ),
        (
            risky(False, NoCSIMigration, 0, 2),
            "NOT UPGRADEABLE (NoCSIMigration): 2 in-tree volumes of Windows workloads have a type that no CSI driver \
             takes over.",
        ),
        (
            risky(True, Override, 0, 1),
            "UPGRADEABLE (Override): The administrator accepts the risk (upgradeGate: Ignore).\n  1 in-tree volume of \
             Windows workloads has a type that no CSI driver takes over.",
        ),
        (
            without_csi_nodes,
            "NOT UPGRADEABLE (CSINodeMissing): 2 of 2 Windows nodes have no CSINode object: win-1, win-2. Is the \
             kubelet there running and registered?\n  3 in-tree volumes of Windows workloads lack their CSI driver on \
             at least one Windows node.",
        ),
    ] {
        assert_eq!(headline(&report), line);
    }
}

#[test]
fn without_windows_nodes_what_is_missing_is_the_daemon_set() {
    let mut report = risky(Upgradeable::False, Reason::DriversMissing, 1, 0);
    report.nodes.clear();
    report.volumes[0].missing_on.clear();
    report.volumes[0].blocking = true;
    assert_eq!(
        headline(&report),
        "NOT UPGRADEABLE (DriversMissing): 1 in-tree volume of Windows workloads lacks its CSI driver: no DaemonSet for \
         Windows nodes brings it."
    );
}

#[test]
fn a_judgement_for_a_version_names_it_and_what_plugins_serve_there() {
    use Reason::{DriversMissing, DriversRegistered, InTreeServed};
    use Upgradeable::{False, True};
    let mut half = risky(True, DriversRegistered, 2, 1);
    half.volumes[0].missing_on.clear();
    for (mut report, line) in [
        (
            risky(True, InTreeServed, 1, 0),
            "UPGRADEABLE to 1.27 (InTreeServed): 1 in-tree volume of Windows workloads is still served by its plugin \
             at 1.27.",
        ),
        (
            half,
            "UPGRADEABLE to 1.27 (DriversRegistered): The CSI drivers for 1 in-tree volume of Windows workloads are \
             registered on all 2 Windows nodes.\n  2 in-tree volumes of Windows workloads are still served by their \
             plugins at 1.27.",
        ),
        (
            risky(False, DriversMissing, 1, 0),
            "NOT UPGRADEABLE to 1.27 (DriversMissing): 1 in-tree volume of Windows workloads lacks its CSI driver on \
             at least one Windows node.",
        ),
    ] {
        report.target = Some("1.27".to_owned());
        assert_eq!(headline(&report), line);
    }
}

#[test]
fn what_could_not_be_read_is_named() {
    let mut report = samples::unknown();
    for (message, sentence) in [
        (
            "not all, missing: Pod (forbidden)",
            "Not all, missing: Pod (forbidden).",
        ),
        ("élan?", "Élan?"),
        (" word ", "Word."),
    ] {
        report.verdict.message = message.to_owned();
        let line = headline(&report);
        let shown = line.strip_prefix("NOT UPGRADEABLE (ReadinessUnknown): ");
        assert_eq!(shown, Some(sentence));
    }
}

#[test]
fn colour_is_wanted_on_terminals_that_have_it() {
    use ColorChoice::{Always, Auto, Never};
    for (choice, terminal, variable, wanted) in [
        (Auto, true, "", true),
        (Auto, false, "", false),
        (Auto, true, "NO_COLOR=1", false),
        (Auto, true, "NO_COLOR=", true),
        (Auto, true, "TERM=dumb", false),
        (Auto, true, "TERM=xterm-256color", true),
        (Always, false, "NO_COLOR=1", true),
        (Always, false, "TERM=dumb", true),
        (Never, true, "", false),
        (Never, true, "TERM=xterm", false),
    ] {
        let lookup = |name: &str| Some(variable.strip_prefix(name)?.strip_prefix('=')?.into());
        let used = use_color(choice, terminal, lookup);
        assert_eq!(used, wanted, "{choice:?} {terminal} {variable}");
    }
}
