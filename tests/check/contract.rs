//! The shape of the JSON report, which programs depend on.

use serde_yaml::{Mapping, Value};

use crate::run::{FOLDERS, check_in, input};

const REPORT: &str = "apiVersion kind cluster target verdict nodes volumes drivers findings";
const CLUSTER: &str = "kubernetesVersion windowsNodes";
const VERDICT: &str = "upgradeable reason message";
const NODE: &str = "name csiNode drivers missingDrivers ready findings";
const WORKLOAD: &str = "kind namespace name";
const VOLUME: &str = "workload volume source persistentVolumeClaim persistentVolume storageClass plugin csiDriver \
                      inTree blocking missingOn";
const DRIVER: &str = "name registeredOn missingOn daemonSet csiProxyPipes findings";
const FINDING: &str = "code object message";

/// Asserts that a value is an object with these keys, in this order.
fn object<'a>(value: &'a Value, keys: &str) -> &'a Mapping {
    let object = value.as_mapping().unwrap();
    let found = object.keys().map(|key| key.as_str().unwrap());
    let expected = keys.split_whitespace();
    assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    object
}

fn sorted(list: &Value) -> Vec<String> {
    let list: Vec<String> = serde_yaml::from_value(list.clone()).unwrap();
    assert!(list.is_sorted(), "{list:?}");
    list
}

fn findings(list: &Value) {
    let mut before = Vec::new();
    for finding in list.as_sequence().unwrap() {
        let fields = object(finding, FINDING);
        let of = |key: &str| fields[key].as_str().unwrap().to_owned();
        assert!(of("code").chars().all(|char| char.is_ascii_alphanumeric()));
        let parts = of("object").split('/').count();
        assert!((2..=3).contains(&parts), "{finding:?}");
        assert!(!of("message").is_empty());
        let this = vec![of("code"), of("object"), of("message")];
        assert!(before <= this, "{finding:?} comes too late");
        before = this;
    }
}

fn text_or_null(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| !text.is_empty())
}

fn hold_to_the_contract(report: &Value) {
    let fields = object(report, REPORT);
    assert_eq!(fields["apiVersion"], "windowsstorage.dev/v1alpha1");
    assert_eq!(fields["kind"], "ReadinessReport");
    let cluster = object(&fields["cluster"], CLUSTER);
    assert!(text_or_null(&cluster["kubernetesVersion"]));
    assert!(fields["target"].is_null());
    let verdict = object(&fields["verdict"], VERDICT);
    assert!(verdict["message"].as_str().unwrap().chars().count() <= 32_768);
    let nodes = fields["nodes"].as_sequence().unwrap();
    assert_eq!(cluster["windowsNodes"], nodes.len());
    assert!(nodes.is_sorted_by_key(|node| node["name"].as_str().unwrap()));
    for node in nodes {
        let node = object(node, NODE);
        sorted(&node["drivers"]);
        let missing = sorted(&node["missingDrivers"]);
        let ready = node["csiNode"].as_bool().unwrap() && missing.is_empty();
        assert_eq!(node["ready"], ready);
        findings(&node["findings"]);
    }
    let drivers = fields["drivers"].as_sequence().unwrap();
    assert!(drivers.is_sorted_by_key(|driver| driver["name"].as_str().unwrap()));
    for driver in drivers {
        let driver = object(driver, DRIVER);
        assert!(text_or_null(&driver["daemonSet"]));
        for (list, of_node) in [("registeredOn", "drivers"), ("missingOn", "missingDrivers")] {
            let from_nodes: Vec<&Value> = nodes
                .iter()
                .filter(|node| {
                    node[of_node]
                        .as_sequence()
                        .unwrap()
                        .contains(&driver["name"])
                })
                .map(|node| &node["name"])
                .collect();
            sorted(&driver[list]);
            assert_eq!(
                driver[list]
                    .as_sequence()
                    .unwrap()
                    .iter()
                    .collect::<Vec<_>>(),
                from_nodes,
                "{list}"
            );
        }
        sorted(&driver["csiProxyPipes"]);
        findings(&driver["findings"]);
    }
    let volumes = fields["volumes"].as_sequence().unwrap();
    let key = |volume: &Value| {
        let workload = &volume["workload"];
        let of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        [
            of(&workload["namespace"]),
            of(&workload["name"]),
            of(&workload["kind"]),
            of(&volume["volume"]),
            of(&volume["persistentVolumeClaim"]),
        ]
    };
    assert!(volumes.is_sorted_by_key(key));
    for volume in volumes {
        hold_volume_to_the_contract(volume, drivers);
    }
    findings(&fields["findings"]);
}

fn hold_volume_to_the_contract(volume: &Value, drivers: &[Value]) {
    let fields = object(volume, VOLUME);
    object(&fields["workload"], WORKLOAD);
    let texts = "persistentVolumeClaim persistentVolume storageClass plugin csiDriver";
    for key in texts.split(' ') {
        assert!(text_or_null(&fields[key]), "{key}: {volume:?}");
    }
    let source = fields["source"].as_str().unwrap();
    assert!(["Inline", "PersistentVolume", "StorageClass"].contains(&source));
    assert_eq!(
        source == "PersistentVolume",
        fields["persistentVolume"].is_string()
    );
    let in_tree = fields["inTree"].as_bool().unwrap();
    assert_eq!(in_tree, fields["plugin"].is_string());
    let driver = drivers
        .iter()
        .find(|driver| driver["name"] == fields["csiDriver"]);
    let missing = match driver {
        Some(driver) => driver["missingOn"].clone(),
        None => Value::Sequence(Vec::new()),
    };
    assert_eq!(driver.is_some(), fields["csiDriver"].is_string());
    assert_eq!(fields["missingOn"], missing);
    let lacks = driver.is_none() || !missing.as_sequence().unwrap().is_empty();
    assert_eq!(fields["blocking"], in_tree && lacks);
}

#[test]
fn every_report_has_the_shape_of_the_contract_and_its_keys_in_order() {
    for folder in FOLDERS {
        let text = check_in(&input(), &["-f", folder, "-o", "json"]).stdout;
        // JSON is YAML, and YAML values keep the order of keys.
        hold_to_the_contract(&serde_yaml::from_str(&text).unwrap());
    }
}
