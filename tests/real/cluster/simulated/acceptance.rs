//! A changed host key is accepted by a command.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use simulated_host::KeyKind;
use windows_storage_operator::node::HostKey;

use super::Simulation;
use crate::cluster::harness::assert_has;

const MAP: &str = "configmap/windows-storage-host-keys";
const NODE: &str = "windowsnodestorage/win-000";

fn command(kubeconfig: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"));
    command
        .args(["accept-host-key", "--kubeconfig"])
        .arg(kubeconfig)
        .args(arguments)
        .env_remove("KUBECONFIG")
        .env_remove("POD_NAMESPACE")
        .stdin(Stdio::null());
    command
}

/// Runs the command with the operator's own permissions, which are enough, so that it can be run in its pod.
fn accept(simulation: &Simulation, arguments: &[&str]) -> (Option<i32>, String, String) {
    accept_as(simulation.harness.command.kubeconfig(), arguments)
}

fn accept_as(kubeconfig: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command(kubeconfig, arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// Runs the command on a terminal, with this input.
fn accept_on_terminal(simulation: &Simulation, typed: &str) -> (Option<i32>, String) {
    let shown = command(simulation.harness.command.kubeconfig(), &["win-000"]);
    let words = std::iter::once(shown.get_program()).chain(shown.get_args());
    let words: Vec<String> = words
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let mut terminal = Command::new("script");
    terminal
        .args([
            "--quiet",
            "--return",
            "--command",
            &words.join(" "),
            "/dev/null",
        ])
        .env_remove("KUBECONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = terminal.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, typed.as_bytes()).unwrap();
    // The terminal stays open; otherwise the input would not reach the command.
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

/// Returns the fingerprint of the host's current key.
fn fingerprint(simulation: &Simulation) -> String {
    let keys = simulation.host("win-000").host_keys().unwrap();
    HostKey::parse(&keys[0]).fingerprint()
}

/// Returns the ConfigMap without what changes with every write, and one node's pin separately.
fn pins(simulation: &Simulation) -> (Value, Value) {
    let mut map = simulation.harness.get(MAP);
    let pin = map["data"]["win-000"].take();
    for field in ["resourceVersion", "managedFields"] {
        map["metadata"][field] = Value::Null;
    }
    (map, pin)
}

fn change_key(simulation: &Simulation, kind: KeyKind) {
    simulation
        .host("win-000")
        .change_host_keys(&[kind])
        .unwrap();
    let harness = &simulation.harness;
    let message = harness.expect(NODE, "CSIProxyReady", "Unknown", "HostKeyChanged");
    let fingerprint = fingerprint(simulation);
    assert!(message.contains(&fingerprint), "{fingerprint}: {message}");
}

fn expect_ready(simulation: &Simulation) {
    let harness = &simulation.harness;
    harness.expect(NODE, "CSIProxyReady", "True", "PipesOpen");
}

#[test]
fn the_operator_goes_on_with_a_node_whose_new_key_is_accepted() {
    let simulation = Simulation::new(2);
    let harness = &simulation.harness;
    let operator = harness.start_with(&simulation.payload("v1.3.0"));
    harness.eventually("both nodes are ready", || simulation.ready().len() == 2);
    let old = fingerprint(&simulation);
    change_key(&simulation, KeyKind::Ed25519);
    let new = fingerprint(&simulation);
    let before = pins(&simulation);
    let logins = simulation.host("win-000").counters().logins;

    // No terminal to ask, and no flag with the answer.
    let (status, _, stderr) = accept(&simulation, &["win-000"]);
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains(&old) && stderr.contains(&new), "{stderr}");
    assert!(stderr.contains("--fingerprint"), "{stderr}");
    // Not the key that the host presents.
    let (status, _, stderr) = accept(&simulation, &["win-000", "--yes", "--fingerprint", &old]);
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.contains("does not offer the key"), "{stderr}");
    let (status, terminal) = accept_on_terminal(&simulation, "n\n");
    assert_eq!(status, Some(1), "{terminal}");
    assert_has(&terminal, &["[y/N]", "nothing was changed"]);
    assert_eq!(pins(&simulation), before);

    let (status, stdout, stderr) = accept(&simulation, &["win-000", "--fingerprint", &new]);
    assert_eq!(status, Some(0), "{stderr}");
    assert_eq!(
        stdout,
        format!("node/win-000 host key accepted: ssh-ed25519 {new}\n")
    );
    let after = pins(&simulation);
    assert_eq!(after.0, before.0, "only the node's pin is changed");
    let keys = simulation.host("win-000").host_keys().unwrap();
    assert_eq!(after.1, json!(format!("{} accepted", keys[0])));
    expect_ready(&simulation);
    assert!(
        simulation.host("win-000").counters().logins > logins,
        "the operator has logged in again"
    );

    // Once more, with a key of another type, on a terminal.
    change_key(&simulation, KeyKind::Ecdsa256);
    let (status, terminal) = accept_on_terminal(&simulation, "y\n");
    assert_eq!(status, Some(0), "{terminal}");
    assert!(terminal.contains("host key accepted"), "{terminal}");
    expect_ready(&simulation);
    let (status, _, stderr) = accept(&simulation, &["win-000"]);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("trusted already"), "{stderr}");

    // An accepted pin is removed with its node, like any other.
    harness.delete("node/win-000");
    harness.eventually("the pin has gone with its node", || {
        pins(&simulation).1.is_null()
    });
    assert!(operator.terminate().unwrap().success());
    harness.assert_nothing_was_forbidden();
}

#[test]
fn a_key_that_cannot_be_accepted_is_refused_with_the_reason() {
    let simulation = Simulation::new(1);
    let harness = &simulation.harness;
    let host = simulation.host("win-000");
    let yes = |arguments: &[&str]| {
        let mut all = vec!["--yes"];
        all.extend(arguments);
        let (status, _, stderr) = accept(&simulation, &all);
        assert_eq!(status, Some(1), "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
        stderr
    };
    simulation.write_config_map("windows-storage-host-keys", &json!({}));
    let refusal = yes(&["win-9"]);
    assert!(refusal.contains("no node win-9"), "{refusal}");
    // Without a pin the key is accepted, even if nothing is trusted on first use.
    let (status, _, stderr) = accept(&simulation, &["win-000", "--yes"]);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("pinned   none"), "{stderr}");
    assert_eq!(host.counters().logins, 0, "nobody logs in to look at a key");

    simulation.wait(host.power_off()).unwrap();
    let refusal = yes(&["win-000"]);
    assert_has(&refusal, &["no SSH connection", "kubectl exec -it"]);
    simulation.wait(host.boot()).unwrap();

    host.change_host_keys(&[KeyKind::Ed25519]).unwrap();
    let immutable = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "immutable": true,
        "metadata": {"name": "windows-storage-host-keys", "namespace": "windows-storage-operator"},
    });
    harness.apply(&immutable.to_string());
    let before = pins(&simulation);
    let refusal = yes(&["win-000"]);
    assert!(refusal.contains("immutable"), "{refusal}");
    assert_eq!(pins(&simulation), before);

    let stranger = harness
        .control_plane()
        .kubeconfig_for("stranger", &[])
        .unwrap();
    let (status, _, refusal) = accept_as(&stranger, &["win-000", "--yes"]);
    assert_eq!(status, Some(1), "{refusal}");
    assert_has(&refusal, &["cannot read Node win-000", "forbidden"]);
}

