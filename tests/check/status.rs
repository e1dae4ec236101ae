//! Colour, and streams that are closed or full.

use std::process::{Child, Stdio};

use crate::run::{Ended, check_in, end, ended, folder, input, program, without_time};

#[test]
fn colour_is_in_the_table_alone_and_changes_no_letter() {
    let table = |color| {
        let ended = check_in(&input(), &["-f", "azure-1.27", "--color", color]);
        without_time(&ended.stdout, " at ")
    };
    let (plain, coloured) = (table("never"), table("always"));
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
fn who_does_not_read_to_the_end_ends_nothing() {
    let formats = ["table", "json", "yaml", "html"];
    // The verdict was reached, so the status reports it.
    let judged = formats.map(|format| (format!("check -f vsphere-1.26 -o {format}"), 3));
    let other = [("crds".to_owned(), 0)];
    for (line, status) in judged.into_iter().chain(other) {
        let words: Vec<&str> = line.split(' ').collect();
        let ended = run_with_closed(|child| drop(child.stdout.take()), &words);
        ended.assert_status(status);
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
        assert!(status != 0 || ended.stderr.is_empty(), "{ended:?}");
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

#[test]
fn a_mistyped_command_or_option_is_told_what_it_may_mean_and_nobody_is_asked_without_a_terminal() {
    for (arguments, says) in [
        (&["chek"][..], "'check'"),
        (&["check", "--ouput", "json"], "'--output'"),
        (&["uninstall"], "give --yes"),
        (
            &["check", "--request-timeout", "0s"],
            "not a duration such as 5s or 2m",
        ),
        (&["check", "-f", "-", "--as", "eve"], "cannot be used with"),
    ] {
        let ended = end(program(&input()).args(arguments).stdin(Stdio::null()));
        ended.assert_status(2);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
    }
}

#[test]
fn the_pods_of_one_node_are_foreseen() {
    for (arguments, status, says) in [
        (
            &["--drain", "node/win-1"][..],
            3,
            "1 of 1 pod with volumes could not mount all of them if win-1 were drained.\n\npod bank/ledger-0\n",
        ),
        (
            &["--node", "win-1"],
            3,
            "On win-1: PersistentVolume pv-ledger needs disk.csi.azure.com, which is not registered there.",
        ),
        (
            &["--drain", "win-1", "-o", "json"],
            3,
            "\"kind\": \"NodePreview\"",
        ),
        (
            &["--drain", "win-1", "-o", "html"],
            2,
            "there is no page of one node",
        ),
        (
            &["--drain", "win-1", "--node", "win-1"],
            2,
            "cannot be used with",
        ),
        (&["--drain", "win-9"], 1, "there is no node win-9"),
        (
            &["--drain", "lin-0"],
            1,
            "pods of node lin-0 do not count: it does not run Windows",
        ),
    ] {
        let ended = check_in(&input(), &[&["-f", "azure-1.27"], arguments].concat());
        assert_eq!(ended.status, Some(status), "{ended:?}");
        let said = ended.stdout.clone() + &ended.stderr;
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn a_server_that_does_not_answer_is_given_up_when_it_is_said() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let folder = folder(&[(
        "config",
        &format!(
            "{{kind: Config, clusters: [{{name: a, cluster: {{server: 'http://{address}'}}}}], \
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}], users: [{{name: a, user: {{}}}}], current-context: a}}"
        ),
    )]);
    let arguments = ["check", "--kubeconfig", "config", "--request-timeout", "1s"];
    let ended = end(program(folder.path()).args(arguments));
    ended.assert_status(1);
    let says = "no answer from the API server within 1 s";
    assert!(ended.stderr.contains(says), "{}", ended.stderr);
}
