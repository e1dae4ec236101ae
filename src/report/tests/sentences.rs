//! Tests of the headline, and of the command line's values.

use super::samples::{self, AZURE_DISK};
use super::{Format, text};
use crate::assess::Loss;
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
    use Reason::{
        CSINodeMissing, DriversMissing, DriversRegistered, InTreeServed, NoCSIMigration,
        NoInTreeVolumes, Override,
    };
    use Upgradeable::{False, True};
    let mut without_csi_nodes = risky(False, CSINodeMissing, 3, 0);
    for node in &mut without_csi_nodes.nodes {
        node.csi_node = false;
    }
    // Then what is missing is the DaemonSet.
    let mut without_nodes = risky(False, DriversMissing, 1, 0);
    without_nodes.nodes.clear();
    without_nodes.volumes[0].missing_on.clear();
    let mut half = risky(True, DriversRegistered, 2, 1);
    half.volumes[0].missing_on.clear();
    let at = |mut report: ReadinessReport| {
        report.target = Some("1.27".to_owned());
        report
    };
    // What has a driver breaks at the upgrade, but for the first; what has none is broken already.
    let lost = |mut report: ReadinessReport| {
        for (number, volume) in report.volumes.iter_mut().enumerate() {
            volume.loss = Some(match (number, &volume.csi_driver) {
                (0, _) | (_, None) => Loss::Today,
                _ => Loss::At("1.31".parse().unwrap()),
            });
        }
        report
    };
    let unread = |message: &str| {
        let mut report = samples::unknown();
        message.clone_into(&mut report.verdict.message);
        report
    };
    let lines = [
        samples::report(True, NoInTreeVolumes, ""),
        risky(False, DriversMissing, 12, 0),
        risky(False, DriversMissing, 1, 0),
        risky(False, NoCSIMigration, 0, 2),
        risky(True, Override, 0, 1),
        without_csi_nodes,
        without_nodes,
        // A judgement for a version names it and what plugins serve there.
        at(risky(True, InTreeServed, 1, 0)),
        at(half),
        at(risky(False, DriversMissing, 1, 0)),
        lost(risky(False, DriversMissing, 3, 2)),
        lost(risky(False, NoCSIMigration, 0, 1)),
        at(lost(risky(False, DriversMissing, 1, 0))),
        unread("not all, missing: Pod (forbidden)"),
        unread("disk.csi.azure.com is what it is"),
        unread("csi-proxy: no"),
        unread("élan?"),
        unread(" word "),
    ];
    insta::assert_snapshot!("headlines", lines.each_ref().map(headline).join("\n"));
}

#[test]
fn every_form_says_what_it_is_about() {
    use Format::{Html, Json, Table, Yaml};
    let cluster = "Read from https://api.example.com:6443 (context prod) at 2027-01-15T08:00:00Z by windows-storage-operator 0.1.0.";
    let files = "Read from nodes.yaml, must-gather/ at 2027-01-15T08:00:00Z by windows-storage-operator 0.1.0.";
    for (report, sentence, words) in [
        (
            samples::held(),
            cluster,
            ["https://api.example.com:6443", "prod"],
        ),
        (samples::registered(), files, ["nodes.yaml", "must-gather/"]),
    ] {
        for format in [Table, Html] {
            assert!(text(&report, format).contains(sentence), "{format:?}");
        }
        for format in [Json, Yaml] {
            let text = text(&report, format);
            for word in words.into_iter().chain(["2027-01-15T08:00:00Z", "0.1.0"]) {
                assert!(text.contains(word), "{word} in {text}");
            }
        }
    }
}
