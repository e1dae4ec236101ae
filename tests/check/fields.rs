//! Fields of used kinds with a type other than the one Kubernetes defines.

use serde_json::{Value, json};

use crate::run::{BLOCKING_POD, WINDOWS_NODE, check_files};

/// Invalid values of fields, by kind.
const WRONG: &str = include_str!("fields.txt");
/// Invalid values of fields that are not used.
const UNUSED: &str = include_str!("unused.txt");

/// Returns a document for each line of a table, its kind, and the rest of the line.
fn documents(table: &str) -> Vec<(String, &str, &str)> {
    let mut documents = Vec::new();
    let mut kinds = Vec::new();
    for line in table.lines() {
        if let Some(names) = line.strip_prefix("= ") {
            kinds = names.split(' ').collect();
        } else if let Some((path, rest)) = line.split_once(" | ") {
            let (value, named) = rest.split_once(" | ").unwrap_or((rest, ""));
            for (api_version, kind) in kinds.iter().filter_map(|kind| kind.rsplit_once('/')) {
                let value = serde_json::from_str(value).unwrap();
                documents.push((document(api_version, kind, path, &value), kind, named));
            }
        }
    }
    documents
}

/// Returns a document that is valid except for this field.
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
    let wrong = documents(WRONG);
    assert!(wrong.len() > 250);
    // One error names up to 20 of them.
    for wrong in wrong.chunks(20) {
        let documents: Vec<_> = wrong.iter().map(|(text, ..)| text.as_str()).collect();
        let text = format!("kind: Nothing\n---\n{}\n", documents.join("\n---\n"));
        let ended = check_files(&[
            ("good.yaml", good.as_bytes()),
            ("wrong.yaml", text.as_bytes()),
        ]);
        ended.assert_unknown(&text);
        let volumes = &ended.json()["volumes"];
        assert_eq!(volumes[0]["workload"]["name"], "web", "the rest is judged");
        let stderr = ended.stderr.strip_prefix("error: ").unwrap();
        let (errors, _) = stderr.split_once("\nnote: ").unwrap();
        assert_eq!(errors.lines().count(), wrong.len(), "{stderr}");
        for (number, (line, (text, kind, named))) in errors.lines().zip(wrong).enumerate() {
            let (document, at) = (number + 2, 2 * number + 3);
            let place = format!("wrong.yaml, document {document}, line {at}: {kind}: field ");
            assert!(line.starts_with(&place), "{text}: {line}");
            assert!(line.contains(named), "{text}: {line}");
        }
    }
}

#[test]
fn fields_that_are_not_used_may_be_anything() {
    let unused = documents(UNUSED);
    let documents: Vec<_> = unused.iter().map(|(text, ..)| text.as_str()).collect();
    let ended = check_files(&[
        ("good.yaml", WINDOWS_NODE.as_bytes()),
        ("odd.yaml", documents.join("\n---\n").as_bytes()),
    ]);
    assert!(!ended.stderr.contains("error"), "{}", ended.stderr);
    ended.assert_status(0);
}
