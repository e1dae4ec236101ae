//! The shape of the JSON report, which programs hold on to.

use serde_json::{Map, Value};

use crate::run::{FOLDERS, WINDOWS_NODE, check_file, check_in, input};

const REPORT: &str = "apiVersion kind cluster verdict nodes volumes drivers findings";
const CLUSTER: &str = "kubernetesVersion windowsNodes";
const VERDICT: &str = "upgradeable reason message";
const NODE: &str = "name csiNode drivers missingDrivers ready findings";
const WORKLOAD: &str = "kind namespace name";
const VOLUME: &str = "workload volume source persistentVolumeClaim persistentVolume storageClass plugin csiDriver \
                      inTree blocking missingOn";
const DRIVER: &str = "name registeredOn missingOn daemonSet csiProxyPipes findings";
const FINDING: &str = "code object message";

/// The keys of an object in the order of the text: one a line, two spaces for each level.
fn keys_in_text(text: &str, indent: usize) -> Vec<String> {
    let start = format!("{}\"", " ".repeat(indent));
    text.lines()
        .filter_map(|line| line.strip_prefix(&start)?.split_once("\":"))
        .map(|(key, _)| key.to_owned())
        .collect()
}

fn object<'a>(value: &'a Value, keys: &str) -> &'a Map<String, Value> {
    let object = value.as_object().unwrap();
    let mut expected: Vec<&str> = keys.split_whitespace().collect();
    expected.sort_unstable();
    let mut found: Vec<&str> = object.keys().map(String::as_str).collect();
    found.sort_unstable();
    assert_eq!(found, expected);
    object
}

fn sorted(list: &Value) -> Vec<String> {
    let list: Vec<String> = serde_json::from_value(list.clone()).unwrap();
    assert!(list.is_sorted(), "{list:?}");
    list
}

fn findings(list: &Value) {
    let mut before = Vec::new();
    for finding in list.as_array().unwrap() {
        let fields = object(finding, FINDING);
        let of = |key: &str| fields[key].as_str().unwrap().to_owned();
        assert!(of("code").chars().all(|char| char.is_ascii_alphanumeric()));
        let parts = of("object").split('/').count();
        assert!((2..=3).contains(&parts), "{finding}");
        assert!(!of("message").is_empty());
        let this = vec![of("code"), of("object"), of("message")];
        assert!(before <= this, "{finding} comes too late");
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
    let verdict = object(&fields["verdict"], VERDICT);
    assert!(verdict["message"].as_str().unwrap().chars().count() <= 32_768);
    let nodes = fields["nodes"].as_array().unwrap();
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
    let drivers = fields["drivers"].as_array().unwrap();
    assert!(drivers.is_sorted_by_key(|driver| driver["name"].as_str().unwrap()));
    for driver in drivers {
        let driver = object(driver, DRIVER);
        assert!(text_or_null(&driver["daemonSet"]));
        for (list, of_node) in [("registeredOn", "drivers"), ("missingOn", "missingDrivers")] {
            let from_nodes: Vec<&Value> = nodes
                .iter()
                .filter(|node| node[of_node].as_array().unwrap().contains(&driver["name"]))
                .map(|node| &node["name"])
                .collect();
            sorted(&driver[list]);
            assert_eq!(driver[list], serde_json::json!(from_nodes), "{list}");
        }
        sorted(&driver["csiProxyPipes"]);
        findings(&driver["findings"]);
    }
    let volumes = fields["volumes"].as_array().unwrap();
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
        assert!(text_or_null(&fields[key]), "{key}: {volume}");
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
        None => Value::Array(Vec::new()),
    };
    assert_eq!(driver.is_some(), fields["csiDriver"].is_string());
    assert_eq!(fields["missingOn"], missing);
    let lacks = driver.is_none() || !missing.as_array().unwrap().is_empty();
    assert_eq!(fields["blocking"], in_tree && lacks);
}

#[test]
fn every_report_has_the_shape_of_the_contract() {
    for folder in FOLDERS {
        hold_to_the_contract(&check_in(&input(), &["-f", folder, "-o", "json"]).json());
    }
}

#[test]
fn keys_come_in_the_order_of_the_contract() {
    let text = check_in(&input(), &["-f", "vsphere-1.26", "-o", "json"]).stdout;
    let words =
        |keys: &str| -> Vec<String> { keys.split_whitespace().map(str::to_owned).collect() };
    assert_eq!(keys_in_text(&text, 2), words(REPORT));
    let start = |key: &str| text.find(&format!("\n  \"{key}\": [")).unwrap();
    let of = |list: &str, indent: usize| {
        let part = &text[start(list)..];
        let first = part.find("\n    {").unwrap();
        let end = part.find("\n    }").unwrap();
        keys_in_text(&part[first..end], indent)
    };
    assert_eq!(
        keys_in_text(&text[..start("nodes")], 4),
        words(&format!("{CLUSTER} {VERDICT}"))
    );
    assert_eq!(of("nodes", 6), words(NODE));
    assert_eq!(of("volumes", 6), words(VOLUME));
    assert_eq!(of("volumes", 8), words(WORKLOAD));
    assert_eq!(of("drivers", 6), words(DRIVER));
    let finding = &of("drivers", 10)[..3];
    assert_eq!(finding, words(FINDING));
}

#[test]
fn the_version_is_the_highest_of_all_kubelets_or_null() {
    let node = |name: &str, version: &str| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nstatus: {{nodeInfo: {{kubeletVersion: \
             {version:?}}}}}\n---\n"
        )
    };
    for (versions, expected) in [
        (
            &["v1.9.11", "v1.30.4", "v1.30.2+rke2r1"][..],
            Value::from("v1.30.4"),
        ),
        (&["v1.30.4", "v1.31.0-rc.1"], "v1.31.0-rc.1".into()),
        (&["", "unknown"], Value::Null),
        (&[], Value::Null),
    ] {
        let mut input = WINDOWS_NODE.to_owned();
        for (number, version) in versions.iter().enumerate() {
            input += &node(&format!("linux-{number}"), version);
        }
        let report = check_file("nodes.yaml", input).json();
        assert_eq!(
            report["cluster"]["kubernetesVersion"], expected,
            "{versions:?}"
        );
    }
}
