//! The operator's RBAC is enough for all of its requests, and grants nothing else.

use serde::Deserialize;
use serde_json::{Value, json};
use testbed::control_plane::Request;
use testbed::objects::{self, NAMESPACE};

use crate::cluster::harness::SETTINGS;
use crate::cluster::metrics::scrape;
use crate::cluster::simulated::Simulation;

const MANIFEST: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/rbac.yaml"));

/// One verb on one resource, as a rule grants it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    /// `None` for the whole cluster.
    namespace: Option<String>,
    group: String,
    resource: String,
    verb: String,
    /// `None` for any object.
    name: Option<String>,
}

impl Grant {
    fn allows(&self, request: &Request) -> bool {
        let Self {
            namespace,
            group,
            resource,
            verb,
            name,
        } = self;
        *group == request.group
            && *resource == request.resource
            && *verb == request.verb
            && (namespace.is_none() || *namespace == request.namespace)
            && (name.is_none() || *name == request.name)
    }
}

/// Returns everything that a manifest grants.
fn grants(manifest: &str) -> Vec<Grant> {
    let mut grants = Vec::new();
    for document in serde_yaml::Deserializer::from_str(manifest) {
        let object = Value::deserialize(document).unwrap();
        let namespace = match object["kind"].as_str().unwrap() {
            "ClusterRole" => None,
            "Role" => object["metadata"]["namespace"].as_str().map(str::to_owned),
            _ => continue,
        };
        for rule in object["rules"].as_array().unwrap() {
            let list = |key: &str| -> Vec<String> {
                let words = rule[key].as_array().into_iter().flatten();
                words
                    .map(|word| word.as_str().unwrap().to_owned())
                    .collect()
            };
            let names: Vec<Option<String>> = match list("resourceNames") {
                names if names.is_empty() => vec![None],
                names => names.into_iter().map(Some).collect(),
            };
            for group in list("apiGroups") {
                for resource in list("resources") {
                    for verb in list("verbs") {
                        assert!(
                            ![&group, &resource, &verb]
                                .iter()
                                .any(|word| word.contains('*'))
                        );
                        grants.extend(names.iter().map(|name| Grant {
                            namespace: namespace.clone(),
                            group: group.clone(),
                            resource: resource.clone(),
                            verb: verb.clone(),
                            name: name.clone(),
                        }));
                    }
                }
            }
        }
    }
    grants
}

/// Asserts that each grant of a manifest was used, and nothing beside them and what is not of the manifest.
pub fn assert_just(manifest: &str, requests: &[Request], is_beside: impl Fn(&Request) -> bool) {
    let grants = grants(manifest);
    assert!(!grants.is_empty());
    let mut unused = grants.clone();
    unused.retain(|grant| !requests.iter().any(|request| grant.allows(request)));
    assert!(unused.is_empty(), "never used: {unused:#?}");
    let is_granted = |request: &&Request| grants.iter().any(|grant| grant.allows(request));
    let others = requests
        .iter()
        .filter(|it| !is_granted(it) && !is_beside(it));
    let others: Vec<&Request> = others.collect();
    assert!(others.is_empty(), "used beside the manifest: {others:#?}");
}

#[test]
fn every_right_is_needed_and_no_other_is() {
    let simulation = Simulation::new(2);
    let harness = &simulation.harness;
    // The operator itself creates the settings.
    harness.delete(SETTINGS);
    harness.apply(&objects::azure_disk_workload("win-000"));
    let payload = simulation.payload("v1.1.3");
    let _operator = harness.start_with_both(
        &payload,
        &["--metrics-address=127.0.0.1:0", "--leader-elect=true"],
    );
    let reader = harness.token("prometheus", true);
    let metrics = scrape(&harness.metrics_address(), "/metrics", Some(&reader));
    assert_eq!(metrics.status(), "200", "{}", metrics.answer);
    harness.expect_gate("False", "DriversMissing", &["win-000, win-001"]);
    harness.eventually("the settings are created", || {
        !harness.get(SETTINGS).is_null()
    });
    simulation.want(&json!({}));
    harness.eventually("both nodes have csi-proxy", || {
        simulation.ready().len() == 2
    });

    // Causes the entry to be rewritten, with a flag.
    simulation.want(&json!({"csiProxy": {"extraArgs": ["-v=5"]}}));
    harness.eventually("the flag is in the entry", || {
        let map = harness.get("configmap/windows-services");
        map["data"]["services"]
            .as_str()
            .is_some_and(|services| services.contains("-v=5"))
    });
    // A recurring problem is reported by one event with a count.
    let node = "windowsnodestorage/win-000";
    for _ in 0..2 {
        harness.register("win-000", true);
        harness.expect(node, "DriversRegistered", "True", "DriversRegistered");
        harness.register("win-000", false);
        harness.expect(node, "DriversRegistered", "False", "DriversMissing");
    }
    // One node is ignored, the other is deleted.
    harness.kubectl("label node win-000 windowsstorage.dev/ignore=true");
    harness.eventually("the ignored node has no status", || {
        harness.get(node).is_null()
    });
    harness.delete("node/win-001");
    harness.eventually("the host key of the node that left is forgotten", || {
        harness.get("configmap/windows-storage-host-keys")["data"]["win-001"].is_null()
    });
    harness.expect_gate("True", "NoWindowsNodes", &[]);

    harness.assert_nothing_was_forbidden();
    let requests = harness.requests();
    // Besides these, only OLM's permissions on the OperatorCondition were used.
    assert_just(MANIFEST, &requests, |request| {
        request.group == "operators.coreos.com" || request.resource.starts_with('/')
    });
    let of_olm = requests
        .iter()
        .filter(|request| request.group == "operators.coreos.com");
    for request in of_olm {
        assert!(
            ["get", "update", "patch"].contains(&request.verb.as_str()),
            "{request:?}"
        );
        assert_eq!(request.namespace.as_deref(), Some(NAMESPACE));
    }
}
