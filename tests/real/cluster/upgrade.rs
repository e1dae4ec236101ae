//! Upgrades from the previous version to this one, and downgrades again, in one cluster: `make test-upgrade`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testbed::node_agent::{csi_proxy_answers, csi_proxy_process};
use testbed::objects;
use testbed::parts::part;
use testbed::sandbox::{Sandbox, install_from};
use testbed::windows_host::WindowsHost;
use windows_storage_operator::node::payload::{Payload, sha256_hex};

use crate::cluster::harness::{Harness, SETTINGS, logins, write_payload};
use crate::cluster::main_job::versions;

const NODES: [&str; 2] = ["win-1", "win-2"];
const AGENT: &str = "k/windows-storage-agent.exe";

#[test]
#[ignore = "builds the version before from git: make test-upgrade"]
fn an_operator_takes_over_from_the_version_before_and_hands_back_to_it() {
    let tree = before();
    let sandbox = Sandbox::start_from(&tree).unwrap();
    let binary = tree.join("target/debug/windows-storage-operator");
    let mut harness = Harness::with(sandbox, &binary, &tree.join("target/payload"));
    let hosts = NODES.map(|node| harness.sandbox.add_windows_node(node).unwrap());
    harness.sandbox.give_access().unwrap();
    harness.apply(&objects::azure_disk_workload("win-1"));

    // The previous version's agent, modified so that it differs even if nothing in it has changed since; and, as an
    // older version may have it, an older csi-proxy.
    let mut agent = fs::read(tree.join("target/payload/windows-storage-agent.exe")).unwrap();
    agent.extend([0; 16]);
    let [older, same] = ["1.1.3", "1.3.0"].map(|version| {
        let csi_proxy = fs::read(part(&format!("csi-proxy-{version}")).unwrap()).unwrap();
        let folder = harness.control_plane().dir().join(version);
        let csi_proxy = (&*csi_proxy, &*format!("v{version}"));
        write_payload(&folder, (&agent, version), csi_proxy);
        folder
    });
    let agent = sha256_hex(&agent);

    let operator = harness.start_with(&older);
    expect_rollout(&harness, &hosts, (&agent, "v1.1.3"));
    harness.expect_missing("win-1, win-2");

    // The CRDs and RBAC of this version are installed while the previous one keeps running.
    let status = harness.get("windowsnodestorage/win-1")["status"].clone();
    let wanted = harness.get(SETTINGS)["spec"].clone();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    install_from(harness.control_plane(), root).unwrap();
    harness.register("win-1", true);
    harness.expect_missing("win-2");
    harness.expect_registered("win-1", true);
    let log = harness.log().len();
    harness.register("win-2", true);
    harness.expect_open();
    harness.expect_registered("win-2", true);
    let now = harness.get("windowsnodestorage/win-1")["status"].clone();
    assert_eq!(fields(&now), fields(&status), "{now}");
    assert_eq!(harness.get(SETTINGS)["spec"]["ssh"], wanted["ssh"]);
    let told = harness.log().split_off(log);
    let is_fault = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
    assert_eq!(told.lines().find(is_fault), None);

    // This version takes over. While the rollout is paused, it changes nothing on a node.
    harness.want(&json!({"rollout": {"paused": true}}));
    assert!(operator.terminate().unwrap().success());
    let found = on_nodes(&hosts);
    let pinned = pins(&harness);
    let binary = Path::new(env!("CARGO_BIN_EXE_windows-storage-operator"));
    harness.command = harness
        .sandbox
        .operator(binary, &root.join("target/payload"))
        .unwrap();
    let operator = harness.start();
    harness.expect(SETTINGS, "RolloutProgressing", "False", "Paused");
    for node in NODES {
        let object = format!("windowsnodestorage/{node}");
        harness.expect(&object, "CSIProxyReady", "True", "UpdatePending");
    }
    look_again(&harness, &hosts);
    assert_eq!(on_nodes(&hosts), found, "something has changed on a node");
    assert_eq!(pins(&harness), pinned);
    harness.expect_open();
    harness.register("win-1", false);
    harness.expect_missing("win-1");
    harness.register("win-1", true);
    harness.expect_open();

    harness.want(&json!({"rollout": {"paused": false}}));
    let payload = Payload::load(&root.join("target/payload")).unwrap();
    expect_rollout(&harness, &hosts, (&payload.agent.sha256, "v1.3.0"));
    harness.expect_open();
    let new = on_nodes(&hosts);
    for host in &hosts {
        csi_proxy_answers(host).unwrap();
    }
    expect_calm(&harness, &hosts);

    // Downgrade: the previous agent is installed, and csi-proxy, which is the same, keeps running.
    assert!(operator.terminate().unwrap().success());
    harness.command = harness
        .sandbox
        .operator(&tree.join("target/debug/windows-storage-operator"), &same)
        .unwrap();
    let _operator = harness.start();
    expect_rollout(&harness, &hosts, (&agent, "v1.3.0"));
    harness.expect_open();
    // It does not read what the agent of this version kept, so it has csi-proxy once it has a request.
    harness.eventually("the agent before runs csi-proxy", || {
        let mut processes = hosts.iter().map(|host| csi_proxy_process(host).unwrap());
        processes.all(|process| process.is_some())
    });
    for (back, new) in on_nodes(&hosts).iter().zip(&new) {
        assert_eq!(
            (back.process, &back.csi_proxy),
            (new.process, &new.csi_proxy)
        );
    }
    expect_calm(&harness, &hosts);
    harness.assert_nothing_was_forbidden();
}

