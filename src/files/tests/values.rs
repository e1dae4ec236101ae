//! Keys, anchors, merges.

use serde_json::json;

use super::*;

#[test]
fn keys_twice_are_an_error_that_names_the_key() {
    for (text, place) in [
        ("apiVersion: v1\nkind: Pod\nkind: Node\n", "line 3 column 1"),
        ("a: {b: 1, 'b': 2}\n", "line 1 column 11"),
        ("{\"a\": {\"b\": 1,\n \"b\": 2}}", "line 2 column 2"),
        ("items: []\nitems: []\n", "line 2 column 1"),
        ("items: 1\nitems: []\n", "line 2 column 1"),
        ("1: a\n1: b\n", "line 2 column 1"),
    ] {
        let error = bad(text);
        assert!(
            error.starts_with(&format!("in, document 1, {place}: the key ")),
            "{error}"
        );
        assert!(error.contains("is there twice"), "{error}");
    }
}

#[test]
fn keys_that_are_no_text_become_their_text() {
    let (objects, _) = good(format!(
        "{POD}data: {{1: a, true: b, 1.0: c, null: d, y: e}}\n"
    ));
    assert_eq!(
        objects[0].value["data"],
        json!({"1": "a", "true": "b", "1.0": "c", "null": "d", "y": "e"})
    );
    assert!(bad("? [a, b]\n: c\n").contains("a key must be text"));
}

#[test]
fn merge_keys_merge() {
    let text = "
base: &base {a: 1, b: 1}
other: &other {b: 2, c: 2}
one: {<<: *base, b: 3}
many: {b: 3, <<: [*other, *base]}
text: {'<<': *base}
apiVersion: v1
kind: Pod
";
    let value = &good(text).0[0].value;
    assert_eq!(value["one"], json!({"a": 1, "b": 3}));
    assert_eq!(value["many"], json!({"a": 1, "b": 3, "c": 2}));
    assert_eq!(value["text"], json!({"<<": {"a": 1, "b": 1}}));
    assert!(bad("a: {<<: 1}").contains("merges mappings only"));
    assert!(bad("a: {<<: [1]}").contains("merges mappings only"));
}

#[test]
fn a_merge_key_may_say_what_an_object_is() {
    let text = "- &pod {apiVersion: v1, kind: Pod}\n- {<<: *pod, metadata: {name: b}}\n";
    assert_eq!(
        names(&good(text).0),
        [
            "in, document 1, [0]: v1 Pod -",
            "in, document 1, [1]: v1 Pod b"
        ]
    );
}

#[test]
fn an_alias_to_what_was_passed_over_is_known() {
    let text = "
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Secret
  data: &data {a: b}
- apiVersion: v1
  kind: Pod
  data: *data
";
    let (objects, _) = read_text_as(text, &pods);
    assert_eq!(objects[0].value["data"], json!({"a": "b"}));
}
