//! Files that are neither YAML nor JSON, truncated, deeply nested or large.

use crate::run::{BLOCKING_POD, WINDOWS_NODE, check_file, check_files, check_stdin};

/// A cluster that allows upgrades. No verdict from it may stand once a file with objects of a used kind is bad.
const GOOD: (&str, &[u8]) = ("good.yaml", WINDOWS_NODE.as_bytes());

/// Asserts that a file that may contain objects of a used kind is reported as unread.
#[track_caller]
fn assert_missed(name: &str, content: &[u8]) {
    let ended = check_files(&[GOOD, (name, content)]);
    ended.assert_unknown(name);
    let start = format!("error: {name}");
    assert!(ended.stderr.starts_with(&start), "{}", ended.stderr);
    let report = ended.json();
    let message = report["verdict"]["message"].as_str().unwrap();
    assert!(message.contains(name), "{message}");
    assert_eq!(report["nodes"][0]["name"], "win-1", "the rest is judged");
}

/// Asserts that a file that names no used kind is only noted.
#[track_caller]
fn assert_left_out(name: &str, content: &[u8]) {
    let ended = check_files(&[GOOD, (name, content)]);
    ended.assert_status(0);
    let note = format!("name no object of a kind that is used:\n{name}");
    assert!(ended.stderr.contains(&note), "{}", ended.stderr);
    check_file(name, content).assert_refused(name);
}

#[test]
fn bytes_that_are_no_text() {
    let mut junk = Vec::new();
    let mut state = 1_u32;
    for _ in 0..100_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        junk.push((state >> 24) as u8);
    }
    for content in [
        &junk[..],
        b"a: \xff\n",
        b"a: \xc3(\n",
        b"a: \xed\xa0\x80\n",
        b"a: b\0c\n",
        b"\0",
        b"\xff\xfea\0\0\xd8b\0",
        b"\xfe\xff\0a\xdc\x00\0b",
        b"k\0i\0n\0d\0",
        b"\x7fELF\x02\x01\x01\0\0",
        b"\x1f\x8b\x08\0\0\0\0\0",
        b"PK\x03\x04\0\0",
    ] {
        // It shows no kind, so that it may have held any.
        assert_missed("junk.yaml", content);
        assert_missed("junk.json", content);
        check_stdin(content).assert_refused("junk");
        let kind = |kind: &str| format!("\nkind: {kind}\n").into_bytes();
        assert_missed("junk.yaml", &[content, &kind("Pod")].concat());
        assert_missed("junk.json", &[&kind("Pod"), content].concat());
        let is_archive = content.starts_with(b"\x1f\x8b") || content.starts_with(b"PK");
        if !is_archive {
            assert_left_out("junk.yaml", &[content, &kind("Volume")].concat());
        }
    }
}

#[test]
fn what_does_not_parse_is_missed_only_where_it_names_a_kind_that_is_used() {
    // As in a support bundle of Longhorn, with a masked value.
    let masked =
        "apiVersion: v1\nkind: VolumeList\nnote:\n  pvc-1: ***HIDDEN***:10000\nitems: []\n";
    assert_left_out("volumes.yaml", masked.as_bytes());
    for kind in ["Pod", "PodList", "List", "Status", "MustGather"] {
        let text = masked.replace("VolumeList", kind);
        assert_missed("volumes.yaml", text.as_bytes());
    }
    // The documents before the one that does not parse are read.
    let text = format!("{BLOCKING_POD}a: b: c\n");
    let ended = check_files(&[GOOD, ("pods.yaml", text.as_bytes())]);
    ended.assert_unknown("a second document");
    assert_eq!(ended.json()["volumes"][0]["workload"]["name"], "web");
}

#[test]
fn a_file_that_was_cut_off_is_never_judged() {
    let yaml = format!("{WINDOWS_NODE}{BLOCKING_POD}");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": crate::run::objects("ready-1.31")});
    let json = serde_json::to_string_pretty(&list).unwrap();
    // A JSON text has a mandatory end: cutting it at any length is an error.
    for length in (1..json.len()).step_by(97).chain([json.len() - 1]) {
        let cut = &json.as_bytes()[..length];
        assert_missed("cut.json", cut);
        assert_missed("cut.yaml", cut);
    }
    // In YAML, kubectl prints the kind of a list after its items.
    let list = "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\nkind: List\n";
    let end = list.find("kind: List").unwrap();
    for length in [list.find("  metadata").unwrap(), end - 1, end, end + 4] {
        assert_missed("cut.yaml", &list.as_bytes()[..length]);
    }
    // Other YAML has no end: a cut shows only inside a value.
    let inside = yaml.find("diskName").unwrap();
    assert_missed("cut.yaml", &yaml.as_bytes()[..inside]);
}
