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
fn many_wrong_objects_are_named_up_to_a_bound_and_counted() {
    let wrong = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: 1}\n";
    let ended = check_files(&[("pods.yaml", wrong.repeat(30).as_bytes())]);
    ended.assert_refused("many");
    assert_eq!(ended.stderr.lines().count(), 21, "{}", ended.stderr);
    assert!(ended.stderr.ends_with("and 10 more\n"));
}
