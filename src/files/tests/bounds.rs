//! Tests of the limits on depth and size.

use std::fmt::Write as _;

use super::*;

#[test]
fn depth_is_bounded() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("- ", "")] {
        let nested = |depth| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        good(nested(MAX_DEPTH));
        for depth in [MAX_DEPTH + 1, 100_000] {
            for text in [nested(depth), format!("kind: A\nb:\n  {}", nested(depth))] {
                let error = bad(text);
                assert!(error.contains("limit"), "{depth}: {error}");
            }
        }
    }
}

#[test]
fn an_object_that_is_too_large_is_an_error_only_where_it_is_wanted() {
    let identity = r#""apiVersion": "v1", "kind": "ConfigMap""#;
    // Small values cost more memory than their text.
    let values = format!("[{}0]", "0,".repeat(MAX_OBJECT / 64));
    let data = format!("\"a\": {values}, \"b\": {values}");
    for large in [
        format!("{{{identity}, {data}}}"),
        format!("{{{data}, {identity}}}"),
    ] {
        let error = bad(&large);
        assert!(
            error.starts_with("in, document 1, line 1 column "),
            "{error}"
        );
        assert!(
            error.contains("this ConfigMap of v1 is larger than 16 MiB"),
            "{error}"
        );
        let next = r#"{"apiVersion": "v1", "kind": "Pod"}"#;
        let (objects, tally) = read_text_as(large + next, &pods);
        assert_eq!(objects.len(), 1);
        assert_eq!(tally.unwrap().unused["ConfigMap"], 1);
    }
}

#[test]
fn one_text_that_is_too_long_is_an_error() {
    let long = "x".repeat(MAX_OBJECT + 200_000);
    for text in [
        format!("{{\"a\": \"{long}\"}}"),
        format!("a: {long}"),
        format!("# {long}"),
    ] {
        let error = bad(text);
        let expected = "a single text of more than 16 MiB";
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn aliases_do_not_blow_up() {
    let mut laughs = "a0: &a0 [ha, ha]\n".to_owned();
    for level in 1..30 {
        let below = level - 1;
        let _ = writeln!(laughs, "a{level}: &a{level} [*a{below}, *a{below}]");
    }
    let long = format!(
        "x: &x {}\ny: [{}]\n",
        "ha".repeat(100_000),
        "*x,".repeat(1000)
    );
    for text in [laughs, long] {
        let error = bad(text);
        assert!(error.contains("limits breached"), "{error}");
    }
}

#[test]
fn distinct_kinds_without_end_are_counted_together() {
    let mut text = String::new();
    for number in 0..=MAX_KINDS {
        let _ = writeln!(text, "{{\"apiVersion\": \"v1\", \"kind\": \"K{number}\"}}");
    }
    let tally = read_text_as(text, &pods).1.unwrap();
    assert_eq!(tally.unused.len(), MAX_KINDS + 1);
    assert_eq!(tally.unused["other kinds"], 1);
}

#[test]
fn items_that_wait_for_their_kind_come_in_order_from_memory_and_disk() {
    for count in [3, 30_000] {
        let items: Vec<_> = (0..count)
            .map(|number| serde_json::json!({"metadata": {"name": number.to_string(), "labels": {"a": "x".repeat(40)}}}))
            .collect();
        let list = serde_json::json!({"apiVersion": "v1", "items": items, "kind": "PodList"});
        let (objects, _) = good(list.to_string());
        for (number, object) in objects.iter().enumerate() {
            assert_eq!(object.value["metadata"], items[number]["metadata"]);
        }
        assert_eq!(objects.len(), count);
    }
}
