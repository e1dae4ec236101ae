//! Scalars, keys, anchors, merges.

use serde_json::json;

use super::*;

/// As YAML 1.1 of go-yaml has it, which `kubectl` reads and writes.
#[test]
fn scalars_are_what_kubectl_takes_them_for() {
    let (objects, _) = good(
        "
kind: Pod
apiVersion: v1
nothing: [~, null, Null, NULL, !!null '']
booleans: [true, True, yes, on, y, false, no, Off, n, !!bool no]
numbers: [123, -5, +5, 0, 0644, 0o644, 0x1F, 0b101, 1_000, 1.5, -.5, 1., 1e3, 089, !!int '12', !!float 12]
limits: [18446744073709551615, -9223372036854775808]
texts: [v1, 1Gi, 100m, 1.2.3, .., --1, 0x, 0xg, 0o9, 1e, e1, 2024-01-01, 2024-01-01T00:00:00Z, 12:30, .nan, .inf,
  inf, NaN, 10.0.0.1, 0b2, 'null', \"true\", '123', '~', '', !!str 4, !!binary aGk=]
block: |
  7
",
    );
    assert_eq!(
        objects[0].value,
        json!({
            "kind": "Pod",
            "apiVersion": "v1",
            "nothing": [null, null, null, null, null],
            "booleans": [true, true, true, true, true, false, false, false, false, false],
            "numbers": [123, -5, 5, 0, 420, 420, 31, 5, 1000, 1.5, -0.5, 1.0, 1000.0, 89.0, 12, 12.0],
            "limits": [u64::MAX, i64::MIN],
            "texts": ["v1", "1Gi", "100m", "1.2.3", "..", "--1", "0x", "0xg", "0o9", "1e", "e1", "2024-01-01",
                "2024-01-01T00:00:00Z", "12:30", ".nan", ".inf", "inf", "NaN", "10.0.0.1", "0b2", "null", "true", "123",
                "~", "", "4", "aGk="],
            "block": "7\n",
        })
    );
}

#[test]
fn what_parses_as_nothing_or_names_nothing_is_an_error_with_its_place() {
    for (text, place) in [
        ("a: !!int x", "line 1 column 10"),
        ("a: !!int 1.5", "line 1 column 10"),
        ("a: !!bool 1", "line 1 column 11"),
        ("a: *x\n", "line 1 column 4"),
        ("a: &x [*x]\n", "line 1 column 8"),
        ("? [a, b]\n: c\n", "line 1 column 3"),
        ("a: {<<: 1}", "line 1 column 9"),
        ("a: {<<: [1]}", "line 1 column 10"),
        ("{\"a\": 1e999}", "line 1 column 12"),
        ("[\"\\ud800\"]", "line 1 column "),
    ] {
        let error = bad(text);
        assert!(error.contains(&format!(", {place}")), "{text}: {error}");
    }
    // Each document has its own anchors.
    assert!(bad("a: &x 1\n---\nb: *x\n").starts_with("in, document 2, line 3 column 4"));
}

#[test]
fn keys_twice_are_an_error_that_names_the_key() {
    for (text, place, key) in [
        (
            "apiVersion: v1\nkind: Pod\nkind: Node\n",
            "line 3 column 1",
            "kind",
        ),
        ("a: {b: 1, 'b': 2}\n", "line 1 column 11", "b"),
        (
            "{\"a\": {\"b\": 1,\n \"b\": 2}}",
            "line 2 column 5",
            "\"b\"",
        ),
        (
            "{\"kind\": \"a\",\n \"kind\": \"b\"}",
            "line 2 column 8",
            "\"kind\"",
        ),
        ("items: []\nitems: []\n", "line 2 column 1", "items"),
        (
            "{\"items\": [],\n\"items\": []}",
            "line 2 column ",
            "\"items\"",
        ),
        (
            "{\"items\": 1,\n\"items\": []}",
            "line 2 column ",
            "\"items\"",
        ),
        ("1: a\n1: b\n", "line 2 column 1", "1"),
    ] {
        let error = bad(text);
        assert!(
            error.starts_with(&format!("in, document 1, {place}")),
            "{error}"
        );
        assert!(
            error.contains(&format!("key {key} ")) || error.contains(&format!("key: {key} ")),
            "{error}"
        );
    }
}

#[test]
fn keys_that_are_no_text_become_their_text() {
    let (objects, _) = good(format!("{POD}data: {{1: a, true: b, 1.0: c, y: e}}\n"));
    assert_eq!(
        objects[0].value["data"],
        json!({"1": "a", "true": "b", "1.0": "c", "y": "e"})
    );
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
