//! An interrupted copy leaves nothing half done.

use std::fs;
use std::path::Path;

use testbed::node_agent::csi_proxy_answers;
use testbed::windows_host::WindowsHost;

use crate::system::harness::Harness;

/// Slow enough that a kill interrupts the copy.
const SLOW: u64 = 3_000_000;

#[test]
fn a_kill_or_a_lost_connection_in_the_middle_of_a_copy_leaves_nothing_half_done() {
    let harness = Harness::new();
    let host = harness.sandbox.add_windows_node("win-1").unwrap();
    harness.sandbox.give_access().unwrap();
    host.limit_rate(Some(SLOW));
    let operator = harness.start();
    wait_for_the_copy(&harness, &host);
    operator.kill().unwrap();
    assert!(
        !host.drive_c().join("k/csi-proxy.exe").exists(),
        "half a file where a whole one belongs"
    );

    let _operator = harness.start();
    wait_for_the_copy(&harness, &host);
    host.cut_connections();
    harness.expect_event("Node/win-1", "TransferFailed");
    assert!(
        !host.drive_c().join("k/csi-proxy.exe").exists(),
        "half a file where a whole one belongs"
    );

    host.limit_rate(None);
    harness.expect_csi_proxy("win-1");
    let payload = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/payload/csi-proxy.exe");
    assert!(
        fs::read(host.drive_c().join("k/csi-proxy.exe")).unwrap() == fs::read(payload).unwrap()
    );
    csi_proxy_answers(&host).unwrap();
    harness.eventually("no partial upload is left", || {
        fs::read_dir(host.drive_c().join("k/windows-storage/incoming"))
            .unwrap()
            .next()
            .is_none()
    });
}

/// Waits until enough bytes were sent that csi-proxy, which is far larger than the agent, must be in transit.
fn wait_for_the_copy(harness: &Harness, host: &WindowsHost) {
    let before = host.relay().bytes_to_server();
    harness.eventually("csi-proxy is on its way", || {
        host.relay().bytes_to_server() > before + 3_000_000
    });
}
