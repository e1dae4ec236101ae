//! Node pools, which override settings for some nodes, on the real API server.

use serde_json::{Value, json};
use testbed::objects;

use super::Simulation;
use crate::cluster::harness::{Harness, SETTINGS, run};

/// Sets up pools: two nodes in pool blue, one in green, one in none. Only blue has SSH access to its nodes.
fn pools(simulation: &Simulation, blue: &Value) {
    let mut pool = json!({
        "name": "blue",
        "nodeSelector": {"pool": "blue"},
        "ssh": {"port": simulation.fleet.port(), "privateKeySecretRef": {"name": "blue", "key": "ssh"}},
        "rollout": {"maxUnavailable": 2},
    });
    for (field, value) in blue.as_object().unwrap() {
        pool[field] = value.clone();
    }
    simulation.want(&json!({
        "ssh": {"user": simulation.fleet.user(), "port": 1},
        "nodePools": [
            pool,
            {"name": "green", "nodeSelector": {"pool": "green"}, "management": "External"},
            {"name": "grey", "nodeSelector": {"pool": "grey"}},
        ],
    }));
}

/// Runs the command `rollout`, and returns its exit status and output.
fn rollout(harness: &Harness, arguments: &[&str]) -> (Option<i32>, String) {
    let arguments = [&["rollout"], arguments].concat();
    let output = run(harness.control_plane().kubeconfig(), &arguments);
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

/// The operator has no right to the pool's Secret, and says how to give it.
fn give_the_right_to_read_the_key(harness: &Harness) {
    let said = harness.expect(SETTINGS, "CredentialsValid", "False", "CredentialsMissing");
    let what = "Reading Secret blue is forbidden; allow it with: ";
    let commands = said.strip_prefix(what).unwrap();
    for command in commands.split(" && ") {
        harness.kubectl(command.trim_start_matches("kubectl "));
    }
}

#[test]
fn each_pool_has_its_own_way_owner_and_limits_and_they_do_not_hold_each_other_up() {
    let simulation = Simulation::new(4);
    let harness = &simulation.harness;
    harness.kubectl("label node win-000 win-001 pool=blue");
    harness.kubectl("label node win-002 pool=green");
    let key = simulation.fleet.private_key().unwrap();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "blue", "namespace": objects::NAMESPACE},
        "stringData": {"ssh": key},
    });
    harness.delete("secret/cloud-private-key");
    harness.apply(&secret.to_string());
    pools(&simulation, &json!({}));
    let operator = harness.start_with(&simulation.payload("v1.1.3"));
    give_the_right_to_read_the_key(harness);
    harness.eventually("the nodes of pool blue have csi-proxy", || {
        simulation.ready() == ["win-000", "win-001"]
    });
    harness.control_plane().forget_requests().unwrap();
    let pool = |node: &str| {
        let object = harness.get(&format!("windowsnodestorage/{node}"));
        object["status"]["nodePool"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(pool("win-000"), "blue");
    assert_eq!(pool("win-003"), "");
    let node = |name: &str| format!("windowsnodestorage/{name}");
    harness.expect(
        &node("win-003"),
        "CSIProxyReady",
        "Unknown",
        "CredentialsMissing",
    );
    let green = harness.get(&node("win-002"));
    assert_eq!(green["status"]["management"], "External");
    let by = "spec.nodePools of WindowsStorage, pool green";
    assert_eq!(green["status"]["managedBy"], by);
    let said = harness.expect(SETTINGS, "CredentialsValid", "False", "CredentialsMissing");
    assert!(
        said.contains("There is no Secret cloud-private-key"),
        "{said}"
    );
    let said = harness.expect(SETTINGS, "NodePoolsValid", "True", "WithoutNodes");
    assert!(said.contains("grey"), "{said}");
    assert_eq!(simulation.host("win-002").counters().logins, 0);

    // A paused pool waits and reports that.
    let (code, said) = rollout(harness, &["pause", "--pool", "blue"]);
    let paused = "windowsstorage/cluster pool blue paused\n";
    assert_eq!((code, said.as_str()), (Some(0), paused));
    let (code, said) = rollout(harness, &["pause", "--pool", "white"]);
    let problem = "which has blue, green, grey";
    assert!(code == Some(1) && said.contains(problem), "{said}");
    assert!(operator.terminate().unwrap().success());
    let _operator = harness.start_with(&simulation.payload("v1.3.0"));
    harness.expect(SETTINGS, "RolloutProgressing", "False", "Paused");
    let progress = || harness.get(SETTINGS)["status"]["rollout"]["pools"].clone();
    harness.eventually("both nodes of pool blue wait", || {
        progress()[0]["waitingNodes"] == 2
    });
    let content = simulation.host("win-000").with_disk(|disk| {
        let file = disk.file(r"C:\k\csi-proxy.exe");
        file.map(|file| file.content().to_vec())
    });
    assert_eq!(content.as_deref(), Some(&b"MZ csiProxy v1.1.3"[..]));
    let (code, said) = rollout(harness, &["status", "--watch=false"]);
    let waiting = "pool blue: 0 of 2 updated, 2 waiting";
    assert!(code == Some(3) && said.contains(waiting), "{said}");
    let (code, said) = rollout(harness, &["resume"]);
    let stay = "these pools stay paused: blue";
    assert!(code == Some(0) && said.contains(stay), "{said}");
    let (code, said) = rollout(harness, &["resume", "--pool", "blue"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = rollout(harness, &["resume", "--pool", "blue"]);
    assert!(
        code == Some(1) && said.contains("pool blue is not paused"),
        "{said}"
    );
    harness.eventually("both have the new csi-proxy", || {
        progress()[0] == json!({"name": "blue", "nodes": 2, "updatedNodes": 2, "waitingNodes": 0, "failedNodes": 0})
    });

    // The node outside all pools has no SSH key.
    let (code, said) = rollout(harness, &["status", "--timeout", "1s"]);
    assert!(
        code == Some(1) && said.contains("not done within 1s"),
        "{said}"
    );
    assert!(said.contains("pool blue: 2 of 2 updated"), "{said}");

    // A label moves a node to another pool, whose SSH key is missing.
    harness.kubectl("label node win-001 pool=grey --overwrite");
    harness.expect(
        &node("win-001"),
        "CSIProxyReady",
        "Unknown",
        "CredentialsMissing",
    );
    assert_eq!(pool("win-001"), "grey");
    harness.assert_nothing_was_forbidden();
}