#[test]
fn a_key_is_pinned_where_the_operator_is_and_nowhere_else() {
    let simulation = Simulation::new(1);
    let harness = &simulation.harness;
    let refusal = |arguments: &[&str]| {
        let all = [&["win-000", "--yes"], arguments].concat();
        let kubeconfig = harness.control_plane().kubeconfig();
        let (status, _, stderr) = accept_as(kubeconfig, &all);
        assert_eq!(status, Some(1), "{stderr}");
        stderr
    };
    let told =
        |namespace: &str| format!("in the namespace {namespace}; is the operator in another one?");
    for elsewhere in ["default", "absent"] {
        let refusal = refusal(&["-n", elsewhere]);
        assert!(refusal.contains(&told(elsewhere)), "{refusal}");
    }
    let usual = refusal(&[]);
    assert!(usual.contains(&told("windows-storage-operator")), "{usual}");
    let install = |namespace: &str| {
        let name = "windows-storage-operator";
        harness.kubectl(&format!(
            "create deployment {name} --image=x -n {namespace}"
        ));
        let label = format!("app.kubernetes.io/name={name}");
        harness.kubectl(&format!("label deployment/{name} {label} -n {namespace}"));
    };
    install("default");
    let found = refusal(&[]);
    assert!(found.contains(&told("default")), "{found}");
    harness.kubectl("create namespace second");
    install("second");
    let refusal = refusal(&[]);
    assert!(refusal.contains("more than one namespace"), "{refusal}");
    assert!(harness.get(MAP).is_null(), "nothing was pinned");
}
