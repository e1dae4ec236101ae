//! Colour, and streams that are closed or full.

use std::process::{Child, Stdio};

use crate::run::{Ended, check_in, end, ended, input, program};

#[test]
fn colour_is_in_the_table_alone_and_changes_no_letter() {
    let plain = check_in(&input(), &["-f", "azure-1.27", "--color", "never"]).stdout;
    let coloured = check_in(&input(), &["-f", "azure-1.27", "--color", "always"]).stdout;
    assert_ne!(plain, coloured);
    let mut without = String::new();
    for (number, part) in coloured.split('\u{1b}').enumerate() {
        let text = match part.split_once('m') {
            Some((_, text)) if number > 0 => text,
            _ => part,
        };
        without.push_str(text);
    }
    assert_eq!(without, plain);
    for output in ["json", "yaml", "html"] {
        let arguments = ["-f", "azure-1.27", "-o", output, "--color=always"];
        let shown = check_in(&input(), &arguments).stdout;
        assert!(!shown.contains('\u{1b}'), "{output}");
    }
}

/// Runs the program with pipes and closes one of them immediately.
fn run_with_closed(close: fn(&mut Child), arguments: &[&str]) -> Ended {
    let mut child = program(&input())
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    close(&mut child);
    ended(child.wait_with_output().unwrap())
}

#[test]
fn who_does_not_read_the_report_ends_nothing() {
    for output in ["table", "json", "yaml", "html"] {
        let arguments = ["check", "-f", "vsphere-1.26", "-o", output];
        let ended = run_with_closed(|child| drop(child.stdout.take()), &arguments);
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
        // The verdict was reached, so the status reports it.
        ended.assert_status(3);
    }
}

#[test]
fn who_reads_only_the_beginning_ends_nothing() {
    for arguments in [&["crds"][..], &["completion", "bash"]] {
        let ended = run_with_closed(|child| drop(child.stdout.take()), arguments);
        assert_eq!((ended.status, &*ended.stderr), (Some(0), ""));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let ended = end(program(&input())
        .args(["check", "-f", "ready-1.31", "-o", "json"])
        .stdout(full));
    ended.assert_status(1);
    let says = "error: cannot write to standard output";
    assert!(ended.stderr.contains(says), "{}", ended.stderr);
}

#[test]
fn messages_that_are_not_read_end_nothing() {
    let arguments = ["check", "-f", "ready-1.31", "-o", "json"];
    let ended = run_with_closed(|child| drop(child.stderr.take()), &arguments);
    ended.assert_status(0);
    ended.json();
}
