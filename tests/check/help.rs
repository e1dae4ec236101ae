//! `check --help` lists everything to collect for the verdict.

use serde::Deserialize;
use serde_json::Value;

use crate::run::{end, input, program};

/// The rights of `check`. A system test verifies that it uses exactly these.
const RIGHTS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/manifests/viewer.yaml"
));
/// Resources that only must-gather lists.
const NOT_JUDGED: &str = "events leases volumeattachments operatorconditions";
/// Short names that the example uses.
const SHORT: &str = "namespaces=ns storageclasses=sc persistentvolumes=pv persistentvolumeclaims=pvc daemonsets=ds \
    deployments=deploy replicasets=rs statefulsets=sts replicationcontrollers=rc";

#[test]
fn the_help_names_every_kind_that_is_judged_and_its_example_collects_it() {
    let help = end(program(&input()).args(["check", "--help"])).stdout;
    let (text, example) = help.split_once("Examples:").unwrap();
    let has = |text: &str, word: &str| {
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
        words.any(|found| found == word)
    };
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
            let mut short = SHORT.split(' ').filter_map(|it| it.split_once('='));
            let short = short.find(|(long, _)| *long == resource);
            let short = short.map_or(resource, |(_, short)| short);
            assert!(has(text, resource) && has(example, short), "{resource}");
        }
    }
    assert!(seen > 15, "{seen}");
    let switches = "internal-feature-states.csi.vsphere.vmware.com";
    assert_eq!(help.matches(switches).count(), 2, "{help}");
}
