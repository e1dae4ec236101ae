//! The verdict of `check -f` for each sample, on a Windows node of the Windows Machine Config Operator.

use serde_json::{Value, json};
use testbed::objects;

use crate::samples::catalogue::{Sample, WORKLOADS, all, documents, kustomized};
use crate::samples::report::{Report, check_objects};

const NODE: &str = "win-1";
const UID: &str = "5b0c3f6e-0000-4000-8000-000000000001";

/// Returns the sample, the in-tree volume that migrates to its driver, and a node tainted `os=Windows:NoSchedule`.
pub fn cluster(sample: Sample, is_registered: bool, has_driver_pod: bool) -> Vec<Value> {
    let mut objects = sample.objects();
    if sample.driver.is_migrated_to {
        objects.extend(kustomized(&sample.driver.in_tree()));
    }
    let mut driver_pods = Vec::new();
    for object in &mut objects {
        match object["kind"].as_str() {
            Some("Pod") => {
                object["spec"]["nodeName"] = NODE.into();
                object["status"] = json!({"phase": "Running"});
            }
            Some("DaemonSet") => {
                object["metadata"]["uid"] = UID.into();
                driver_pods.push(driver_pod(object));
            }
            _ => {}
        }
    }
    if has_driver_pod {
        objects.append(&mut driver_pods);
    }
    let mut node = documents(&objects::windows_node(NODE)).remove(0);
    node["status"]["nodeInfo"] = json!({"operatingSystem": "windows", "kubeletVersion": "v1.27.0"});
    objects.push(node);
    let entries: &[&str] = if is_registered {
        &[&sample.driver.name]
    } else {
        &[]
    };
    objects.extend(documents(&objects::csi_node(NODE, entries)));
    objects
}

/// Returns a ready pod of the DaemonSet.
fn driver_pod(set: &Value) -> Value {
    let template = &set["spec"]["template"];
    let mut spec = template["spec"].clone();
    spec["nodeName"] = NODE.into();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "driver-x7k2p",
            "namespace": set["metadata"]["namespace"],
            "labels": template["metadata"]["labels"],
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "DaemonSet", "controller": true,
                "name": set["metadata"]["name"], "uid": UID,
            }],
        },
        "spec": spec,
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// Runs `check` on a sample with a pod of its driver.
fn judged(sample: Sample, is_registered: bool) -> Report {
    check_objects(&cluster(sample, is_registered, true))
}

/// Asserts that the DaemonSet is recognized as the driver's, with its pipes, and that there are no findings about it.
fn assert_found(sample: Sample, report: &Report) {
    let row = report.driver(&sample.driver.name);
    assert_eq!(row["daemonSet"], sample.driver.key());
    assert_eq!(row["csiProxyPipes"], json!(sample.form.pipes), "{row}");
    assert!(report.complaints().is_empty(), "{:?}", report.complaints());
}

#[test]
fn upgrades_are_held_until_the_driver_of_a_sample_is_registered() {
    for sample in all() {
        let name = &*sample.driver.name;
        let missing = judged(sample, false);
        assert_found(sample, &missing);
        assert_eq!(missing.driver(name)["missingOn"], json!([NODE]));
        let not_registered = missing
            .findings()
            .iter()
            .any(|(code, _)| *code == "DriverNotRegistered");
        assert!(not_registered, "{:?}", missing.findings());
        if sample.driver.is_migrated_to {
            assert_eq!(missing.status, Some(3), "{name}");
            assert_eq!(missing.verdict(), ("False", "DriversMissing"), "{name}");
            let volume = format!("in-tree-{}", sample.driver.folder);
            let says = format!("needs {name}, missing on {NODE}");
            let message = missing.message();
            assert!(
                message.contains(&volume) && message.contains(&says),
                "{message}"
            );
        } else {
            // No in-tree volume needs this driver, so upgrades are not held.
            assert_eq!(missing.verdict(), ("True", "NoInTreeVolumes"), "{name}");
        }

        let registered = judged(sample, true);
        assert_found(sample, &registered);
        let row = registered.driver(name);
        assert_eq!(row["registeredOn"], json!([NODE]), "{name}");
        assert_eq!(row["missingOn"], json!([]), "{name}");
        assert_eq!(registered.status, Some(0), "{name}");
        let reason = if sample.driver.is_migrated_to {
            "DriversRegistered"
        } else {
            "NoInTreeVolumes"
        };
        assert_eq!(registered.verdict(), ("True", reason), "{name}");
        for (code, _) in registered.findings() {
            // Files do not show whether csi-proxy runs. The other findings are about the cluster's version.
            let of_version = ["PluginRemoved", "CSIRecommended", "DriverNotForVersion"];
            assert!(
                code == "CSIProxyUnknown" || of_version.contains(&code),
                "{name}: {:?}",
                registered.findings()
            );
        }
    }
}

#[test]
fn the_claims_of_a_sample_are_of_its_driver_and_hold_nothing() {
    for sample in all() {
        let report = judged(sample, false);
        let mut volumes = report.json["volumes"].as_array().unwrap().iter();
        let row = volumes
            .find(|row| row["workload"]["name"] == sample.driver.folder)
            .unwrap();
        assert_eq!(row["workload"]["namespace"], WORKLOADS, "{row}");
        assert_eq!(row["csiDriver"], sample.driver.name, "{row}");
        assert_eq!(row["source"], "StorageClass", "{row}");
        assert_eq!(
            (&row["inTree"], &row["blocking"]),
            (&json!(false), &json!(false))
        );
    }
}

/// Runs `check` on a sample whose DaemonSet was changed and has no pod yet.
fn changed(sample: Sample, change: impl Fn(&mut Value)) -> Report {
    let mut objects = cluster(sample, false, false);
    let mut sets = objects
        .iter_mut()
        .filter(|object| object["kind"] == "DaemonSet");
    change(&mut sets.next().unwrap()["spec"]["template"]["spec"]);
    check_objects(&objects)
}

#[test]
fn a_sample_that_does_not_tolerate_the_node_is_found_out() {
    for sample in all() {
        let object = format!("DaemonSet/{}", sample.driver.key());
        for tolerations in [
            json!([]),
            // Tolerations from the drivers' own manifests, for nodes that were set up differently.
            json!([{"key": "node.kubernetes.io/os", "operator": "Exists", "effect": "NoSchedule"}]),
            json!([{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}]),
        ] {
            let report = changed(sample, |spec| spec["tolerations"] = tolerations.clone());
            assert_eq!(
                report.complaints(),
                [("TaintNotTolerated", object.as_str())],
                "{tolerations}"
            );
        }
        let report = changed(sample, |_| ());
        assert!(
            report
                .complaints()
                .iter()
                .all(|(code, _)| *code == "DriverPodMissing"),
            "{:?}",
            report.complaints()
        );
    }
}

#[test]
fn a_sample_that_does_not_ask_for_windows_is_not_taken_for_one() {
    for sample in all() {
        let report = changed(sample, |spec| {
            spec["os"] = Value::Null;
            spec["nodeSelector"] = json!({});
        });
        let row = report.driver(&sample.driver.name);
        assert_eq!(row["daemonSet"], Value::Null, "{row}");
        assert_eq!(row["csiProxyPipes"], json!([]), "{row}");
    }
}
