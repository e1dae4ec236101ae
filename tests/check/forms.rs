//! One cluster in all the forms in which people have it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::run::{
    Ended, FOLDERS, check_file, check_files, check_in, check_stdin, folder, input, objects,
};

fn expected(folder: &str) -> Value {
    check_in(&input(), &["-o", "json", "-f", folder]).json()
}

#[track_caller]
fn assert_same(expected: &Value, ended: &Ended) {
    assert_eq!(*expected, ended.json(), "{}", ended.stderr);
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

/// The objects by kind, without it, as typed lists have them.
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
fn one_file_of_many_documents() {
    for name in FOLDERS {
        let text = documents(&objects(name));
        assert_same(&expected(name), &check_file("all.yaml", &text));
        assert_same(&expected(name), &check_stdin(text.as_bytes()));
    }
}

#[test]
fn a_list_as_kubectl_prints_it() {
    for name in FOLDERS {
        let list = json!({"apiVersion": "v1", "items": objects(name), "kind": "List",
            "metadata": {"resourceVersion": ""}});
        let pretty = serde_json::to_string_pretty(&list).unwrap();
        assert_same(&expected(name), &check_file("all.json", &pretty));
        assert_same(&expected(name), &check_file("all.yaml", yaml(&list)));
        // JSON is YAML too, and a file named on the command line may have any name.
        assert_same(&expected(name), &check_file("all.yaml", &pretty));
        assert_same(&expected(name), &check_file("kubectl.out", &pretty));
        assert_same(&expected(name), &check_file("kubectl.out", yaml(&list)));
        assert_same(&expected(name), &check_stdin(list.to_string().as_bytes()));
        assert_same(&expected(name), &check_stdin(yaml(&list).as_bytes()));
    }
}

#[test]
fn typed_lists_whose_items_have_no_kind() {
    for name in FOLDERS {
        let lists = typed_lists(&objects(name));
        assert_same(&expected(name), &check_file("all.yaml", documents(&lists)));
        // kubectl prints one JSON text after the other.
        let json = lists.iter().map(Value::to_string).collect::<String>();
        assert_same(&expected(name), &check_file("all.json", json));
    }
}

#[test]
fn objects_in_any_order() {
    for name in FOLDERS {
        let mut all = objects(name);
        all.reverse();
        assert_same(&expected(name), &check_file("all.yaml", documents(&all)));
        let half = all.len() / 2;
        all.rotate_left(half);
        assert_same(&expected(name), &check_file("all.yaml", documents(&all)));
    }
}

#[test]
fn given_twice() {
    for name in FOLDERS {
        let text = documents(&objects(name));
        let twice = check_files(&[("a.yaml", text.as_bytes()), ("b.yaml", text.as_bytes())]);
        assert_same(&expected(name), &twice);
        let named_twice = check_in(
            &input(),
            &[
                "-o",
                "json",
                "-f",
                name,
                "-f",
                &format!("./{name}/../{name}"),
            ],
        );
        assert_same(&expected(name), &named_twice);
        let once = check_in(&input(), &["-o", "json", "-f", name]);
        assert_eq!(once.stderr, named_twice.stderr, "files are read once");
    }
}

/// Writes the objects where `oc adm inspect` has them.
fn inspect(objects: &[Value], root: &Path) {
    let mut files: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for object in objects {
        let of = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let group = match of("/apiVersion").unwrap().split_once('/') {
            Some((group, _)) => group.to_owned(),
            None => "core".to_owned(),
        };
        let plural = format!("{}s", of("/kind").unwrap().to_lowercase());
        let namespaced = !matches!(
            plural.as_str(),
            "nodes"
                | "csinodes"
                | "csidrivers"
                | "persistentvolumes"
                | "storageclasss"
                | "runtimeclasss"
        );
        let file = if namespaced {
            let namespace = of("/metadata/namespace").unwrap_or("default");
            format!("namespaces/{namespace}/{group}/{plural}.yaml")
        } else {
            let name = of("/metadata/name").unwrap();
            format!("cluster-scoped-resources/{group}/{plural}/{name}.yaml")
        };
        files.entry(file).or_default().push(object.clone());
    }
    for (file, objects) in files {
        let path = root.join(&file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = if file.starts_with("namespaces") {
            documents(&typed_lists(&objects))
        } else {
            documents(&objects)
        };
        std::fs::write(path, text).unwrap();
    }
}

#[test]
fn a_must_gather() {
    for name in FOLDERS {
        let image = "must-gather.local.4711/quay-io-openshift-must-gather-sha256-0123";
        let around = folder(&[
            (
                &format!("{image}/version"),
                "openshift/must-gather\n4.13.0-202310210425\n",
            ),
            (
                &format!("{image}/gather.logs"),
                "[must-gather] OUT: {not: yaml\n",
            ),
            (
                "must-gather.local.4711/timestamp",
                "2023-11-02 08:00:00 +0000 UTC\n",
            ),
            ("must-gather.local.4711/event-filter.html", "<html></html>"),
            (
                &format!("{image}/namespaces/shop/pods/web-0/web/web/logs/current.log"),
                "2023-11-02T08:00:00Z {[ half a thought\n",
            ),
            // What inspect could not read, and what is none of Kubernetes' objects.
            (&format!("{image}/namespaces/shop/core/secrets.yaml"), ""),
            (
                &format!("{image}/namespaces/shop/core/events.yaml"),
                "---\napiVersion: v1\nitems: null\nkind: EventList\nmetadata:\n  resourceVersion: \"1\"\n",
            ),
            (
                &format!("{image}/namespaces/shop/route.openshift.io/routes.yaml"),
                "---\napiVersion: route.openshift.io/v1\nitems: []\nkind: RouteList\nmetadata: {}\n",
            ),
            (
                &format!("{image}/host_service_logs/windows/log_files/x.json"),
                "{\"level\": \"info\"}\n",
            ),
        ]);
        inspect(&objects(name), &around.path().join(image));
        let ended = check_in(
            around.path(),
            &["-o", "json", "-f", "must-gather.local.4711"],
        );
        assert_same(&expected(name), &ended);
    }
}
