//! A node is deleted and recreated while the API server cannot say whether it exists.

use std::thread::sleep;
use std::time::Duration;

use testbed::api_proxy::{Fault, On, Verb};

use super::Rig;
use crate::harness::get_http;

#[test]
fn a_failed_look_at_a_node_that_left_is_forgotten_when_it_is_back() {
    let rig = Rig::new();
    let harness = &*rig;
    let running = rig.start();
    harness.eventually("the node has its status", || {
        !harness.get("windowsnodestorage/win-2").is_null()
    });
    let order = rig
        .proxy
        .order(On::to(Verb::Get, "nodes"), Fault::refuse(500));
    harness.kubectl("delete node win-2");
    harness.eventually("it was asked for and not found out", || order.hits() > 0);
    harness.sandbox.add_node("win-2", None).unwrap();
    rig.expect_missing("win-1, win-2");
    order.lift();
    // A check that is no longer possible must not wake the operator twice a second forever.
    harness.eventually("it is at rest", || {
        let before = passes(&harness.log());
        sleep(Duration::from_secs(5));
        passes(&harness.log()) < before + 4
    });
    running.assert_well();
}

/// Returns the number of reconciles so far.
fn passes(log: &str) -> u64 {
    let metrics = get_http(log, "metrics");
    let mut lines = metrics.lines();
    let count = lines.find_map(|line| line.split_once("reconcile_duration_seconds_count "));
    count.unwrap().1.trim().parse().unwrap()
}
