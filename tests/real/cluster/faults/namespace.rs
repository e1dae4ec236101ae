//! The operator's namespace is deleted while it runs, and recreated.

use serde_json::Value;
use testbed::control_plane::Issuer;
use testbed::objects::NAMESPACE;
use testbed::sandbox::install;

use super::credentials::put;
use super::{NODES, Scene};

/// More requests than this in the ten seconds that a leader goes on without its Lease would be a hot loop: objects that
/// cannot be created are retried with backoff.
const MANY: usize = 100;

#[test]
fn a_namespace_that_is_deleted_and_recreated_takes_nothing_from_a_node() {
    let mut scene = Scene::new();
    let folder = scene.mounted(&[Issuer::First]);
    put(&folder, "token", scene.token().as_bytes());
    scene.by_token(&folder);
    let mut operator = scene.start_electing();
    let calm = scene.calm();
    let nodes = NODES.map(|node| scene.node(node));
    let (mark, openings) = (scene.mark(), scene.openings());
    let mut key = scene.get("secret/cloud-private-key");
    key["metadata"]
        .as_object_mut()
        .unwrap()
        .retain(|field, _| ["name", "namespace"].contains(&field.as_str()));

    // While it is terminating, its objects disappear one after the other, and none can be created.
    let harness = &*scene;
    harness.kubectl(&format!("delete namespace {NAMESPACE} --wait=false"));
    for kind in ["configmaps", "leases", "operatorconditions", "secrets"] {
        harness.kubectl(&format!("delete {kind} --all -n {NAMESPACE}"));
    }
    for refused in ["leases", "configmaps"] {
        harness.eventually(&format!("it is told that {refused} cannot be made"), || {
            let told = scene.told_since(mark);
            let mut lines = told.lines();
            lines.any(|line| line.contains(refused) && line.contains("is being terminated"))
        });
    }
    let told = scene.told_since(mark);
    assert!(
        !told.contains("needs the rights to create leases"),
        "{told}"
    );
    let before = harness.requests().len();
    // Without its Lease it ends, and its pod starts it again.
    let status = operator.wait().unwrap();
    assert_eq!(status.code(), Some(1), "{}", scene.told_since(mark));
    let asked = harness.requests().split_off(before);
    assert!(asked.len() < MANY, "{}: {asked:#?}", asked.len());
    let mark = scene.mark();
    operator = scene.launch_electing();
    harness.eventually("it says what it waits for", || {
        let told = scene.told_since(mark);
        told.contains("the Lease is created once the namespace")
    });
    assert_eq!(NODES.map(|node| scene.node(node)), nodes);

    // Then it is gone, together with the operator's ServiceAccount.
    let control_plane = scene.control_plane();
    control_plane
        .start_controller_manager("namespace-controller")
        .unwrap();
    harness.eventually("the namespace is gone", || {
        let path = format!("/api/v1/namespaces/{NAMESPACE}");
        control_plane.read(&path).unwrap().is_none()
    });
    assert_eq!(NODES.map(|node| scene.node(node)), nodes);
    // Its pod went with the namespace; a new installation brings a new one, with a token of the new ServiceAccount.
    drop(operator);
    install(control_plane).unwrap();
    control_plane.apply(&Value::to_string(&key)).unwrap();
    put(&folder, "token", scene.token().as_bytes());
    operator = scene.launch_electing();
    scene.expect_missing(NODES[1]);
    assert_eq!(scene.openings(), openings);
    scene.expect_as_calm(&calm);
    assert_eq!(operator.ended().unwrap(), None);
}
