//! Fields of used kinds that have another type than Kubernetes gives them.

mod kinds;
mod parts;

use serde_json::{Value, json};

use crate::run::{BLOCKING_POD, WINDOWS_NODE, check_files};

/// A document that is as it should be, but for that field.
fn document(api_version: &str, kind: &str, path: &str, value: &Value) -> String {
    let mut object =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": {}});
    let mut place = &mut object;
    for part in path.split('.') {
        place = &mut place[part];
    }
    *place = value.clone();
    object.to_string()
}

#[test]
fn the_message_names_file_document_kind_and_field() {
    let start = format!("{WINDOWS_NODE}{BLOCKING_POD}");
    for (api_version, kind, is_namespaced, wrongs) in kinds::kinds() {
        let mut wrongs = wrongs;
        wrongs.extend(parts::everywhere());
        if is_namespaced {
            wrongs.extend(parts::namespaced());
        }
        for (path, value, named) in wrongs {
            let what = format!("{kind} {path} {value}");
            let wrong = document(api_version, kind, path, &value);
            let text = format!("kind: Nothing\n---\n{wrong}\n");
            let ended = check_files(&[
                ("good.yaml", start.as_bytes()),
                ("wrong.yaml", text.as_bytes()),
            ]);
            ended.assert_refused(&what);
            let place = format!("error: wrong.yaml, document 2, line 3: {kind}: field ");
            assert!(ended.stderr.starts_with(&place), "{what}: {}", ended.stderr);
            assert!(ended.stderr.contains(named), "{what}: {}", ended.stderr);
        }
    }
}

#[test]
fn an_item_of_a_list_is_named_by_its_number() {
    let list = "apiVersion: v1\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n  spec: {nodeName: 7}\nkind: PodList\n";
    let ended = check_files(&[("pods.yaml", list.as_bytes())]);
    ended.assert_refused("item");
    let expected = "error: pods.yaml, document 1, items[1], line 4: Pod: field spec.nodeName: ";
    assert!(ended.stderr.starts_with(expected), "{}", ended.stderr);
}

#[test]
fn many_wrong_objects_are_named_up_to_a_bound_and_counted() {
    let wrong = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: 1}\n";
    let ended = check_files(&[("pods.yaml", wrong.repeat(30).as_bytes())]);
    ended.assert_refused("many");
    assert_eq!(ended.stderr.lines().count(), 21, "{}", ended.stderr);
    assert!(ended.stderr.ends_with("and 10 more objects like these\n"));
}

#[test]
fn fields_and_kinds_that_are_not_used_may_be_anything() {
    let text = format!(
        "{WINDOWS_NODE}
apiVersion: v1
kind: Pod
metadata: {{name: web, managedFields: 7}}
spec: {{hostname: [7], priority: high, containers: [{{ports: never, resources: []}}]}}
---
apiVersion: v1
kind: Service
metadata: []
spec: 7
---
apiVersion: example.com/v1
kind: Node
metadata: 7
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: [another]}}
data: 7
"
    );
    let ended = check_files(&[("all.yaml", text.as_bytes())]);
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
}

#[test]
fn the_feature_switches_are_held_to_their_type() {
    let name = "internal-feature-states.csi.vsphere.vmware.com";
    for data in ["[]", "{csi-windows-support: true}", "false"] {
        let text = format!(
            "{WINDOWS_NODE}\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {data}\n"
        );
        let ended = check_files(&[("all.yaml", text.as_bytes())]);
        ended.assert_refused(data);
        assert!(
            ended.stderr.contains("ConfigMap: field data"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn a_sequence_is_no_mapping() {
    for (api_version, kind, path, value) in [
        (
            "v1",
            "Pod",
            "status",
            json!(["Succeeded", null, null, null]),
        ),
        ("v1", "Pod", "spec.os", json!(["windows"])),
        (
            "v1",
            "PersistentVolumeClaim",
            "spec",
            json!(["pv-1", "std"]),
        ),
        ("v1", "Node", "spec", json!([null])),
        ("v1", "Node", "spec.taints", json!([[]])),
        (
            "v1",
            "Pod",
            "spec.volumes",
            json!([{"name": "d", "hostPath": []}]),
        ),
        (
            "storage.k8s.io/v1",
            "CSINode",
            "spec",
            json!([[["disk.csi.azure.com"]]]),
        ),
        (
            "windowsstorage.dev/v1alpha1",
            "WindowsStorage",
            "spec",
            json!([]),
        ),
    ] {
        let wrong = document(api_version, kind, path, &value);
        let text = format!("{WINDOWS_NODE}{wrong}\n");
        let what = format!("{kind} {path} {value}");
        check_files(&[("all.yaml", text.as_bytes())]).assert_refused(&what);
    }
}
