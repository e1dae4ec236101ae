//! Bad input: each fault causes a clear condition and event, other nodes are not affected, and the gate never opens.

use testbed::node_agent::csi_proxy_answers;
use testbed::objects::{self, NAMESPACE};
use testbed::windows_host::WindowsHost;

use crate::cluster::harness::{Harness, SETTINGS, assert_has, run};

#[test]
fn each_fault_is_told_in_plain_words_and_the_other_nodes_go_on() {
    let harness = Harness::new();
    let faulty = Faulty::new(&harness);
    let _operator = harness.start();

    without_a_key_no_node_is_reconciled(&harness);
    every_node_tells_its_own_fault(&harness, &faulty);
    harness.assert_sentences();
    a_changed_host_key_stops_work_until_it_is_accepted(&harness, &faulty.good);
    a_broken_document_stops_nothing_that_runs(&harness, &faulty.good);
    harness.assert_sentences();
    every_node_gets_well_by_itself(&harness, &faulty);

    harness.expect_gate("False", "DriversMissing", &["pod shop/web-0"]);
    assert_eq!(harness.openings(), 0);
    harness.assert_nothing_was_forbidden();
}

/// One good node, and one node for each fault.
struct Faulty {
    good: WindowsHost,
    unreachable: WindowsHost,
    refusing: WindowsHost,
    full: WindowsHost,
}

impl Faulty {
    fn new(harness: &Harness) -> Self {
        let sandbox = &harness.sandbox;
        let host = |name| sandbox.add_windows_node(name).unwrap();
        let faulty = Self {
            good: host("good"),
            unreachable: host("unreachable"),
            refusing: host("refusing"),
            full: host("full"),
        };
        sandbox.add_node("homeless", None).unwrap();
        sandbox.register("homeless", &[]).unwrap();
        faulty.unreachable.stop_sshd().unwrap();
        faulty.refusing.refuse_logins(true).unwrap();
        faulty.full.fill_disk(4_000_000).unwrap();
        harness.apply(&objects::azure_disk_workload("good"));
        let settings = objects::settings(sandbox.fleet.port(), sandbox.fleet.user());
        harness.apply(&settings);
        faulty
    }
}

fn without_a_key_no_node_is_reconciled(harness: &Harness) {
    let message = harness.expect(SETTINGS, "CredentialsValid", "False", "CredentialsMissing");
    assert_has(
        &message,
        &["kubectl create secret generic cloud-private-key -n windows-storage-operator"],
    );
    harness.expect_node("good", "Unknown", "CredentialsMissing");
    harness.expect_event("WindowsStorage/cluster", "CredentialsMissing");
    harness.apply(&objects::ssh_secret("this is no key"));
    harness.expect(SETTINGS, "CredentialsValid", "False", "InvalidPrivateKey");
    harness.expect_event("Node/good", "InvalidPrivateKey");
}

fn every_node_tells_its_own_fault(harness: &Harness, faulty: &Faulty) {
    harness.sandbox.give_access().unwrap();
    harness.expect_csi_proxy("good");
    csi_proxy_answers(&faulty.good).unwrap();
    for (node, status, reason, advice) in [
        ("unreachable", "Unknown", "Unreachable", "firewall"),
        (
            "refusing",
            "Unknown",
            "LoginRefused",
            "administrators_authorized_keys",
        ),
        ("full", "False", "DiskFull", "free some space"),
        ("homeless", "Unknown", "NoAddress", "kubelet"),
    ] {
        let message = harness.expect_node(node, status, reason);
        assert!(message.contains(advice), "{node}: {message}");
        let note = harness.expect_event(&format!("Node/{node}"), reason);
        assert!(note.contains(advice), "{node}: {note}");
        harness.expect_event(&format!("WindowsNodeStorage/{node}"), reason);
    }
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: windows-instances, namespace: {NAMESPACE}}}\ndata: {{'{}': username=u}}\n",
        faulty.good.address()
    );
    harness.apply(&map);
    let told = harness.expect(SETTINGS, "InstancesValid", "False", "ListedForWMCO");
    assert_has(&told, &["good"]);
    harness.kubectl(&format!(
        "delete configmap windows-instances -n {NAMESPACE}"
    ));
    harness.expect(SETTINGS, "InstancesValid", "True", "Valid");
    assert!(!faulty.full.drive_c().join("k/csi-proxy.exe").exists());
}

fn a_changed_host_key_stops_work_until_it_is_accepted(harness: &Harness, good: &WindowsHost) {
    good.change_host_key().unwrap();
    let message = harness.expect_node("good", "Unknown", "HostKeyChanged");
    let (_, accept) = message
        .split_once("accept it with: kubectl windows-storage ")
        .unwrap();
    let named = "accept-host-key good -n windows-storage-operator --fingerprint SHA256:";
    assert!(accept.starts_with(named), "{message}");
    harness.expect_event("Node/good", "HostKeyChanged");
    let status = &harness.get("windowsnodestorage/good")["status"];
    assert_eq!(
        status["csiProxy"]["version"], "v1.3.0",
        "what was known of the node stays"
    );
    let last_contact = good.sshd_log().unwrap();
    let after_connection = last_contact
        .rsplit("Connection from")
        .next()
        .unwrap_or_default();
    assert!(
        !after_connection.contains("Accepted"),
        "logged in to a host with another key: {after_connection}"
    );
    let words: Vec<&str> = accept.split_whitespace().collect();
    let accepted = run(harness.control_plane().kubeconfig(), &words);
    assert!(accepted.status.success(), "{accepted:?}");
    harness.expect_csi_proxy("good");
}

fn a_broken_document_stops_nothing_that_runs(harness: &Harness, good: &WindowsHost) {
    let broken = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: windows-services, namespace: {NAMESPACE}}}\ndata: {{services: '{{not json'}}\n"
    );
    harness.apply(&broken);
    let message = harness.expect(SETTINGS, "ServicesValid", "False", "InvalidServices");
    assert!(message.contains("Key services"), "{message}");
    harness.expect_event("WindowsStorage/cluster", "InvalidServices");
    assert_eq!(
        harness
            .condition("windowsnodestorage/good", "CSIProxyReady")
            .0,
        "True"
    );
    csi_proxy_answers(good).unwrap();
    let kept = &harness.get("configmap/windows-services")["data"]["services"];
    assert_eq!(kept, "{not json", "what cannot be read is not overwritten");
    harness.delete("configmap/windows-services");
    harness.expect(SETTINGS, "ServicesValid", "True", "Valid");
}

fn every_node_gets_well_by_itself(harness: &Harness, faulty: &Faulty) {
    faulty.unreachable.start_sshd().unwrap();
    faulty.refusing.refuse_logins(false).unwrap();
    faulty.full.free_disk().unwrap();
    for (node, host) in [
        ("good", &faulty.good),
        ("unreachable", &faulty.unreachable),
        ("refusing", &faulty.refusing),
        ("full", &faulty.full),
    ] {
        harness.expect_csi_proxy(node);
        csi_proxy_answers(host).unwrap();
    }
}
