//! In which order things are written.

use std::time::Duration;

use testbed::api_proxy::{Seen, Verb};

use super::Rig;

#[test]
fn the_gate_opens_before_all_else_is_written() {
    let rig = Rig::new();
    let running = rig.start();
    rig.register("win-2", true);
    rig.expect_missing("win-1");
    rig.expect_registered("win-2", true);
    // By then, silent watches count as stale and the operator has to check that they are alive.
    std::thread::sleep(Duration::from_secs(6));
    let before = rig.proxy.seen().len();
    rig.register("win-1", true);
    rig.expect_open();
    rig.expect_registered("win-1", true);
    let seen = rig.proxy.seen().split_off(before);
    let first = |what: &str| {
        let is_it = |seen: &Seen| seen.call.verb == Verb::Patch && seen.path.contains(what);
        seen.iter().position(is_it).unwrap()
    };
    assert!(first("/operatorconditions/") < first("/windowsnodestorages/win-1/"));
    running.assert_well();
}