#[test]
fn what_only_newer_definitions_have_is_kept_by_an_operator_that_does_not_know_it() {
    let harness = Harness::held();
    let _operator = harness.start();
    harness.expect_missing("win-1");
    let text = json!({"type": "string"});
    let field = "spec/properties/fromTheNext";
    define(
        &harness,
        "windowsstorages",
        &json!({"op": "add", "path": field, "value": text}),
    );
    harness.expect(SETTINGS, "NodesReady", "False", "NodesNotReady");
    let next = || harness.get(SETTINGS)["spec"]["fromTheNext"].clone();
    // A CRD takes effect a moment after it was written.
    harness.eventually("the definitions have it", || {
        harness.want(&json!({"fromTheNext": "wanted"}));
        next() == "wanted"
    });
    harness.register("win-1", true);
    harness.expect_registered("win-1", true);
    harness.expect(SETTINGS, "NodesReady", "True", "AllReady");
    assert_eq!(next(), "wanted");
}

#[test]
fn an_operator_with_older_definitions_says_so_and_does_not_write_on_and_on() {
    let harness = Harness::held();
    for (kind, name, field) in [
        ("WindowsStorage", "cluster", "counts"),
        ("WindowsNodeStorage", "win-1", "managedBy"),
    ] {
        let plural = format!("{}s", kind.to_lowercase());
        let path = format!("status/properties/{field}");
        define(&harness, &plural, &json!({"op": "remove", "path": path}));
        // A CRD takes effect a moment after it was written.
        let object = json!({
            "apiVersion": "windowsstorage.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name}, "status": {field: null},
        });
        let arguments = "apply --server-side --dry-run=server --validate=false -f -";
        let arguments: Vec<&str> = arguments.split(' ').collect();
        harness.eventually("the field is gone", || {
            let control_plane = harness.control_plane();
            let applied = control_plane.kubectl_with_input(&arguments, &object.to_string());
            applied.is_err_and(|error| error.to_string().contains("not declared in schema"))
        });
    }
    let _operator = harness.start();
    harness.expect_missing("win-1");
    harness.eventually("it says so of both", || {
        let log = harness.log();
        let told = log.lines().filter(|line| {
            line.contains("are the custom resource definitions those of this operator?")
        });
        let told: Vec<&str> = told.collect();
        ["WindowsStorage", "WindowsNodeStorage"].iter().all(|kind| {
            let what = format!("write {kind} status");
            told.iter().any(|line| line.contains(&what))
        })
    });
    let writes = || {
        let requests = harness.requests().into_iter();
        requests
            .filter(|it| it.resource.ends_with("/status"))
            .count()
    };
    let before = writes();
    std::thread::sleep(Duration::from_secs(5));
    let more = writes() - before;
    assert!(more < 30, "{more} writes in five seconds");
    // The gate does not depend on the missing fields.
    harness.register("win-1", true);
    harness.expect_open();
    // The current CRDs are installed late.
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    install_from(harness.control_plane(), root).unwrap();
    harness.expect_registered("win-1", true);
    harness.expect(SETTINGS, "NodesReady", "True", "AllReady");
}

