//! Byte-order marks, UTF-16 as PowerShell writes it, and line endings.

use crate::run::{Ended, check_file, check_in, check_stdin, folder, input};

fn utf16(text: &str, bytes: impl Fn(u16) -> [u8; 2]) -> Vec<u8> {
    let marked = format!("\u{feff}{text}");
    marked.encode_utf16().flat_map(bytes).collect()
}

/// Returns a text with non-ASCII characters, as YAML and as JSON.
fn texts() -> [(&'static str, String); 2] {
    let yaml = std::fs::read_to_string(input().join("ready-1.31/all.yaml")).unwrap();
    let yaml = format!("# Ärger — 存储 😀\n{yaml}");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "note": "Ärger — 存储 😀",
        "items": crate::run::objects("ready-1.31")});
    let json = serde_json::to_string_pretty(&list).unwrap();
    [("all.yaml", yaml), ("all.json", json)]
}

#[test]
fn however_the_text_is_written_the_report_is_the_same() {
    let expected = check_in(&input(), &["-o", "json", "-f", "ready-1.31"]).json();
    let same = |what: &str, ended: Ended| {
        ended.assert_status(0);
        assert_eq!(ended.json(), expected, "{what}");
    };
    for (name, text) in texts() {
        let crlf = text.replace('\n', "\r\n");
        let cr = text.replace('\n', "\r");
        for (what, bytes) in [
            ("plain", text.clone().into_bytes()),
            ("with a mark", format!("\u{feff}{text}").into_bytes()),
            ("CRLF", crlf.clone().into_bytes()),
            ("CR", cr.into_bytes()),
            ("UTF-16LE", utf16(&crlf, u16::to_le_bytes)),
            ("UTF-16BE", utf16(&crlf, u16::to_be_bytes)),
            ("UTF-16LE with LF", utf16(&text, u16::to_le_bytes)),
        ] {
            same(&format!("{name} {what}"), check_file(name, &bytes));
            same(
                &format!("{name} {what} on standard input"),
                check_stdin(&bytes),
            );
        }
    }
}

#[test]
fn a_name_that_needs_more_than_one_byte_is_kept() {
    let text = format!(
        "{}{}",
        crate::run::WINDOWS_NODE,
        crate::run::BLOCKING_POD.replace("name: web", "name: wéb-存储-😀")
    );
    for bytes in [text.clone().into_bytes(), utf16(&text, u16::to_le_bytes)] {
        let ended = check_file("all.yaml", bytes);
        assert_eq!(
            ended.json()["volumes"][0]["workload"]["name"],
            "wéb-存储-😀"
        );
    }
    let folder = folder(&[("all.yaml", &text)]);
    let table = check_in(folder.path(), &["-f", "all.yaml"]).stdout;
    assert!(table.contains("pod/wéb-存储-😀   data"), "{table}");
}

#[test]
fn what_is_cut_in_the_middle_of_a_letter_is_refused() {
    let [(_, yaml), _] = texts();
    let mut odd = utf16(&yaml, u16::to_le_bytes);
    odd.pop();
    check_file("all.yaml", odd).assert_refused("half a unit");
    let at = yaml.find('😀').unwrap();
    check_file("all.yaml", &yaml.as_bytes()[..at + 2]).assert_refused("half a letter");
}
