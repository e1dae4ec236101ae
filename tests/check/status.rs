//! Exit statuses, and what goes to which stream.

use std::process::{Child, Stdio};

use crate::run::{
    BLOCKING_POD, Ended, WINDOWS_NODE, check_file, check_in, end, ended, folder, input, program,
};

const IGNORE: &str = "
apiVersion: windowsstorage.dev/v1alpha1
kind: WindowsStorage
metadata: {name: cluster}
spec: {upgradeGate: Ignore}
---
";
const LINUX_NODE: &str = "
apiVersion: v1
kind: Node
metadata: {name: linux, labels: {kubernetes.io/os: linux}}
---
";

#[test]
fn upgradeable_is_0_and_not_upgradeable_is_3() {
    let registered = WINDOWS_NODE.replace(
        "drivers: []",
        "drivers: [{name: disk.csi.azure.com, nodeID: n, topologyKeys: null}]",
    );
    let without_csi_node = WINDOWS_NODE.split_inclusive("---\n").next().unwrap();
    let abandoned = BLOCKING_POD.replace("azureDisk: {diskName: d, diskURI: d}", "rbd: {}");
    for (status, reason, text) in [
        (0, "NoWindowsNodes", LINUX_NODE.to_owned()),
        (0, "NoWindowsNodes", format!("{LINUX_NODE}{BLOCKING_POD}")),
        (
            0,
            "DriversRegistered",
            format!("{registered}{BLOCKING_POD}"),
        ),
        (
            0,
            "Override",
            format!("{WINDOWS_NODE}{BLOCKING_POD}{IGNORE}"),
        ),
        (
            0,
            "Override",
            format!("{without_csi_node}{BLOCKING_POD}{IGNORE}"),
        ),
        (0, "Override", format!("{WINDOWS_NODE}{abandoned}{IGNORE}")),
        (3, "DriversMissing", format!("{WINDOWS_NODE}{BLOCKING_POD}")),
        (
            3,
            "CSINodeMissing",
            format!("{without_csi_node}{BLOCKING_POD}"),
        ),
        (3, "NoCSIMigration", format!("{registered}{abandoned}")),
        (3, "ReadinessUnknown", BLOCKING_POD.to_owned()),
        (3, "ReadinessUnknown", format!("{BLOCKING_POD}{IGNORE}")),
    ] {
        let ended = check_file("all.yaml", text);
        assert_eq!(ended.reason(), reason, "{}", ended.stderr);
        ended.assert_status(status);
        assert!(
            ended.stderr.starts_with("read 1 file(s) "),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn only_the_settings_named_cluster_count() {
    let other = IGNORE.replace("name: cluster", "name: other");
    let ended = check_file("all.yaml", format!("{WINDOWS_NODE}{BLOCKING_POD}{other}"));
    ended.assert_status(3);
}

#[test]
fn a_cluster_that_cannot_be_reached_is_1() {
    let folder = folder(&[(
        "config",
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
         contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: hush-hush}}]\n",
    )]);
    for arguments in [
        &[][..],
        &["--kubeconfig", "absent"],
        &["--kubeconfig", "config"],
        &["--kubeconfig", "config", "--context", "absent"],
    ] {
        let ended = check_in(folder.path(), arguments);
        ended.assert_refused(&arguments.join(" "));
        assert!(!ended.stderr.contains("hush-hush"));
    }
}

#[test]
fn a_wrong_command_line_is_2() {
    for arguments in [
        &["-f"][..],
        &["-f", "ready-1.31", "-o", "xml"],
        &["-f", "ready-1.31", "-o", "JSON"],
        &["-f", "ready-1.31", "--color", "yes"],
        &["-f", "ready-1.31", "--kubeconfig", "x"],
        &["-f", "ready-1.31", "--context", "x"],
        &["-f", "ready-1.31", "--outptu", "json"],
        &["ready-1.31"],
    ] {
        let ended = check_in(&input(), arguments);
        ended.assert_status(2);
        assert_eq!(ended.stdout, "");
        ended.assert_says("--help");
    }
}

#[test]
fn help_is_no_error() {
    let help = check_in(&input(), &["--help"]);
    assert_eq!((help.status, help.stderr.as_str()), (Some(0), ""));
    for word in ["--filename", "--output", "--color", "exit status", "-f -"] {
        help.assert_shows(word);
    }
}

#[test]
fn colour_is_there_when_it_is_asked_for_and_only_in_the_table() {
    let is_coloured = |output: &str, color: &[&str], no_color: Option<&str>| {
        let mut command = program(&input());
        command
            .args(["check", "-f", "vsphere-1.26", "-o", output])
            .args(color);
        if let Some(value) = no_color {
            command.env("NO_COLOR", value);
        }
        let ended = end(&mut command);
        ended.assert_status(3);
        assert!(!ended.stderr.contains('\u{1b}'), "{}", ended.stderr);
        ended.stdout.contains('\u{1b}')
    };
    assert!(is_coloured("table", &["--color", "always"], None));
    // Who asks for it on the command line gets it; the variable is for those who do not say.
    assert!(is_coloured("table", &["--color=always"], Some("1")));
    assert!(!is_coloured("table", &["--color", "never"], None));
    assert!(!is_coloured("table", &["--color", "auto"], None));
    assert!(!is_coloured("table", &[], None));
    assert!(!is_coloured("table", &["--color", "auto"], Some("1")));
    for output in ["json", "yaml", "html"] {
        assert!(
            !is_coloured(output, &["--color", "always"], None),
            "{output}"
        );
    }
}

#[test]
fn colour_changes_no_letter() {
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
}

/// Runs the program with pipes, of which one is closed at once.
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
        // The judgement was made, and the status says it.
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
    ended.assert_says("error: cannot write to standard output");
}

#[test]
fn messages_that_are_not_read_end_nothing() {
    let arguments = ["check", "-f", "ready-1.31", "-o", "json"];
    let ended = run_with_closed(|child| drop(child.stderr.take()), &arguments);
    ended.assert_status(0);
    ended.json();
}

/// A kubeconfig holds tokens and passwords, and login programs print them.
#[test]
fn what_is_wrong_with_a_kubeconfig_is_reported_without_what_it_holds() {
    let kubeconfig = |user: &str| {
        format!(
            "apiVersion: v1
kind: Config
current-context: a
contexts: [{{name: a, context: {{cluster: a, user: a}}}}]
clusters: [{{name: a, cluster: {{server: 'https://admin:canary@127.0.0.1:1/x'}}}}]
users: [{{name: a, user: {user}}}]
"
        )
    };
    for user in [
        "{token: [canary]}",
        "{token: canary}",
        "{username: canary, password: {a: canary}}",
        "{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, 'echo canary; exit 1'], interactiveMode: Never}}",
        "{exec: {apiVersion: client.authentication.k8s.io/v1, command: echo, args: [canary], interactiveMode: Never}}",
    ] {
        let folder = folder(&[("config", kubeconfig(user).as_str())]);
        let ended = check_in(folder.path(), &["--kubeconfig", "config"]);
        ended.assert_status(1);
        assert!(!ended.stderr.contains("canary"), "{user}: {}", ended.stderr);
        assert!(ended.stdout.is_empty());
    }
}