/// Changes the fields of a CRD.
fn define(harness: &Harness, plural: &str, change: &Value) {
    let mut change = change.clone();
    let field = change["path"].as_str().unwrap();
    change["path"] = format!("/spec/versions/0/schema/openAPIV3Schema/properties/{field}").into();
    let (name, patch) = (
        format!("{plural}.windowsstorage.dev"),
        json!([change]).to_string(),
    );
    harness.kubectl_with(&["patch", "crd", &name, "--type=json", "-p", &patch]);
}

/// Builds the previous version and returns its folder.
fn before() -> PathBuf {
    let built = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/before"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(built.status.success(), "tools/before says why");
    PathBuf::from(String::from_utf8(built.stdout).unwrap().trim_end())
}

fn pins(harness: &Harness) -> Value {
    harness.get("configmap/windows-storage-host-keys")["data"].clone()
}

/// Waits until both nodes have this agent and this csi-proxy, and the rollout is complete. Asserts that they are never
/// changed at the same time.
fn expect_rollout(harness: &Harness, hosts: &[WindowsHost], (agent, version): (&str, &str)) {
    harness.eventually("both nodes have the agent and csi-proxy", || {
        let status = harness.get(SETTINGS)["status"].clone();
        let in_progress = status["rollout"]["inProgress"].as_array();
        assert!(in_progress.is_none_or(|nodes| nodes.len() <= 1), "{status}");
        hosts.iter().all(|host| {
            let object = harness.get(&format!("windowsnodestorage/{}", host.name()));
            object["status"]["csiProxy"]["version"] == version && sha256(host, AGENT) == agent
        })
    });
    harness.expect(SETTINGS, "RolloutProgressing", "False", "Complete");
    for node in NODES {
        harness.expect_csi_proxy(node);
        let status = &harness.get(&format!("windowsnodestorage/{node}"))["status"];
        assert!(status["failedUpdate"].is_null(), "{status}");
    }
}

/// The state of a node.
#[derive(Debug, PartialEq)]
struct OnNode {
    agent: String,
    csi_proxy: String,
    process: u64,
}

fn on_nodes(hosts: &[WindowsHost]) -> Vec<OnNode> {
    let on_node = |host| OnNode {
        agent: sha256(host, AGENT),
        csi_proxy: sha256(host, "k/csi-proxy.exe"),
        process: csi_proxy_process(host).unwrap().unwrap(),
    };
    hosts.iter().map(on_node).collect()
}

/// Returns the hash of a file on a node. The file may be missing while it is replaced.
fn sha256(host: &WindowsHost, file: &str) -> String {
    sha256_hex(&fs::read(host.drive_c().join(file)).unwrap_or_default())
}

fn look_again(harness: &Harness, hosts: &[WindowsHost]) {
    let before: Vec<usize> = hosts.iter().map(logins).collect();
    harness.eventually("another look at each node", || {
        let mut both = hosts.iter().zip(&before);
        both.all(|(host, before)| logins(host) > *before)
    });
}

/// Waits until a check of each node writes nothing. Asserts that nothing on the nodes is restarted meanwhile.
fn expect_calm(harness: &Harness, hosts: &[WindowsHost]) {
    let found = on_nodes(hosts);
    harness.eventually("a look at each node writes nothing", || {
        let before = versions(harness);
        look_again(harness, hosts);
        versions(harness) == before
    });
    assert_eq!(on_nodes(hosts), found);
}

/// Returns the names of the fields.
fn fields(status: &Value) -> BTreeSet<&String> {
    status.as_object().unwrap().keys().collect()
}
