//! Files that are neither YAML nor JSON, and folders with nothing to read.

use std::fmt::Write as _;

use crate::run::{
    BLOCKING_POD, WINDOWS_NODE, check_file, check_files, check_in, check_stdin, folder, input,
};

/// A good cluster that would let upgrades go on, so that nothing good may follow once anything else is bad.
const GOOD: (&str, &[u8]) = ("good.yaml", WINDOWS_NODE.as_bytes());

#[track_caller]
fn assert_bad(name: &str, content: &[u8]) -> String {
    let ended = check_files(&[GOOD, (name, content)]);
    ended.assert_refused(name);
    let start = format!("error: {name}");
    assert!(ended.stderr.starts_with(&start), "{}", ended.stderr);
    ended.stderr
}

#[test]
fn the_good_one_alone_is_good() {
    assert_eq!(check_files(&[GOOD]).status, Some(0));
}

#[test]
fn syntax_errors_name_file_document_line_and_column() {
    for (name, text, place) in [
        (
            "a.yaml",
            "a: b\nc: d: e\n",
            ", document 1, line 2 column 5: ",
        ),
        ("a.yaml", "a: 1\n---\na: [1\n", ", document 2, line "),
        ("a.yaml", "a: {b: 1\n", ", document 1, line "),
        ("a.yaml", "a: 'b\n", ", document 1, line "),
        ("a.yaml", "a:\n\t- b\n", ", document 1, line 2 column 2: "),
        ("a.yaml", "a: *nowhere\n", ", document 1, line 1 column 4: "),
        ("a.yaml", "a: &x [*x]\n", ", document 1, line 1 column 8: "),
        (
            "a.yaml",
            "a: 1\na: 2\n",
            ", document 1, line 2 column 1: the key \"a\" is there twice",
        ),
        ("a.yaml", "? {a: b}\n: c\n", ", document 1, line "),
        ("a.yaml", "a: !!int x\n", ", document 1, line 1 column "),
        (
            "a.yaml",
            "kind: Pod\nkind: Pod\n",
            ", document 1, line 2 column 1: ",
        ),
        ("a.yaml", "%YAML 9.9.9\n---\na\n", ", document 1, line 1 "),
        ("a.yaml", "\"\\q\"\n", ", document 1, line 1 "),
        ("a.json", "{\"a\": 1,}", ", document 1, line 1 column 9: "),
        (
            "a.json",
            "{\"a\": 1}\n{\"b\"",
            ", document 2, line 2 column ",
        ),
        (
            "a.json",
            "{\"a\": 1, \"a\": 2}",
            ", document 1, line 1 column 10: the key \"a\" is there twice",
        ),
        ("a.json", "{'a': 1}", ", document 1, line 1 column 2: "),
        ("a.json", "{\"a\": NaN}", ", document 1, line 1 column 7: "),
        (
            "a.json",
            "{\"a\": 1e999}",
            ", document 1, line 1 column 7: ",
        ),
        (
            "a.json",
            "{\"a\": \"\\ud800\"}",
            ", document 1, line 1 column 7: ",
        ),
        ("a.json", "]", ", document 1, line 1 column 1: "),
        ("a.json", "kind: Pod\n", ", document 1, line 1 column 1: "),
    ] {
        let message = assert_bad(name, text.as_bytes());
        let start = format!("error: {name}{place}");
        assert!(message.starts_with(&start), "{text:?}: {message}");
    }
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
    let message = assert_bad("a.yaml", b"a: \xff\n");
    assert!(message.contains("no valid UTF-8 at byte 3"), "{message}");
    let message = assert_bad("a.yaml", b"a: b\0c\n");
    assert!(message.contains("a NUL character at byte 4"), "{message}");
}

#[test]
fn a_file_that_was_cut_off_is_never_judged() {
    let yaml = format!("{WINDOWS_NODE}{BLOCKING_POD}");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": crate::run::objects("ready-1.31")});
    let json = serde_json::to_string_pretty(&list).unwrap();
    // A text of JSON has an end that must come; every length short of it is an error.
    for length in (1..json.len()).step_by(97).chain([json.len() - 1]) {
        let message = assert_bad("cut.json", &json.as_bytes()[..length]);
        assert!(
            message.contains("too early") || message.contains("column"),
            "{message}"
        );
        if length > 200 {
            check_file("cut.yaml", &json.as_bytes()[..length]).assert_refused("JSON as YAML");
        }
    }
    // YAML has none: there a cut shows only inside of something.
    let inside = yaml.find("diskName").unwrap();
    check_file("cut.yaml", &yaml.as_bytes()[..inside]).assert_refused("cut");
}

