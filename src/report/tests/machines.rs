//! The contract with programs.

use serde_json::Value;

use super::samples::{self, AZURE_DISK};
use super::{Format, text};
use crate::assess::report::{ReadinessReport, Reason, Upgradeable};

/// A report in which every list has one entry and every option something in it.
fn full() -> ReadinessReport {
    let finding = samples::finding("Code", "Node/win-1", "message");
    let mut node = samples::node("win-1", Some(&["smb.csi.k8s.io"]), &[AZURE_DISK]);
    node.findings = vec![finding.clone()];
    let mut report = samples::with_nodes(
        samples::report(Upgradeable::False, Reason::DriversMissing, "message"),
        vec![node],
    );
    let mut driver = samples::driver(AZURE_DISK, &["win-2"], &["win-1"]);
    driver.daemon_set = Some("kube-system/csi-azuredisk-node-win".to_owned());
    driver.csi_proxy_pipes = vec!["csi-proxy-disk-v1".to_owned()];
    driver.findings = vec![finding.clone()];
    report.drivers = vec![driver];
    report.volumes = vec![samples::volume(
        "web-0",
        "data",
        Some("kubernetes.io/azure-disk"),
        Some(AZURE_DISK),
        &["win-1"],
    )];
    report.findings = vec![finding];
    report
}

const CONTRACT: &str = r#"{"apiVersion":"windowsstorage.dev/v1alpha1","kind":"ReadinessReport",
 "cluster":{"kubernetesVersion":"v1.30.4","windowsNodes":1},
 "verdict":{"upgradeable":"False","reason":"DriversMissing","message":"message"},
 "nodes":[{"name":"win-1","csiNode":true,"drivers":["smb.csi.k8s.io"],"missingDrivers":["disk.csi.azure.com"],
           "ready":false,"findings":[{"code":"Code","object":"Node/win-1","message":"message"}]}],
 "volumes":[{"workload":{"kind":"Pod","namespace":"shop","name":"web-0"},"volume":"data",
             "source":"PersistentVolume",
             "persistentVolumeClaim":"data-web-0","persistentVolume":"pv-data-web-0","storageClass":"std",
             "plugin":"kubernetes.io/azure-disk","csiDriver":"disk.csi.azure.com",
             "inTree":true,"blocking":true,"missingOn":["win-1"]}],
 "drivers":[{"name":"disk.csi.azure.com","registeredOn":["win-2"],"missingOn":["win-1"],
             "daemonSet":"kube-system/csi-azuredisk-node-win","csiProxyPipes":["csi-proxy-disk-v1"],
             "findings":[{"code":"Code","object":"Node/win-1","message":"message"}]}],
 "findings":[{"code":"Code","object":"Node/win-1","message":"message"}]}"#;

fn without_space(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn json_is_the_contract_key_by_key_and_in_its_order() {
    // No text in it has a space, so space is all that may differ.
    assert_eq!(
        without_space(&text(&full(), Format::Json)),
        without_space(CONTRACT)
    );
}

#[test]
fn json_is_indented_and_ends_its_line() {
    let text = text(&full(), Format::Json);
    assert!(text.starts_with("{\n  \"apiVersion\": "), "{text}");
    assert!(text.ends_with("\n}\n"), "{text}");
}

#[test]
fn what_is_not_there_is_null() {
    let mut report = full();
    report.cluster.kubernetes_version = None;
    report.drivers[0].daemon_set = None;
    let volume = &mut report.volumes[0];
    volume.persistent_volume_claim = None;
    volume.persistent_volume = None;
    volume.storage_class = None;
    volume.plugin = None;
    volume.csi_driver = None;
    let json: Value = serde_json::from_str(&text(&report, Format::Json)).unwrap();
    for path in [
        "/cluster/kubernetesVersion",
        "/drivers/0/daemonSet",
        "/volumes/0/persistentVolumeClaim",
        "/volumes/0/persistentVolume",
        "/volumes/0/storageClass",
        "/volumes/0/plugin",
        "/volumes/0/csiDriver",
    ] {
        assert_eq!(json.pointer(path), Some(&Value::Null), "{path}");
    }
}

#[test]
fn yaml_says_the_same_as_json_in_the_same_order() {
    for report in [
        full(),
        samples::held(),
        samples::empty(),
        samples::hostile(),
    ] {
        let yaml = text(&report, Format::Yaml);
        let json = text(&report, Format::Json);
        assert_eq!(
            serde_yaml::from_str::<Value>(&yaml).unwrap(),
            serde_json::from_str::<Value>(&json).unwrap()
        );
        assert!(yaml.ends_with('\n'));
    }
    let yaml = text(&full(), Format::Yaml);
    let keys: Vec<&str> = yaml
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(key, _)| key)
        .collect();
    let top: Vec<&str> = keys
        .into_iter()
        .filter(|key| !key.starts_with([' ', '-']))
        .collect();
    assert_eq!(
        top,
        [
            "apiVersion",
            "kind",
            "cluster",
            "verdict",
            "nodes",
            "volumes",
            "drivers",
            "findings"
        ]
    );
}

#[test]
fn programs_get_back_what_was_written() {
    for report in [samples::held(), samples::huge(), samples::hostile()] {
        let json = text(&report, Format::Json);
        assert_eq!(
            serde_json::from_str::<ReadinessReport>(&json).unwrap(),
            report
        );
    }
}
