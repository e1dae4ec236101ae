//! Tests of decoding: fields that are read, fields that are ignored, and errors.

mod elsewhere;
mod fields;
mod large;

use serde_json::{Value, json};

use crate::index::{AnyTable, Cluster, ObjectKey, Pod, PodVolumeSource, VolumeType, WorkloadKind};
use crate::objects::{FieldError, Loader, kind};

fn load(objects: &[Value]) -> Result<Cluster, FieldError> {
    let mut loader = Loader::default();
    for object in objects {
        let text = |field: &str| object[field].as_str().unwrap();
        loader.put(text("apiVersion"), text("kind"), object)?;
    }
    Ok(loader.finish())
}

fn object(api_version: &str, kind: &str, rest: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"namespace": "shop", "name": "x", "uid": "u"},
    });
    let Value::Object(rest) = rest else {
        panic!("{rest} is no object");
    };
    object.as_object_mut().unwrap().extend(rest);
    object
}

fn pod(spec: &Value) -> Value {
    object("v1", "Pod", json!({"spec": spec}))
}

fn pod_row(spec: &Value) -> Option<Pod> {
    let cluster = load(&[pod(spec)]).unwrap();
    cluster.pods.get(&ObjectKey::new("shop", "x")).cloned()
}

fn volume_row(spec: &Value) -> Option<VolumeType> {
    let cluster = load(&[object("v1", "PersistentVolume", json!({"spec": spec}))]).unwrap();
    cluster.volumes.get("x").unwrap().source.clone()
}

#[test]
fn an_in_tree_field_that_is_null_is_not_set() {
    for plugin in &crate::assess::plugins::PLUGINS {
        let volume = json!({"name": "data", plugin.field: null});
        let name = plugin.name;
        assert_eq!(pod_row(&json!({"volumes": [volume]})), None, "{name}");
        assert_eq!(volume_row(&json!({plugin.field: null})), None, "{name}");
    }
}

#[test]
fn a_volume_with_a_drivers_name_is_not_in_tree_whatever_stands_beside_it() {
    let csi = VolumeType::Csi("a.b".into());
    let both =
        json!({"azureDisk": {"diskName": "d"}, "csi": {"driver": "a.b", "volumeHandle": "h"}});
    assert_eq!(volume_row(&both), Some(csi.clone()));
    let claim = json!({"claimName": "c"});
    for (field, value, source) in [
        (
            "csi",
            json!({"driver": "a.b"}),
            PodVolumeSource::Inline(csi),
        ),
        (
            "persistentVolumeClaim",
            claim,
            PodVolumeSource::Claim("c".into()),
        ),
    ] {
        let volume = json!({"name": "data", field: value, "azureDisk": {}});
        let pod = pod_row(&json!({"volumes": [volume]})).unwrap();
        assert_eq!(pod.volumes[0].source, source);
    }
}

#[test]
fn init_containers_show_a_driver_too() {
    let init = json!({"initContainers": [{"args": ["--kubelet-registration-path=/var/lib/kubelet/plugins/a.b/csi.sock"]}]});
    let driver = pod_row(&init).unwrap().driver.unwrap();
    assert!(driver.names.contains("a.b"));
    // A Deployment is never a node side.
    for (kind, is_node_side) in [
        (WorkloadKind::DaemonSet, true),
        (WorkloadKind::Deployment, false),
    ] {
        let template = json!({"spec": {"template": {"spec": init}}});
        let cluster = load(&[object("apps/v1", kind.as_str(), template)]).unwrap();
        let owner = cluster.owners[kind]
            .get(&ObjectKey::new("shop", "x"))
            .unwrap();
        let node_side = owner.node_side.as_ref();
        assert_eq!(
            node_side.is_some_and(|it| it.names.contains("a.b")),
            is_node_side
        );
        assert_eq!(node_side.is_some(), is_node_side);
    }
}

#[test]
fn a_drivers_pod_is_ready_by_its_condition_and_its_trouble_is_the_first_that_counts() {
    let driver = |status: Value| {
        let spec = json!({"containers": [{"image": "x/smbplugin:v1.17.0"}]});
        let cluster =
            load(&[object("v1", "Pod", json!({"spec": spec, "status": status}))]).unwrap();
        cluster
            .pods
            .get(&ObjectKey::new("shop", "x"))
            .and_then(|pod| pod.driver.clone())
    };
    let ready = |status: &str| json!({"conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": status}]});
    assert!(driver(ready("True")).unwrap().ready);
    assert!(!driver(ready("False")).unwrap().ready);
    assert!(!driver(json!({"phase": "Running"})).unwrap().ready);
    assert_eq!(driver(json!({"phase": "Failed"})), None);
    let troubled = driver(json!({
        "initContainerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}],
        "containerStatuses": [{"state": {"running": {}}}, {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
    }));
    assert_eq!(
        troubled.unwrap().trouble.as_deref(),
        Some("CrashLoopBackOff")
    );
}

#[test]
fn kinds_of_other_groups_and_other_config_maps_are_passed_over() {
    assert!(kind("example.com/v1", "DaemonSet").is_none());
    assert!(kind("v1", "DaemonSet").is_none());
    assert!(kind("v1", "Service").is_none());
    let map = object("v1", "ConfigMap", json!({"data": {"a": 1}}));
    assert!(load(&[map]).unwrap().feature_switches.is_empty());
}

#[test]
fn of_an_object_that_comes_twice_the_newer_counts() {
    let node = |version: Value, kubelet: &str| {
        object(
            "v1",
            "Node",
            json!({
                "metadata": {"name": "x", "resourceVersion": version}, "status": {"nodeInfo": {"kubeletVersion": kubelet}},
            }),
        )
    };
    for (first, second, wins) in [
        (json!("9"), json!("10"), "second"),
        (json!("10"), json!("9"), "first"),
        (json!("10"), json!(null), "second"),
        (json!("a"), json!("9"), "second"),
    ] {
        let cluster =
            load(&[node(first.clone(), "first"), node(second.clone(), "second")]).unwrap();
        assert_eq!(
            cluster.nodes.get("x").unwrap().kubelet_version,
            wins,
            "{first} {second}"
        );
    }
}
