//! `check --help` lists everything to collect for the verdict.

use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

/// The rights of `check`. A system test verifies that it uses exactly these.
const RIGHTS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/manifests/viewer.yaml"
));
/// Resources that only must-gather lists.
const NOT_JUDGED: &str = "events leases volumeattachments operatorconditions";
/// Short names that the example uses.
const SHORT: [(&str, &str); 8] = [
    ("storageclasses", "sc"),
    ("persistentvolumes", "pv"),
    ("persistentvolumeclaims", "pvc"),
    ("daemonsets", "ds"),
    ("deployments", "deploy"),
    ("replicasets", "rs"),
    ("statefulsets", "sts"),
    ("replicationcontrollers", "rc"),
];

#[test]
fn the_help_names_every_kind_that_is_judged_and_its_example_collects_it() {
    let output = Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"))
        .args(["check", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let (text, example) = help.split_once("Examples:").unwrap();
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        words.map(str::to_owned).collect()
    };
    let (text, example) = (words(text), words(example));
    let mut seen = 0;
    for document in serde_yaml::Deserializer::from_str(RIGHTS) {
        let role = Value::deserialize(document).unwrap();
        let rules = role["rules"].as_array().unwrap();
        let listed = rules.iter().filter(|rule| rule["verbs"][0] == "list");
        for resource in listed.flat_map(|rule| rule["resources"].as_array().unwrap()) {
            let resource = resource.as_str().unwrap();
            if NOT_JUDGED.split(' ').any(|known| known == resource) {
                continue;
            }
            seen += 1;
            let short = SHORT.iter().find(|(long, _)| *long == resource);
            let short = short.map_or(resource, |(_, short)| short);
            assert!(text.iter().any(|word| word == resource), "{resource}");
            assert!(example.iter().any(|word| word == short), "{short}");
        }
    }
    assert!(seen > 15, "{seen}");
    let switches = "internal-feature-states.csi.vsphere.vmware.com";
    assert_eq!(help.matches(switches).count(), 2, "{help}");
}
