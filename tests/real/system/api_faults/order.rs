//! In which order things are written.

use testbed::api_proxy::{Seen, Verb};

use super::Rig;

#[test]
fn the_gate_closes_before_all_else_is_written() {
    let rig = Rig::new();
    let running = rig.start();
    for node in ["win-1", "win-2"] {
        rig.register(node, true);
        rig.expect_registered(node, true);
    }
    rig.expect_open();
    let before = rig.proxy.seen().len();
    rig.register("win-1", false);
    rig.expect_missing("win-1");
    rig.expect_registered("win-1", false);
    let seen = rig.proxy.seen().split_off(before);
    let first = |what: &str| {
        let is_it = |seen: &Seen| seen.call.verb == Verb::Patch && seen.path.contains(what);
        seen.iter().position(is_it).unwrap()
    };
    assert!(first("/operatorconditions/") < first("/windowsnodestorages/win-1/"));
    running.assert_well();
}
