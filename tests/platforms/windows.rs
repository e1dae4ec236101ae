//! The command line for Windows, run by Wine on a sandboxed host.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;
use testbed::objects::NAMESPACE;
use testbed::windows_host::{Fleet, WindowsHost};
use windows_storage_operator::node::HOST_KEYS_CONFIG_MAP;

use crate::{assert_alike, assert_judges_files, built, held_cluster, here, input};

/// Wine needs seconds to start a program on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| built("WINDOWS_AMD64"));

/// Copies the program to the host.
fn install(host: &WindowsHost) {
    fs::copy(&*PROGRAM, host.drive_c().join("storage.exe")).unwrap();
}

/// Runs the program on the host. Wine's cmd does not handle quotes, so the command is in a file.
fn run(host: &WindowsHost, folder: &str, arguments: &str) -> Output {
    let script = format!("@cd /d {folder}\r\n@C:\\storage.exe {arguments}\r\n");
    fs::write(host.drive_c().join("command.cmd"), script).unwrap();
    host.run_within(r"C:\command.cmd", LIMIT).unwrap()
}

#[test]
fn it_judges_files_as_the_program_of_this_machine_does() {
    let fleet = Fleet::new().unwrap();
    let host = fleet.add_host("admin").unwrap();
    install(&host);
    assert_alike(&run(&host, r"C:\", "--version"), &here(&["--version"]), 0);
    let folder = host.drive_c().join("must gather");
    let mut copy = Command::new("cp");
    copy.arg("-r").arg(input()).arg(&folder);
    testbed::commands::printed(&mut copy).unwrap();
    assert_judges_files(|line| run(&host, r#""C:\must gather""#, line));
    // Paths as users type them on Windows, and a file as PowerShell's > writes it.
    let text = fs::read_to_string(input().join("ready-1.31/all.yaml")).unwrap();
    let utf16 = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    let utf16: Vec<u8> = utf16.encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::create_dir_all(folder.join("utf16")).unwrap();
    fs::write(folder.join("utf16/all.yaml"), utf16).unwrap();
    let expected = here(&["check", "-f", "ready-1.31", "-o", "json"]);
    for path in [
        r"C:\must gather\ready-1.31",
        r"..\must gather\ready-1.31\all.yaml",
        r"C:\must gather\utf16\all.yaml",
    ] {
        let line = format!("check -o json -f \"{path}\"");
        assert_alike(&run(&host, r"C:\windows", &line), &expected, 0);
    }
    for (line, status) in [("crds", 0), ("why win-1 -f azure-1.27", 3)] {
        let words: Vec<&str> = line.split(' ').collect();
        let there = run(&host, r#""C:\must gather""#, line);
        assert_alike(&there, &here(&words), status);
    }
    // A missing path is reported as it was given.
    let missing = run(&host, r"C:\", r"check -f C:\nothing\here");
    let said = String::from_utf8_lossy(&missing.stderr);
    assert_eq!(missing.status.code(), Some(1), "{said}");
    assert!(said.contains(r"C:\nothing\here"), "{said}");
}

/// Connects to the API server over TLS, and to a node over SSH.
#[test]
fn it_asks_a_cluster_and_its_nodes() {
    let (sandbox, host) = held_cluster();
    let control_plane = &sandbox.control_plane;
    install(&host);
    let kubeconfig = control_plane.kubeconfig().to_str().unwrap();
    fs::copy(kubeconfig, host.drive_c().join("kubeconfig")).unwrap();
    // Runs a command that succeeds, and returns what it prints and says.
    let succeeds = |line: &str| {
        let ended = run(&host, r"C:\", line);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(0), "{said}");
        (ended.stdout, said)
    };
    for (command, status) in [("check -o json", 3), ("why node/win-1", 3)] {
        let words: Vec<&str> = command.split(' ').collect();
        let line = format!(r"{command} --kubeconfig C:\kubeconfig");
        let there = run(&host, r"C:\", &line);
        let expected = here(&[&words[..], &["--kubeconfig", kubeconfig]].concat());
        assert_alike(&there, &expected, status);
    }
    let (looked, _) = succeeds(r"check hosts -o json --kubeconfig C:\kubeconfig");
    let looked: Value = serde_json::from_slice(&looked).unwrap();
    assert_eq!(looked["items"][0]["reached"], true, "{looked}");
    // Like kubectl, the program defaults to the kubeconfig in the user's folder.
    let home = run(&host, r"C:\", "check -o json");
    let said = String::from_utf8_lossy(&home.stderr).into_owned();
    assert_eq!(home.status.code(), Some(1), "{said}");
    let users = fs::read_dir(host.drive_c().join("users")).unwrap();
    for user in users.map(|user| user.unwrap().path()) {
        fs::create_dir_all(user.join(".kube")).unwrap();
        fs::copy(control_plane.kubeconfig(), user.join(".kube/config")).unwrap();
    }
    let expected = here(&["check", "-o", "json", "--kubeconfig", kubeconfig]);
    assert_alike(&run(&host, r"C:\", "check -o json"), &expected, 3);

    // With the node's host key pinned, it logs in to the node.
    let key = looked["items"][0]["hostKey"].as_str().unwrap();
    let fingerprint = key.split(' ').nth(1).unwrap();
    // The operator would create it.
    let pins = ["create", "configmap", HOST_KEYS_CONFIG_MAP, "-n", NAMESPACE];
    control_plane.kubectl(&pins).unwrap();
    succeeds(&format!(
        "accept-host-key win-1 --fingerprint {fingerprint}"
    ));
    let (_, said) = succeeds(r"must-gather --kubeconfig C:\kubeconfig --dest C:\gathered");
    assert!(said.contains("Windows nodes: 1 of 1 reached"), "{said}");
    let folder = host.drive_c().join("gathered");
    let gathered = here(&["check", "-f", folder.to_str().unwrap()]);
    assert_eq!(gathered.status.code(), Some(3), "{gathered:?}");
}

/// One file is enough for an administrator. Cryptography is OpenSSL's, as on Linux.
#[test]
fn it_needs_nothing_but_windows() {
    let libraries = testbed::commands::imported_libraries(&PROGRAM).unwrap();
    assert!(libraries.contains("kernel32.dll"), "{libraries:?}");
    let of_windows = OF_WINDOWS.split_whitespace().collect::<Vec<_>>();
    let other = libraries
        .iter()
        .find(|name| !of_windows.contains(&name.as_str()));
    assert_eq!(other, None, "{libraries:?}");
}

/// Libraries of every Windows. None of them is used for TLS or SSH: `bcrypt.dll` and `bcryptprimitives.dll` are for
/// random numbers, `crypt32.dll` for the system's certificates.
const OF_WINDOWS: &str = "advapi32.dll bcrypt.dll bcryptprimitives.dll crypt32.dll gdi32.dll kernel32.dll msvcrt.dll ntdll.dll \
    user32.dll userenv.dll ws2_32.dll api-ms-win-core-synch-l1-2-0.dll";
