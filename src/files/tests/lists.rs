//! Documents and lists.

use serde_json::json;

use super::*;

#[test]
fn documents_one_after_the_other() {
    let (objects, tally) = good(format!("---\n{POD}---\n---\n# empty\n---\n{POD}...\n"));
    assert_eq!(
        names(&objects),
        [
            "in, document 1, line 2: v1 Pod a",
            "in, document 4, line 9: v1 Pod a"
        ]
    );
    assert_eq!((tally.files, tally.documents, tally.objects), (1, 2, 2));
    assert_eq!(
        objects[0].value,
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    );
}

#[test]
fn an_empty_file_is_no_error() {
    for text in ["", "\n", "# nothing\n", "---\n", "\u{feff}", " \r\n\t"] {
        let (objects, tally) = good(text);
        assert!(objects.is_empty());
        assert_eq!((tally.documents, tally.not_objects), (0, 0), "{text:?}");
    }
}

#[test]
fn what_is_no_object_is_counted() {
    for text in [
        "just text",
        "12",
        "[1, 2]",
        "a: b",
        "kind: Pod",
        "{\"apiVersion\": \"v1\"}",
        "null\n--- 1",
    ] {
        let (objects, tally) = good(text);
        assert!(objects.is_empty(), "{text}");
        assert!(tally.not_objects > 0, "{text}");
    }
}

#[test]
fn what_is_there_in_place_of_objects_is_an_error() {
    for (text, word) in [
        ("apiVersion: v1\nkind: [Pod]", "the kind must be a name"),
        ("apiVersion: v1\nkind: 12", "the kind must be a name"),
        ("apiVersion: v1\nkind: ''", "the kind must be a name"),
        (
            "apiVersion: v1\nkind: \"Po\\nd\"",
            "the kind must be a name",
        ),
        ("apiVersion: 1\nkind: Pod", "the apiVersion must be a name"),
        (
            "<<: {apiVersion: v1, kind: \"\\e[2J\"}",
            "the kind must be a name",
        ),
        (
            "kind: Pod\nmetadata: {name: a}",
            "kind Pod without an apiVersion",
        ),
        (
            "apiVersion: v1\nitems: [null]\nkind: List",
            "no list of objects",
        ),
        (
            "apiVersion: v1\nitems: [7]\nkind: PodList",
            "no list of objects",
        ),
        (
            "kind: PodList\napiVersion: v1\nitems: {a: {}}",
            "no list of objects",
        ),
        (
            "items: {a: {}}\nkind: PodList\napiVersion: v1",
            "no list of objects",
        ),
        (
            "apiVersion: v1\nitems: []\nkind: PodList\nmetadata: {continue: abc}",
            "one page",
        ),
        (
            "metadata: {continue: abc}\nitems: []\nkind: PodList\napiVersion: v1",
            "one page",
        ),
        (
            "kind: PodList\napiVersion: v1\nmetadata: {continue: abc}\nitems: []",
            "one page",
        ),
        (
            "kind: Status\napiVersion: v1\nstatus: Failure\nmessage: nodes is forbidden",
            "refused to give objects: nodes is forbidden",
        ),
    ] {
        let error = bad(text);
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn what_nobody_wants_may_be_in_pieces() {
    for text in [
        "apiVersion: v1\nitems: null\nkind: PodList",
        "apiVersion: v1\nitems: [7]\nkind: EventList",
        "apiVersion: v1\nitems: []\nkind: EventList\nmetadata: {continue: abc}",
        "kind: Status\napiVersion: v1\nstatus: Success",
    ] {
        read_text_as(text, &pods).1.unwrap();
    }
}

#[test]
fn what_is_not_wanted_is_counted_by_kind() {
    let text = "
apiVersion: v1
kind: Secret
data: {a: b}
---
data: {a: b}
kind: Secret
apiVersion: v1
---
apiVersion: config.openshift.io/v1
kind: Pod
---
apiVersion: v1
kind: Pod
";
    let (objects, tally) = read_text_as(text, &pods);
    assert_eq!(names(&objects), ["in, document 4, line 13: v1 Pod -"]);
    assert_eq!(
        tally.unwrap().unused,
        BTreeMap::from([("Pod".to_owned(), 1), ("Secret".to_owned(), 2)])
    );
}

#[test]
fn a_list_as_kubectl_prints_it() {
    let text = "
apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: a}
- apiVersion: v1
  kind: Node
  metadata: {name: b}
kind: List
metadata:
  resourceVersion: \"\"
";
    let (objects, tally) = good(text);
    assert_eq!(
        names(&objects),
        [
            "in, document 1, items[0]: v1 Pod a",
            "in, document 1, items[1]: v1 Node b"
        ]
    );
    assert_eq!((tally.documents, tally.not_objects), (1, 0));
}

#[test]
fn items_of_a_typed_list_need_no_kind_wherever_the_list_has_its_own() {
    let items = "items:\n- metadata: {name: a}\n- metadata: {name: b}\n  kind: Pod\n- apiVersion: v2\n  kind: Other\n  metadata: {name: c}\n";
    let head = "apiVersion: v1\nkind: PodList\n";
    for (text, expected) in [
        (
            format!("{head}{items}"),
            ["0]: v1 Pod a", "1]: v1 Pod b", "2]: v2 Other c"],
        ),
        (
            format!("{items}{head}"),
            ["2]: v2 Other c", "0]: v1 Pod a", "1]: v1 Pod b"],
        ),
        (
            format!("apiVersion: v1\n{items}kind: PodList\n"),
            ["2]: v2 Other c", "0]: v1 Pod a", "1]: v1 Pod b"],
        ),
    ] {
        let (objects, tally) = good(&text);
        let expected = expected.map(|end| format!("in, document 1, items[{end}"));
        assert_eq!(names(&objects), expected);
        assert_eq!(tally.not_objects, 0);
        let first = objects
            .iter()
            .find(|o| o.origin.to_string().contains("[0]"));
        assert_eq!(
            first.unwrap().value,
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
        );
    }
    // What an item says itself holds.
    for text in [
        "items:\n- kind: Other\napiVersion: v1\nkind: PodList\n",
        "apiVersion: v1\nkind: PodList\nitems:\n- kind: Other\n",
    ] {
        assert_eq!(
            names(&good(text).0),
            ["in, document 1, items[0]: v1 Other -"]
        );
    }
    let (objects, tally) = read_text_as(format!("{items}{head}"), &|_, kind| kind == "Other");
    assert_eq!(objects.len(), 1);
    assert_eq!(tally.unwrap().unused["Pod"], 2);
}

#[test]
fn items_that_nobody_names_are_no_objects() {
    for head in ["", "kind: List\napiVersion: v1\n", "kind: PodList\n"] {
        let items = "items:\n- metadata: {name: a}\n- metadata: {name: b}\n";
        for text in [format!("{head}{items}"), format!("{items}{head}")] {
            let (objects, tally) = good(&text);
            assert!(objects.is_empty());
            assert!(tally.not_objects >= 2, "{text}");
        }
    }
}

#[test]
fn lists_in_lists_and_plain_arrays() {
    let item = |name| format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}}}");
    let (a, b) = (item("a"), item("b"));
    let (objects, _) = good(format!(
        "items: [{a}, {{items: [{b}], kind: List, apiVersion: v1}}]\nkind: List\napiVersion: v1\n"
    ));
    assert_eq!(
        names(&objects),
        [
            "in, document 1, items[0]: v1 Pod a",
            "in, document 1, items[1].items[0]: v1 Pod b"
        ]
    );
    let (objects, _) = good(format!("- {a}\n- {{items: [{b}]}}\n"));
    assert_eq!(
        names(&objects),
        [
            "in, document 1, [0]: v1 Pod a",
            "in, document 1, [1].items[0]: v1 Pod b"
        ]
    );
}

