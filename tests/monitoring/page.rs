//! docs/metrics.md has each metric as it is, and says of each alert what to do. And kustomize takes what it says to apply.

use testbed::commands::printed;
use testbed::parts::part;

use crate::alerts::{alerts, name};
use crate::{root, served};

fn page() -> String {
    std::fs::read_to_string(root().join("docs/metrics.md")).unwrap()
}

#[test]
fn the_page_has_every_metric_with_its_type_labels_and_meaning() {
    let page = page();
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `windows_storage_") || line.starts_with("| `process_"))
        .collect();
    let expected: Vec<String> = served::metrics()
        .iter()
        .map(|(name, metric)| {
            let labels: Vec<String> = metric
                .labels
                .iter()
                .map(|label| format!("`{label}`"))
                .collect();
            format!(
                "| `{name}` | {} | {} | {} |",
                metric.kind,
                labels.join(", "),
                metric.help
            )
            .replace("|  |", "| |")
        })
        .collect();
    assert_eq!(rows, expected, "should be:\n{}", expected.join("\n"));
}

#[test]
fn the_page_has_a_section_for_each_alert() {
    let page = page();
    let sections: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .filter(|title| title.starts_with("WindowsStorage"))
        .collect();
    let alerts = alerts();
    let expected: Vec<&str> = alerts.iter().map(name).collect();
    assert_eq!(sections, expected);
}

#[test]
fn kustomize_takes_both_folders_and_the_one_for_openshift_verifies_the_certificate() {
    let build = |folder: &str| {
        let mut kubectl = std::process::Command::new(part("kubectl").unwrap());
        printed(kubectl.args(["kustomize", folder]).current_dir(root())).unwrap()
    };
    let plain = build("manifests/monitoring");
    for kind in ["ServiceMonitor", "PrometheusRule", "ConfigMap"] {
        assert!(plain.contains(&format!("kind: {kind}\n")), "{plain}");
    }
    assert!(plain.contains("insecureSkipVerify: true"));
    let openshift = build("manifests/monitoring-openshift");
    assert!(!openshift.contains("insecureSkipVerify"));
    assert!(
        openshift
            .contains("serverName: windows-storage-operator-metrics.windows-storage-operator.svc")
    );
}
