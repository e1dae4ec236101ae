//! What the gate waits for.

use testbed::api_proxy::{Fault, On, Verb};

use super::Rig;

#[test]
fn the_gate_closes_while_nothing_else_can_be_written() {
    let rig = Rig::new();
    let running = rig.start();
    for node in ["win-1", "win-2"] {
        rig.register(node, true);
        rig.expect_registered(node, true);
    }
    rig.expect_open();
    let hung = ["windowsnodestorages", "windowsstorages"].map(|resource| {
        let writes = On::to(Verb::Patch, resource);
        rig.proxy.order(writes, Fault::Hang)
    });
    rig.register("win-1", false);
    rig.expect_missing("win-1");
    rig.eventually("both statuses are being written", || {
        hung.iter().all(|hung| hung.hits() > 0)
    });
    for hung in hung {
        hung.lift();
    }
    rig.expect_registered("win-1", false);
    running.assert_well();
}
