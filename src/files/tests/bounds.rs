//! Depth and size.

use std::fmt::Write as _;

use super::*;

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    good(nested(MAX_DEPTH));
    for depth in [MAX_DEPTH + 1, 10_000, 1_000_000] {
        assert!(bad(nested(depth)).contains("nested deeper"), "{depth}");
        let json = format!("{{\"a\": {}", nested(depth));
        assert!(bad(json).contains("nested deeper"), "{depth}");
        let yaml = format!("kind: A\napiVersion: v1\nb: {}", nested(depth));
        let error = read_text_as(yaml, &pods).1.unwrap_err().to_string();
        assert!(error.contains("nested deeper"), "{depth}: {error}");
    }
}

/// A ConfigMap that takes more than what is kept of an object.
fn too_large(head: &str, tail: &str) -> String {
    let mut text = format!("{head}data:\n");
    let line = "x".repeat(6_000);
    for number in 0..=SMALL / line.len() {
        let _ = writeln!(text, "  k{number}: {line}");
    }
    text.push_str(tail);
    text
}

#[test]
fn an_object_that_is_too_large_is_an_error_only_where_it_is_wanted() {
    let (head, tail) = (
        "apiVersion: v1\nkind: ConfigMap\n",
        "---\nkind: Pod\napiVersion: v1\n",
    );
    for text in [
        too_large(head, tail),
        too_large("", &format!("{head}{tail}")),
        too_large("kind: ConfigMap\n", &format!("apiVersion: v1\n{tail}")),
    ] {
        let (objects, result) = read_text_as(&text, &all);
        assert!(objects.is_empty());
        let error = result.unwrap_err().to_string();
        assert!(
            error.starts_with(
                "in, document 1, line 1 column 1: this ConfigMap of v1 is larger than 16 MiB"
            ),
            "{error}"
        );
        let (objects, tally) = read_text_as(&text, &pods);
        assert_eq!(objects.len(), 1);
        assert_eq!(tally.unwrap().unused["ConfigMap"], 1);
    }
}

#[test]
fn many_small_values_count_as_well() {
    let text = format!("kind: A\napiVersion: v1\na: [{}]", "1,".repeat(SMALL / 32));
    assert!(bad(text).contains("larger than 16 MiB"));
}

#[test]
fn one_text_that_is_too_long_is_an_error() {
    let long = "x".repeat(2 * SMALL);
    for text in [
        format!("a: '{long}'"),
        format!("{{\"a\": \"{long}\"}}"),
        format!("a: {long}"),
    ] {
        let error = bad(text);
        assert!(
            error.contains("a single text of more than 16 MiB"),
            "{error}"
        );
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
