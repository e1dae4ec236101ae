//! Files that are neither YAML nor JSON, cut, deep or large.

use crate::run::{BLOCKING_POD, WINDOWS_NODE, check_file, check_files, check_stdin};

/// A good cluster that would let upgrades go on, so that nothing good may follow once anything else is bad.
const GOOD: (&str, &[u8]) = ("good.yaml", WINDOWS_NODE.as_bytes());

#[track_caller]
fn assert_bad(name: &str, content: &[u8]) {
    let ended = check_files(&[GOOD, (name, content)]);
    ended.assert_refused(name);
    let start = format!("error: {name}");
    assert!(ended.stderr.starts_with(&start), "{}", ended.stderr);
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
        assert_bad("junk.yaml", content);
        assert_bad("junk.json", content);
        check_stdin(content).assert_refused("junk");
    }
}

#[test]
fn a_file_that_was_cut_off_is_never_judged() {
    let yaml = format!("{WINDOWS_NODE}{BLOCKING_POD}");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": crate::run::objects("ready-1.31")});
    let json = serde_json::to_string_pretty(&list).unwrap();
    // A text of JSON has an end that must come; every length short of it is an error.
    for length in (1..json.len()).step_by(97).chain([json.len() - 1]) {
        assert_bad("cut.json", &json.as_bytes()[..length]);
        if length > 200 {
            check_file("cut.yaml", &json.as_bytes()[..length]).assert_refused("JSON as YAML");
        }
    }
    // YAML has none: there a cut shows only inside of something.
    let inside = yaml.find("diskName").unwrap();
    check_file("cut.yaml", &yaml.as_bytes()[..inside]).assert_refused("cut");
}

#[test]
fn deep_nesting_is_refused() {
    for (name, open, close) in [
        ("a.yaml", "[", "]"),
        ("a.yaml", "- ", ""),
        ("a.yaml", "{a: ", "}"),
        ("a.json", "[", "]"),
        ("a.json", "{\"a\":", "}"),
    ] {
        let closed = format!("{}7{}", open.repeat(200), close.repeat(200));
        for text in [closed, open.repeat(300_000)] {
            assert_bad(name, text.as_bytes());
        }
    }
}

#[test]
fn large_single_documents_are_read() {
    // Large, but in a kind that nobody uses: only counted.
    let words = "word ".repeat(600_000);
    let unused = format!(
        "{WINDOWS_NODE}apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: big}}\ndata:\n  text: {words}\n"
    );
    assert_eq!(check_file("big.yaml", unused).status, Some(0));
    // A pod of more volumes than any API server takes, still within what is kept.
    let volumes: Vec<String> = (0..20_000)
        .map(|n| format!("{{name: v{n}, azureDisk: {{diskName: d{n}}}}}"))
        .collect();
    let pod = format!(
        "{WINDOWS_NODE}apiVersion: v1\nkind: Pod\nmetadata: {{name: big}}\nspec: {{nodeName: win-1, volumes: [{}]}}\n",
        volumes.join(", ")
    );
    let ended = check_file("big.yaml", &pod);
    ended.assert_status(3);
    let report = ended.json();
    assert_eq!(report["volumes"].as_array().unwrap().len(), 20_000);
    let message = report["verdict"]["message"].as_str().unwrap();
    assert!(message.ends_with("; and 19990 more"), "{message}");
}