#[test]
fn a_wanted_kind_with_items_is_no_list() {
    let text = "items: [{a: b}]\nkind: Pod\napiVersion: v1\n";
    assert!(bad(text).contains("has no items"));
    let tally = read_text_as(text, &|_, _| false).1.unwrap();
    assert_eq!((tally.unused["Pod"], tally.not_objects), (1, 1));
}

#[test]
fn json_values_one_after_the_other() {
    let pod = r#"{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}"#;
    let (objects, tally) = good(format!(
        "\n {pod}\n{pod}{{\"items\":[{pod}],\"kind\":\"List\"}}"
    ));
    assert_eq!(
        names(&objects),
        [
            "in, document 1, line 2: v1 Pod a",
            "in, document 2, line 3: v1 Pod a",
            "in, document 3, items[0]: v1 Pod a"
        ]
    );
    assert_eq!(tally.documents, 3);
}

#[test]
fn items_that_wait_for_their_kind_come_in_order_from_memory_and_disk() {
    for count in [3, 30_000] {
        let items: Vec<_> = (0..count)
            .map(|number| json!({"metadata": {"name": number.to_string(), "labels": {"a": "x".repeat(40)}}}))
            .collect();
        let list = json!({"apiVersion": "v1", "items": items, "kind": "PodList"});
        let (objects, _) = good(list.to_string());
        for (number, object) in objects.iter().enumerate() {
            assert_eq!(object.value["metadata"], items[number]["metadata"]);
        }
        assert_eq!(objects.len(), count);
    }
}
