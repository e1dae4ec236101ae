//! How the administrator defines which host keys are trusted.

use serde_json::json;
use simulated_host::KeyKind;
use testbed::objects;

use super::Simulation;
use crate::cluster::harness::SETTINGS;

#[test]
fn a_strict_operator_logs_in_to_known_hosts_only() {
    let simulation = Simulation::new(2);
    let harness = &simulation.harness;
    let ssh = json!({
        "user": simulation.fleet.user(),
        "port": simulation.fleet.port(),
        "hostKeys": "Strict",
    });
    simulation.want(&json!({"ssh": ssh}));
    let _operator = harness.start_with(&simulation.payload("v1.3.0"));
    for node in ["win-000", "win-001"] {
        let message = harness.expect_node(node, "Unknown", "HostKeyUnknown");
        assert!(message.contains("ssh-keygen -lf"), "{message}");
    }
    assert!(
        !harness.get("configmap/windows-storage-host-keys").is_null(),
        "the command that accepts a key changes this ConfigMap"
    );
    let first = simulation.host("win-000");
    let list = |lines: &str| {
        simulation.write_config_map("windows-storage-host-keys", &json!({"known_hosts": lines}));
    };
    let known = format!(
        "# from the image\n[{}]:{} {}\n",
        first.address(),
        first.port(),
        first.host_keys().unwrap()[0]
    );
    list(&format!("{known}nonsense\n"));
    harness.expect_csi_proxy("win-000");
    let message = harness.expect(SETTINGS, "HostKeysValid", "False", "InvalidKnownHosts");
    assert!(message.contains("line 3"), "{message}");
    list(&known);
    harness.expect(SETTINGS, "HostKeysValid", "True", "Valid");
    assert_eq!(
        simulation.host("win-001").counters().logins,
        0,
        "nobody has vouched for this host"
    );

    // A reinstalled host is refused until its line is updated.
    let logins = first.counters().logins;
    first.change_host_keys(&[KeyKind::Ed25519]).unwrap();
    let message = harness.expect_node("win-000", "Unknown", "HostKeyChanged");
    assert!(message.contains("known_hosts"), "{message}");
    assert!(first.counters().logins <= logins + 1);
    harness.assert_nothing_was_forbidden();
}

#[test]
fn a_key_that_the_machine_config_operator_noted_has_to_be_the_one_that_is_shown() {
    let simulation = Simulation::new(2);
    let harness = &simulation.harness;
    let annotate = |node: &str, key: &str| {
        let (kind, key) = key.split_once(' ').unwrap();
        let prefix = "windowsmachineconfig.openshift.io/ssh-host-key";
        harness.kubectl(&format!(
            "annotate node {node} {prefix}={key} {prefix}-type={kind} windowsstorage.dev/management=Managed"
        ));
    };
    let keys: Vec<String> = simulation
        .hosts
        .iter()
        .map(|host| host.host_keys().unwrap().remove(0))
        .collect();
    annotate("win-000", &keys[0]);
    annotate("win-001", &keys[0]);
    let _operator = harness.start_with(&simulation.payload("v1.3.0"));
    harness.expect_csi_proxy("win-000");
    harness.expect_node("win-001", "Unknown", "HostKeyChanged");
    assert_eq!(simulation.host("win-001").counters().logins, 0);
}

impl Simulation {
    /// Changes the address in a node's status, as a compromised kubelet could.
    fn tell_address(&self, node: &str, address: &str) {
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}});
        let object = format!("node/{node}");
        self.harness.patch_status(&object, &status);
    }

    /// Adds a Node with this address.
    fn join(&self, node: &str, address: &str) {
        let new = [objects::windows_node(node), objects::csi_node(node, &[])].join("---\n");
        let control_plane = self.harness.control_plane();
        control_plane.apply(&new).unwrap();
        self.tell_address(node, address);
    }
}

#[test]
fn a_kubelet_cannot_have_another_host_taken_for_its_own() {
    let simulation = Simulation::new(2);
    let harness = &simulation.harness;
    // A long interval, so that only changes of Nodes cause a reconcile.
    let interval = ["--probe-interval=3600"];
    let _operator = harness.start_with_both(&simulation.payload("v1.3.0"), &interval);
    harness.eventually("both nodes are ready", || simulation.ready().len() == 2);
    let (first, second) = (simulation.host("win-000"), simulation.host("win-001"));
    let pins = || harness.get("configmap/windows-storage-host-keys")["data"].clone();
    let expect = |node: &str, reason: &str| {
        let object = format!("windowsnodestorage/{node}");
        harness.expect(&object, "CSIProxyReady", "Unknown", reason)
    };
    let (logins, pinned) = ([first, second].map(|host| host.counters().logins), pins());
    let address = first.address().to_string();

    simulation.tell_address("win-001", &address);
    expect("win-001", "HostKeyChanged");
    simulation.join("new", &address);
    let message = expect("new", "HostKeyUnknown");
    assert!(message.contains("also that of node win-00"), "{message}");

    // Addresses are only used for connections.
    for (node, hostile) in [
        ("option", "-oProxyCommand=touch /tmp/x"),
        ("lines", "127.0.0.1\n127.0.0.1"),
        ("escapes", "\u{1b}[2J\u{202e}"),
        ("zone", "fe80::1%lo"),
        ("port", "127.0.0.1:22"),
        ("path", "../../etc/passwd"),
        ("command", "$(touch x);`touch x`|touch x"),
    ] {
        simulation.join(node, hostile);
        let message = expect(node, "Unreachable");
        let is_plain = |letter: char| !letter.is_control() && letter != '\u{202e}';
        assert!(message.chars().all(is_plain), "{message:?}");
    }
    assert_eq!([first, second].map(|host| host.counters().logins), logins);
    assert_eq!(pins(), pinned, "what is pinned stays, and nothing new is");

    simulation.tell_address("win-001", &second.address().to_string());
    harness.eventually("its own host is what it was", || {
        simulation.ready().len() == 2
    });
}
