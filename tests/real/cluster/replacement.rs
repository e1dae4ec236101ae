//! Another csi-proxy in the payload replaces the one on the node, and one that does not work is rolled back.

use std::fs;
use std::path::{Path, PathBuf};

use testbed::node_agent::{csi_proxy_answers, csi_proxy_process};
use testbed::parts::part;

use crate::cluster::harness::{Harness, assert_has, write_payload};

#[test]
fn a_new_csi_proxy_replaces_the_old_one_and_a_broken_one_is_undone() {
    let harness = Harness::new();
    let host = harness.sandbox.add_windows_node("win-1").unwrap();
    harness.sandbox.give_access().unwrap();
    let old = fs::read(part("csi-proxy-1.1.3").unwrap()).unwrap();
    let on_node = || fs::read(host.drive_c().join("k/csi-proxy.exe")).unwrap();

    let operator = harness.start_with(&payload(&harness, "old", &old, "v1.1.3"));
    harness.expect_csi_proxy("win-1");
    assert_eq!(version(&harness), "v1.1.3");
    csi_proxy_answers(&host).unwrap();
    let first = csi_proxy_process(&host).unwrap();
    assert!(operator.terminate().unwrap().success());

    let operator = harness.start();
    harness.eventually("the new csi-proxy is reported", || {
        version(&harness) == "v1.3.0"
    });
    harness.expect_csi_proxy("win-1");
    csi_proxy_answers(&host).unwrap();
    assert_ne!(csi_proxy_process(&host).unwrap(), first);
    let good = on_node();
    assert!(operator.terminate().unwrap().success());

    let _operator =
        harness.start_with(&payload(&harness, "broken", b"MZ but no program", "v9.9.9"));
    let message = harness.expect_node("win-1", "False", "RolledBack");
    assert_has(&message, &["update failed and was rolled back"]);
    harness.expect_event("Node/win-1", "RolledBack");
    assert!(on_node() == good, "the file that worked is not back");
    csi_proxy_answers(&host).unwrap();

    // There is no retry: the process stays the same over further reconciles.
    let process = csi_proxy_process(&host).unwrap();
    let seen = crate::cluster::harness::logins(&host);
    harness.eventually("two more looks", || {
        crate::cluster::harness::logins(&host) >= seen + 2
    });
    assert_eq!(
        csi_proxy_process(&host).unwrap(),
        process,
        "a change that was undone is tried again"
    );
}

fn version(harness: &Harness) -> String {
    let status = &harness.get("windowsnodestorage/win-1")["status"];
    status["csiProxy"]["version"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Creates a payload with another csi-proxy.
fn payload(harness: &Harness, name: &str, csi_proxy: &[u8], version: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/payload");
    let agent = fs::read(built.join("windows-storage-agent.exe")).unwrap();
    let folder = harness.control_plane().dir().join(name);
    write_payload(&folder, (&agent, name), (csi_proxy, version));
    folder
}
