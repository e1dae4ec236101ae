//! `check hosts` inspects hosts as the operator would, and changes nothing.

use std::process::Output;

use serde_json::{Value, json};
use testbed::objects::NAMESPACE;

use crate::cluster::harness::{Harness, logins, run};

fn check_hosts(harness: &Harness, arguments: &[&str]) -> Output {
    let arguments = [&["check", "hosts"], arguments].concat();
    run(harness.control_plane().kubeconfig(), &arguments)
}

/// Returns all objects that the operator would write.
fn everything(harness: &Harness) -> String {
    let own = format!("get configmaps,secrets -n {NAMESPACE} -o json");
    let all = "get windowsstorages,windowsnodestorages -o json";
    harness.kubectl(&own) + &harness.kubectl(all)
}

fn items(output: &Output) -> Vec<Value> {
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["kind"], "HostCheckList");
    list["items"].as_array().unwrap().clone()
}

#[test]
fn hosts_are_looked_at_and_what_is_in_the_way_is_named() {
    let harness = Harness::new();
    let sandbox = &harness.sandbox;
    let host = sandbox.add_windows_node("win-1").unwrap();
    // Nothing listens at this address; the other node has no address.
    sandbox.add_node("win-2", Some("127.255.255.254")).unwrap();
    sandbox.add_node("win-3", None).unwrap();
    harness.kubectl("label node win-1 pool=blue");

    let without_key = check_hosts(&harness, &["-o", "json", "win-1"]);
    assert_eq!(without_key.status.code(), Some(3), "{without_key:?}");
    let problem = items(&without_key)[0]["problems"][0].to_string();
    assert!(problem.contains("CredentialsMissing"), "{problem}");

    sandbox.give_access().unwrap();
    let before = everything(&harness);
    let one = check_hosts(&harness, &["--selector", "pool=blue", "-o", "json"]);
    assert_eq!(one.status.code(), Some(0), "{one:?}");
    let [seen] = &items(&one)[..] else {
        panic!("{one:?}");
    };
    assert_eq!(seen["node"], "win-1");
    assert_eq!(seen["reached"], true);
    assert_eq!(seen["shell"], "cmd");
    let key = seen["hostKey"].as_str().unwrap();
    assert!(
        key.contains("SHA256:") && key.ends_with("(not known yet)"),
        "{seen}"
    );
    assert!(seen["freeBytes"].as_u64() > Some(1 << 20), "{seen}");
    assert_eq!(seen["next"], "install the agent and csi-proxy");

    let all = check_hosts(&harness, &[]);
    assert_eq!(all.status.code(), Some(3), "{all:?}");
    let table = String::from_utf8(all.stdout).unwrap();
    for words in ["win-2   Unreachable", "win-3   NoAddress"] {
        assert!(table.contains(words), "{table}");
    }
    // Nothing was changed, neither in the cluster nor on the host.
    let after = everything(&harness);
    assert_eq!(before, after);
    assert!(!host.drive_c().join("k/windows-storage").exists());
    assert_eq!(logins(&host), 2);

    // Without permission to read the inputs, it reports an error rather than success, and does not log in.
    let stranger = sandbox
        .control_plane
        .kubeconfig_for("stranger", &[])
        .unwrap();
    let blind = run(&stranger, &["check", "hosts", "-n", NAMESPACE]);
    assert_eq!(blind.status.code(), Some(1), "{blind:?}");
    // If csi-proxy is to be removed or is not needed, nothing is installed.
    for (csi_proxy, words) in [
        (
            json!({"management": "Removed"}),
            "nothing: csi-proxy is not to be",
        ),
        (
            json!({"install": "WhereNeeded"}),
            "nothing: csi-proxy is not to be",
        ),
        (
            json!({"management": "External"}),
            "leave csi-proxy to its owner",
        ),
    ] {
        harness.want(&json!({"csiProxy": csi_proxy}));
        let seen = check_hosts(&harness, &["-o", "json", "win-1"]);
        let next = items(&seen)[0]["next"].to_string();
        assert!(next.contains(words), "{csi_proxy}: {next}");
        harness.want(&json!({"csiProxy": null}));
    }
    assert_eq!(logins(&host), 2);

    let _operator = harness.start();
    harness.expect_csi_proxy("win-1");
    let again = check_hosts(&harness, &["-o", "json", "win-1"]);
    assert_eq!(items(&again)[0]["agent"], env!("CARGO_PKG_VERSION"));
    for absent in [&["win-9"][..], &["-l", "pool=green"]] {
        let output = check_hosts(&harness, absent);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
}
