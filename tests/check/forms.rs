//! The same cluster in all the forms in which users have it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::run::{Ended, FOLDERS, check_file, check_in, check_stdin, folder, input, objects};

fn expected(folder: &str) -> Value {
    check_in(&input(), &["-o", "json", "-f", folder]).judgement()
}

#[track_caller]
fn assert_same(expected: &Value, ended: &Ended) {
    assert_eq!(*expected, ended.judgement(), "{}", ended.stderr);
}

fn yaml(value: &Value) -> String {
    serde_yaml::to_string(value).unwrap()
}

fn documents(objects: &[Value]) -> String {
    objects.iter().fold(String::new(), |mut text, object| {
        let _ = write!(text, "---\n{}", yaml(object));
        text
    })
}

/// Returns the objects as typed lists, by kind. Items of a typed list carry no kind.
fn typed_lists(objects: &[Value]) -> Vec<Value> {
    let mut kinds: BTreeMap<(String, String), Vec<Value>> = BTreeMap::new();
    for object in objects {
        let mut item = object.clone();
        let fields = item.as_object_mut().unwrap();
        let mut take = |key| fields.remove(key).unwrap().as_str().unwrap().to_owned();
        kinds
            .entry((take("apiVersion"), take("kind")))
            .or_default()
            .push(item);
    }
    kinds
        .into_iter()
        .map(|((api_version, kind), items)| {
            json!({"apiVersion": api_version, "items": items, "kind": format!("{kind}List"), "metadata": {}})
        })
        .collect()
}

#[test]
fn one_cluster_in_any_form_and_order_gives_one_report() {
    for name in FOLDERS {
        let expected = expected(name);
        let all = objects(name);
        let list = json!({"apiVersion": "v1", "items": all, "kind": "List", "metadata": {"resourceVersion": ""}});
        let lists = typed_lists(&all);
        let mut reversed = all.clone();
        reversed.reverse();
        let mut rotated = reversed.clone();
        rotated.rotate_left(all.len() / 2);
        let pretty = serde_json::to_string_pretty(&list).unwrap();
        // kubectl prints one JSON text after another.
        let texts: String = lists.iter().map(Value::to_string).collect();
        for (file, text) in [
            ("all.json", &pretty),
            // JSON is YAML too, and a file named on the command line may have any name.
            ("all.yaml", &pretty),
            ("kubectl.out", &pretty),
            ("kubectl.out", &yaml(&list)),
            ("all.yaml", &documents(&lists)),
            ("all.json", &texts),
            ("all.yaml", &documents(&reversed)),
            ("all.yaml", &documents(&rotated)),
        ] {
            assert_same(&expected, &check_file(file, text));
        }
        // As PowerShell's > writes it: UTF-16 with a mark, and CRLF.
        let windows = format!("\u{feff}{}", documents(&all).replace('\n', "\r\n"));
        let units = windows.encode_utf16().flat_map(u16::to_le_bytes);
        for bytes in [
            documents(&all).into(),
            list.to_string().into(),
            yaml(&list).into(),
            windows.clone().into_bytes(),
            units.collect(),
        ] {
            assert_same(&expected, &check_file("all.yaml", &bytes));
            assert_same(&expected, &check_stdin(&bytes));
        }
    }
}

/// Writes the objects in folders as `oc adm inspect` does: lists by namespace, and what has none each in a file.
fn inspect(objects: &[Value], root: &Path) {
    for (number, object) in objects.iter().enumerate() {
        let one = std::slice::from_ref(object);
        let (file, text) = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => {
                let text = documents(&typed_lists(one));
                (format!("namespaces/{namespace}/core/{number}s.yaml"), text)
            }
            None => (
                format!("cluster-scoped-resources/core/{number}.yaml"),
                documents(one),
            ),
        };
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

#[test]
fn a_must_gather() {
    let image = "must-gather.local.4711/quay-io-openshift-must-gather-sha256-0123";
    let known = include_str!("must-gather.yaml").replace("IMAGE", image);
    let known: BTreeMap<String, String> = serde_yaml::from_str(&known).unwrap();
    let files: Vec<(&str, &str)> = known
        .iter()
        .map(|(file, text)| (&**file, &**text))
        .collect();
    for name in FOLDERS {
        let around = folder(&files);
        inspect(&objects(name), &around.path().join(image));
        let ended = check_in(
            around.path(),
            &["-o", "json", "-f", "must-gather.local.4711"],
        );
        assert_same(&expected(name), &ended);
    }
}
