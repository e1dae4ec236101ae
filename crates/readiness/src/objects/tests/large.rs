//! Tests of objects of which a row would keep much.

use serde_json::{Value, json};

use super::{load, object};
use crate::index::Cluster;
use crate::objects::{Received, cluster_kinds, kind, own_config_maps};

/// Returns a list of this many items.
fn many(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

/// Returns objects in which what is used has so many parts.
fn with(count: usize) -> Vec<Value> {
    let name = |number: usize| format!("part-{number}");
    let claims = many(
        count,
        |number| json!({"name": name(number), "persistentVolumeClaim": {"claimName": name(number)}}),
    );
    let templates = many(
        count,
        |number| json!({"metadata": {"name": name(number)}, "spec": {}}),
    );
    let labels: Value = (0..count)
        .map(|number| (name(number), "x".into()))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let pipes = many(
        count,
        |number| json!({"name": name(number), "hostPath": {"path": format!(r"\\.\pipe\csi-proxy-{number}")}}),
    );
    let driver = json!([{"name": "a", "image": "example.com/smbplugin:v1.2"}]);
    let tolerations = many(count, |number| json!({"key": name(number)}));
    let template = |mut spec: Value| {
        spec["os"] = json!({"name": "windows"});
        json!({"spec": {"template": {"spec": spec}}})
    };
    let mut set = template(json!({}));
    set["spec"]["volumeClaimTemplates"] = templates;
    let uid = "u".repeat(count * 10);
    vec![
        object("v1", "Pod", json!({"spec": {"volumes": claims}})),
        object("v1", "Pod", json!({"spec": {"volumes": pipes}})),
        object(
            "apps/v1",
            "Deployment",
            template(json!({"volumes": claims})),
        ),
        object(
            "batch/v1",
            "Job",
            json!({"spec": {"template": {"spec": {"nodeSelector": labels}}}}),
        ),
        object("apps/v1", "StatefulSet", set),
        object(
            "apps/v1",
            "DaemonSet",
            template(json!({"containers": driver, "tolerations": tolerations})),
        ),
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {
            "namespace": "shop", "name": "x", "ownerReferences": [{"controller": true, "uid": uid}]}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {
            "namespace": "shop", "name": "x",
            "annotations": {"volume.beta.kubernetes.io/storage-class": uid}}}),
    ]
}

/// Returns DaemonSets of which more could be kept than their text has, of so many parts.
fn that_swell(count: usize) -> [Value; 3] {
    let parts: Vec<String> = (0..60).map(|part| format!("/$(V){part}")).collect();
    let path = parts.concat();
    let containers = many(count, |number| {
        json!({
            "image": "csi-node-driver-registrar",
            "args": ["--kubelet-registration-path", path],
            "env": [{"name": "V", "value": format!("{number}{}", "x".repeat(60))}],
        })
    });
    let folder = format!("/plugins/{}", "x".repeat(count * 10));
    let folder = json!([{"name": "a", "hostPath": {"path": folder}}]);
    let any = json!({"key": "a", "operator": "In", "values": vec!["x"; count]});
    let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [any]}]});
    let affinity =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    let driver = json!([{"image": "example.com/smbplugin:v1.2"}]);
    [
        json!({"containers": containers}),
        json!({"containers": containers, "volumes": folder}),
        json!({"containers": driver, "affinity": affinity}),
    ]
    .map(|spec| {
        let template = json!({"spec": {"template": {"spec": spec}}});
        object("apps/v1", "DaemonSet", template)
    })
}

/// Returns the cluster after this object has come from the API server.
fn absorbed(object: &Value) -> Cluster {
    let text = |field: &str| object[field].as_str().unwrap();
    let kind = kind(text("apiVersion"), text("kind")).unwrap();
    let received: Received = serde_json::from_str(&object.to_string()).unwrap();
    let mut cluster = Cluster::default();
    kind.absorb(&mut cluster, &received);
    cluster
}

/// Returns a problem of a kind, after this object has come from the API server.
fn problem(object: &Value) -> Option<String> {
    let cluster = absorbed(object);
    let mut tables = cluster_kinds().map(|kind| kind.table(&cluster));
    let table = tables.find(|table| table.problem().is_some())?;
    assert!(table.is_empty());
    table.problem().map(str::to_owned)
}

#[test]
fn no_row_takes_more_than_its_bound_whatever_it_is_made_from() {
    for count in [1, 4, 10, 40, 100, 400, 1_000, 4_000] {
        for object in that_swell(count).into_iter().chain(with(count)) {
            let shown = format!("{:?}", absorbed(&object)).replace(r#"\""#, "__");
            // A text takes a pointer and an allocation beside its letters.
            let size = shown.len() + 15 * shown.matches('"').count();
            assert!(size < 68 << 10, "{count} in {}: {size} B", object["kind"]);
        }
    }
}

#[test]
fn an_object_of_which_much_would_be_kept_is_named_and_not_kept() {
    for object in with(20_000) {
        let problem = problem(&object).unwrap_or_else(|| panic!("{} is kept", object["kind"]));
        let named = format!(
            "{} shop/x cannot be read: field of the object: what is used of it takes more than 64 KiB",
            object["kind"].as_str().unwrap()
        );
        assert_eq!(problem, named);
        // Whoever gives files decides about their size.
        load(&[object]).unwrap();
    }
    for object in with(200) {
        assert_eq!(problem(&object), None);
        load(&[object]).unwrap();
    }
}

#[test]
fn the_sockets_of_a_driver_are_taken_apart_once() {
    let container = |number: usize| {
        let parts: Vec<String> = (0..500).map(|part| format!("a{number}-{part}")).collect();
        // The first names are in the last sockets.
        let path = format!("C:/z{}/{}", 99 - number, parts.join("/"));
        json!({"image": "csi-node-driver-registrar", "args": ["--kubelet-registration-path", path]})
    };
    let host = json!({"windowsOptions": {"hostProcess": true}});
    let spec = json!({"containers": many(32, container), "securityContext": host});
    let set = json!({"spec": {"template": {"spec": spec}}});
    let set = object("apps/v1", "DaemonSet", set);
    let done = allocation_counter::measure(|| assert_eq!(problem(&set), None));
    assert!(done.count_total < 20_000, "{done:?}");
}

#[test]
fn what_is_not_used_of_a_large_object_does_not_matter() {
    let text = "x".repeat(1_300_000);
    for spec in [
        json!({"containers": [{"name": "a", "args": [text], "env": [{"name": "a", "value": text}]}]}),
        json!({"hostAliases": [{"ip": text}]}),
    ] {
        let rest = json!({"spec": {"template": {"spec": spec}}});
        assert_eq!(problem(&object("apps/v1", "DaemonSet", rest)), None);
    }
}

#[test]
fn an_administrators_objects_may_be_as_large_as_kubernetes_lets_them() {
    let data = json!({"services": "x".repeat(1_000_000)});
    let text = json!({"metadata": {"namespace": "operator", "name": "x"}, "data": data});
    let received: Received = serde_json::from_str(&text.to_string()).unwrap();
    let (kind, mut cluster) = (own_config_maps().unwrap(), Cluster::default());
    kind.absorb(&mut cluster, &received);
    assert_eq!(kind.table(&cluster).problem(), None);
    assert_eq!(cluster.config_maps.iter().count(), 1);
}
