//! Fields of used kinds that have another type than Kubernetes gives them.

use serde_json::{Value, json};

use crate::run::{BLOCKING_POD, WINDOWS_NODE, check_files};

/// Values that fields cannot have, kind by kind.
const WRONG: &str = include_str!("fields.txt");

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
    let good = format!("{WINDOWS_NODE}{BLOCKING_POD}");
    let mut wrong = Vec::new();
    let mut kinds = Vec::new();
    for line in WRONG.lines() {
        if let Some(names) = line.strip_prefix("= ") {
            kinds = names.split(' ').collect();
        } else if let [path, value, named] = line.split(" | ").collect::<Vec<_>>()[..] {
            for (api_version, kind) in kinds.iter().filter_map(|kind| kind.rsplit_once('/')) {
                let value = serde_json::from_str(value).unwrap();
                wrong.push((document(api_version, kind, path, &value), kind, named));
            }
        }
    }
    assert!(wrong.len() > 300);
    // As many as are named at once.
    for wrong in wrong.chunks(20) {
        let documents: Vec<_> = wrong.iter().map(|(text, ..)| text.as_str()).collect();
        let text = format!("kind: Nothing\n---\n{}\n", documents.join("\n---\n"));
        let ended = check_files(&[
            ("good.yaml", good.as_bytes()),
            ("wrong.yaml", text.as_bytes()),
        ]);
        ended.assert_refused(&text);
        let stderr = ended.stderr.strip_prefix("error: ").unwrap();
        assert_eq!(stderr.lines().count(), wrong.len(), "{stderr}");
        for (number, (line, (text, kind, named))) in stderr.lines().zip(wrong).enumerate() {
            let (document, at) = (number + 2, 2 * number + 3);
            let place = format!("wrong.yaml, document {document}, line {at}: {kind}: field ");
            assert!(line.starts_with(&place), "{text}: {line}");
            assert!(line.contains(named), "{text}: {line}");
        }
    }
}

#[test]
fn an_item_of_a_list_is_named_by_its_number() {
    let list = "apiVersion: v1\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n  spec: {nodeName: 7}\nkind: PodList\n";
    let ended = check_files(&[("pods.yaml", list.as_bytes())]);
    ended.assert_refused("item");
    let expected = "error: pods.yaml, document 1, items[1]: Pod: field spec.nodeName: ";
    assert!(ended.stderr.starts_with(expected), "{}", ended.stderr);
}

#[test]
fn many_wrong_objects_are_named_up_to_a_bound_and_counted() {
    let wrong = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: 1}\n";
    let ended = check_files(&[("pods.yaml", wrong.repeat(30).as_bytes())]);
    ended.assert_refused("many");
    assert_eq!(ended.stderr.lines().count(), 21, "{}", ended.stderr);
    assert!(ended.stderr.ends_with("and 10 more\n"));
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
    ended.assert_status(0);
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
        ended.assert_says("ConfigMap: field data");
    }
}
