//! Bursts of events and relists.

use testbed::api_proxy::{End, Verb};

use super::{Rig, pod_that_needs_another_driver};

const PODS: usize = 1_000;
const ROUNDS: usize = 10;
/// Page size of the operator's lists.
const PAGE_SIZE: usize = 100;

#[test]
#[ignore = "make chaos"]
fn a_burst_of_thousands_of_events_and_a_relist_of_everything_lose_no_decision() {
    let rig = Rig::new();
    let crowd = rig.crowd(PODS);
    let running = rig.start();
    for round in 0..ROUNDS {
        crowd.touch(round);
        // Changes the verdict in the middle of the burst, in each round to the opposite.
        rig.register("win-2", round % 2 == 0);
    }
    rig.expect_missing("win-1, win-2");
    running.assert_memory();

    let lists = rig.proxy.count(Verb::List, "pods");
    rig.end_watches(None, End::Gone);
    rig.register("win-2", true);
    rig.expect_missing("win-1");
    // Covers objects that were created and deleted while nothing was watched.
    rig.end_watches(None, End::Gone);
    let relists = rig.proxy.count(Verb::List, "pods") - lists;
    assert_eq!(relists, 2 * (PODS + 1).div_ceil(PAGE_SIZE), "pages");
    rig.kubectl("delete pod -n shop web-0 --force --grace-period=0");
    let control_plane = rig.control_plane();
    control_plane
        .apply(&pod_that_needs_another_driver())
        .unwrap();
    rig.expect_gate(
        "False",
        "DriversMissing",
        &["pod shop/late", "file.csi.azure.com"],
    );
    rig.sandbox
        .register("win-1", &["file.csi.azure.com"])
        .unwrap();
    rig.sandbox
        .register("win-2", &["file.csi.azure.com"])
        .unwrap();
    rig.expect_open();
    running.assert_well();
}
