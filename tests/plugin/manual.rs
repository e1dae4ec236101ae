//! The manual pages, by a program that shows manual pages.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::{PLUGIN, both, linked, printed};

fn mandoc(arguments: &[&str], page: &str) -> Output {
    let child = Command::new("mandoc")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    assert!(child.is_ok(), "{child:?}; tools/setup installs mandoc");
    let mut child = child.unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(page.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

/// The page as a terminal shows it, which has to be sound, down to its date and its paragraphs.
#[track_caller]
fn shown(page: &str) -> String {
    let lint = mandoc(&["-T", "lint", "-W", "warning"], page);
    assert!(lint.status.success(), "{}", both(&lint));
    let text = mandoc(&["-T", "utf8"], page);
    // Bold letters are printed twice, with a step back in between.
    let mut plain = String::new();
    for char in String::from_utf8(text.stdout).unwrap().chars() {
        if char == '\u{8}' {
            plain.pop();
        } else {
            plain.push(char);
        }
    }
    plain
}

#[test]
fn the_page_names_what_it_is_called_by_and_its_commands() {
    let folder = linked();
    for (name, called) in [
        (PLUGIN, "kubectl windows-storage"),
        ("windows-storage-operator", "windows-storage-operator"),
    ] {
        let page = printed(Command::new(folder.path().join(name)).arg("man"));
        let text = shown(&page);
        for part in ["NAME", "SYNOPSIS", "why", "nodes", called] {
            assert!(text.contains(part), "{name}: {part} is not in {text}");
        }
        // It refers to others, which are there once they are written.
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(
            words
                .join(" ")
                .contains("man --dest-dir DIR has written them"),
            "{text}"
        );
    }
}

#[test]
fn each_command_has_a_page_of_its_own() {
    let folder = linked();
    let pages = tempfile::tempdir().unwrap();
    let write = |dest: &Path| {
        let mut plugin = Command::new(folder.path().join(PLUGIN));
        plugin
            .args(["man", "--dest-dir"])
            .arg(dest)
            .output()
            .unwrap()
    };
    let output = write(pages.path());
    assert!(output.status.success(), "{}", both(&output));
    let mut names = Vec::new();
    for page in std::fs::read_dir(pages.path()).unwrap() {
        let page = page.unwrap();
        let text = shown(&std::fs::read_to_string(page.path()).unwrap());
        assert!(text.contains("SYNOPSIS"), "{text}");
        assert!(!text.contains("EXTRA"), "{text}");
        let name = page.file_name().into_string().unwrap();
        let title = format!("{}(1)", name.trim_end_matches(".1"));
        assert!(text.starts_with(&title), "{text}");
        let is_asked = ["-check.1", "-nodes.1", "-why.1", "-accept-host-key.1"];
        if is_asked.iter().any(|end| name.ends_with(end)) {
            for heading in ["EXIT STATUS", "EXAMPLES"] {
                let lines = text.lines().filter(|line| *line == heading);
                assert_eq!(lines.count(), 1, "{heading}: {text}");
            }
            assert_eq!(text.matches("The exit status is").count(), 1, "{text}");
        }
        if name.ends_with("-check.1") {
            let example = "\n           > cluster.yaml\n";
            assert!(text.contains(example), "{text}");
        }
        names.push(name);
    }
    for expected in ["", "-check", "-nodes", "-why", "-accept-host-key"] {
        let name = format!("{PLUGIN}{expected}.1");
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert!(
        !names.iter().any(|name| name.contains(' ')),
        "a blank in {names:?}"
    );
    let output = write(&pages.path().join("not-there"));
    assert_eq!(output.status.code(), Some(1));
    assert!(both(&output).contains("not-there"), "{}", both(&output));
}