#[test]
fn a_bomb_of_aliases_does_not_go_off() {
    let mut bomb = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        let list = vec![below; 9].join(", ");
        let _ = writeln!(bomb, "a{level}: &a{level} [{list}]");
    }
    let message = assert_bad("bomb.yaml", bomb.as_bytes());
    assert!(
        message.contains("aliases expand to too much text"),
        "{message}"
    );
    let inside = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: x}}\n{bomb}");
    assert_bad("bomb.yaml", inside.as_bytes());
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
            let message = assert_bad(name, text.as_bytes());
            assert!(
                message.contains("nested deeper than 120 levels"),
                "{open}: {message}"
            );
        }
    }
}

#[test]
fn large_single_documents_are_read_and_oversized_ones_refused() {
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
    assert_eq!(ended.status, Some(3), "{}", ended.stderr);
    let report = ended.json();
    assert_eq!(report["volumes"].as_array().unwrap().len(), 20_000);
    let message = report["verdict"]["message"].as_str().unwrap();
    assert!(message.ends_with("; and 19990 more"), "{message}");
    // Beyond that it is named and refused, in any form, and nothing is judged.
    let mut annotations = String::new();
    for number in 0..40_000 {
        let _ = writeln!(annotations, "    key-{number}: {}", "x".repeat(500));
    }
    let huge = format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: huge\n  annotations:\n{annotations}"
    );
    let message = assert_bad("huge.yaml", huge.as_bytes());
    assert!(
        message.contains("this Pod of v1 is larger than 16 MiB"),
        "{message}"
    );
    let text = format!("a: {}\n", "x".repeat(20_000_000));
    let message = assert_bad("huge.yaml", text.as_bytes());
    assert!(
        message.contains("a single text of more than 16 MiB"),
        "{message}"
    );
}

#[test]
fn all_bad_files_are_named_at_once() {
    let folder = folder(&[
        ("d/1.yaml", "a: [\n"),
        ("d/2.json", "{"),
        ("d/3.yaml", WINDOWS_NODE),
        ("d/4.yml", "a: \u{7f}\0"),
    ]);
    let ended = check_in(folder.path(), &["-f", "d", "-f", "absent"]);
    ended.assert_refused("several");
    for name in ["d/1.yaml, ", "d/2.json, ", "d/4.yml: ", "absent: "] {
        assert!(ended.stderr.contains(name), "{name}: {}", ended.stderr);
    }
    assert!(!ended.stderr.contains("d/3.yaml"));
}

#[test]
fn nothing_to_read_is_an_error() {
    let folder = folder(&[
        ("logs/pod.log", "x"),
        ("empty.yaml", ""),
        ("comment.yaml", "# nothing\n---\n---\n"),
    ]);
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    for arguments in [
        &["-f", "absent.yaml"][..],
        &["-f", "absent/"],
        &["-f", "empty"],
        &["-f", "logs"],
        &["-f", "empty.yaml"],
        &["-f", "comment.yaml"],
        &["-f", "-", "-f", "-"],
        &["-f", "-"],
        &["-f", "empty.yaml", "-f", "absent.yaml"],
        &["-f", "empty.yaml/x"],
    ] {
        check_in(folder.path(), arguments).assert_refused(&arguments.join(" "));
    }
    // One good part does not make up for one that is missing.
    let good = input().join("ready-1.31");
    let good = good.to_str().unwrap();
    for bad in ["absent.yaml", "empty", "logs"] {
        check_in(folder.path(), &["-f", good, "-f", bad]).assert_refused(bad);
    }
}

#[cfg(unix)]
#[test]
fn links_that_go_round_end() {
    use std::os::unix::fs::symlink;

    let folder = folder(&[
        ("d/nodes.yaml", WINDOWS_NODE),
        ("d/sub/pod.yaml", BLOCKING_POD),
    ]);
    let d = folder.path().join("d");
    symlink("..", d.join("sub/up")).unwrap();
    symlink(".", d.join("here")).unwrap();
    symlink("sub", d.join("again")).unwrap();
    let ended = check_in(folder.path(), &["-o", "json", "-f", "d"]);
    assert_eq!(ended.status, Some(3), "{}", ended.stderr);
    assert_eq!(ended.json()["volumes"].as_array().unwrap().len(), 1);
    assert!(
        ended
            .stderr
            .starts_with("read 2 file(s) with 3 document(s)"),
        "{}",
        ended.stderr
    );
    // What names itself cannot be read, and may have been of use.
    symlink("self.yaml", d.join("self.yaml")).unwrap();
    check_in(folder.path(), &["-f", "d"]).assert_refused("self");
    symlink("gone.yaml", d.join("gone.yaml")).unwrap();
    let ended = check_in(folder.path(), &["-f", "d"]);
    ended.assert_refused("gone");
    assert!(
        ended.stderr.contains("d/gone.yaml: cannot be read"),
        "{}",
        ended.stderr
    );
}
