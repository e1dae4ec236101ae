//! A copy that is cut off leaves nothing half done.

use std::fs;
use std::path::Path;

use testbed::windows_host::WindowsHost;

use crate::harness::{Harness, path_exists};

/// Slow enough that a kill hits the copy.
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
    harness.expect(
        "windowsnodestorage/win-1",
        "CSIProxyReady",
        "True",
        "PipesOpen",
    );
    let payload = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/payload/csi-proxy.exe");
    assert!(
        fs::read(host.drive_c().join("k/csi-proxy.exe")).unwrap() == fs::read(payload).unwrap()
    );
    assert_eq!(path_exists(&host, r"C:\k"), Ok(true));
    harness.eventually("no partial upload is left", || {
        fs::read_dir(host.drive_c().join("k/windows-storage/incoming"))
            .unwrap()
            .next()
            .is_none()
    });
}

fn wait_for_the_copy(harness: &Harness, host: &WindowsHost) {
    harness.eventually("csi-proxy is on its way", || {
        let folder = host.drive_c().join("k/windows-storage/incoming");
        fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| {
                entry
                    .file_name()
                    .to_string_lossy()
                    .starts_with("csi-proxy-")
                    && (1_000_000..15_000_000)
                        .contains(&entry.metadata().map_or(0, |metadata| metadata.len()))
            })
    });
}
