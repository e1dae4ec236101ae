//! docs/monitoring.md describes each metric and has a runbook for each alert. kustomize builds what it says to apply.

use serde_json::Value;
use testbed::commands::printed;

use crate::monitoring::alerts::{alerts, name};
use crate::monitoring::{root, served};
use crate::samples::catalogue::kustomize;

/// The pages that explain the values of labels.
const OF_VALUES: [&str; 4] = [
    "docs/monitoring.md",
    "docs/troubleshooting.md",
    "docs/check.md",
    "docs/gate.md",
];

#[test]
fn the_values_of_labels_are_explained() {
    let pages = OF_VALUES.map(|page| std::fs::read_to_string(root().join(page)).unwrap());
    let (pages, text) = (pages.concat(), served::text());
    let mut seen = 0;
    for label in ["result", "reason", "state", "cause"] {
        let label = format!("{label}=\"");
        let values = text.split(&label).skip(1);
        for value in values.filter_map(|rest| rest.split('"').next()) {
            let is_explained = pages.contains(&format!("`{value}`"));
            assert!(is_explained, "no page explains {label}{value}");
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn the_page_has_every_metric_with_its_type_labels_and_meaning_and_every_alert() {
    let page = std::fs::read_to_string(root().join("docs/monitoring.md")).unwrap();
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| `winstorage_"));
    let metrics = served::metrics();
    let expected: Vec<String> = metrics
        .iter()
        .map(|(name, metric)| {
            let labels: Vec<&str> = metric.labels.iter().map(String::as_str).collect();
            let labels = match labels.join(",") {
                none if none.is_empty() => none,
                labels => format!("{{{labels}}}"),
            };
            format!("| `{name}{labels}` | {} | {} |", metric.kind, metric.help)
        })
        .collect();
    assert_eq!(rows.collect::<Vec<_>>(), expected);

    let sections = page.lines().filter_map(|line| line.strip_prefix("### "));
    let sections = sections.filter(|title| title.starts_with("WindowsStorage"));
    let alerts = alerts();
    let alerts: Vec<&str> = alerts.iter().map(name).collect();
    assert_eq!(sections.collect::<Vec<_>>(), alerts);
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let object = found.next();
    assert!(object.is_some(), "no {kind}");
    assert_eq!(found.next(), None);
    object.unwrap()
}

#[test]
fn kustomize_takes_the_plain_folder() {
    let objects = kustomize(&root().join("manifests/monitoring"));
    for kind in ["PrometheusRule", "ConfigMap", "ServiceAccount"] {
        of_kind(&objects, kind);
    }
    let endpoint = &of_kind(&objects, "ServiceMonitor")["spec"]["endpoints"][0];
    assert_eq!(endpoint["tlsConfig"]["insecureSkipVerify"], true);
    let token = &endpoint["authorization"]["credentials"];
    assert_eq!(
        token["name"],
        of_kind(&objects, "Secret")["metadata"]["name"]
    );
    // The API of the Prometheus Operator has removed or deprecated these fields.
    let text = endpoint.to_string();
    for old in ["bearerTokenFile", "bearerTokenSecret", "targetPort"] {
        assert!(!text.contains(old), "{text}");
    }
}

/// The Prometheus of the chart selects objects with the label of its release.
#[test]
fn kube_prometheus_stack_finds_its_label() {
    let objects = kustomize(&root().join("manifests/monitoring-kube-prometheus-stack"));
    for kind in ["ServiceMonitor", "PrometheusRule"] {
        let object = of_kind(&objects, kind);
        let label = &object["metadata"]["labels"]["release"];
        assert_eq!(label, "kube-prometheus-stack", "{kind}");
    }
    // Services are still selected by the labels from the operator's manifests.
    let selector = &of_kind(&objects, "ServiceMonitor")["spec"]["selector"];
    assert!(selector["matchLabels"]["release"].is_null(), "{selector}");
}

/// OpenShift's Prometheus for user workloads ignores a `ServiceMonitor` that names files of the Prometheus container.
/// The objects that ours names instead must exist, in any namespace.
#[test]
fn openshifts_user_workload_monitoring_takes_the_one_for_openshift() {
    let folder = tempfile::tempdir().unwrap();
    let mut copy = std::process::Command::new("cp");
    copy.args(["-r", "manifests"])
        .arg(folder.path())
        .current_dir(root());
    printed(&mut copy).unwrap();
    let overlay = folder.path().join("overlay");
    std::fs::create_dir(&overlay).unwrap();
    let kustomization = "namespace: storage\nresources: [../manifests/monitoring-openshift]\n";
    std::fs::write(overlay.join("kustomization.yaml"), kustomization).unwrap();
    let folder = root().join("manifests/monitoring-openshift");
    for (folder, namespace) in [(&folder, "windows-storage-operator"), (&overlay, "storage")] {
        let objects = kustomize(folder);
        let monitor = of_kind(&objects, "ServiceMonitor");
        let text = monitor.to_string();
        for refused in "bearerTokenFile caFile certFile keyFile insecureSkipVerify".split(' ') {
            assert!(!text.contains(refused), "{refused}: {text}");
        }
        let endpoint = &monitor["spec"]["endpoints"][0];
        let (tls, token) = (
            &endpoint["tlsConfig"],
            &endpoint["authorization"]["credentials"],
        );
        let name = "windows-storage-operator-metrics.windows-storage-operator.svc";
        assert_eq!(tls["serverName"], name);
        let [account, secret] = ["ServiceAccount", "Secret"].map(|kind| of_kind(&objects, kind));
        let bundle = &tls["ca"]["configMap"];
        assert_eq!(
            (&bundle["key"], &token["key"]),
            (&"service-ca.crt".into(), &"token".into())
        );
        let mut maps = objects.iter().filter(|it| it["kind"] == "ConfigMap");
        let bundle = maps
            .find(|it| it["metadata"]["name"] == bundle["name"])
            .unwrap();
        for object in [account, secret, monitor, bundle] {
            assert_eq!(object["metadata"]["namespace"], namespace, "{object}");
        }
        let account = &account["metadata"]["name"];
        assert_eq!(token["name"], secret["metadata"]["name"]);
        let of_account = &secret["metadata"]["annotations"]["kubernetes.io/service-account.name"];
        assert_eq!(of_account, account);
        let subject = &of_kind(&objects, "ClusterRoleBinding")["subjects"][0];
        assert_eq!(
            (&subject["name"], &subject["namespace"]),
            (account, &namespace.into())
        );
        let wanted = &bundle["metadata"]["annotations"];
        assert_eq!(wanted["service.beta.openshift.io/inject-cabundle"], "true");
    }
}
