//! 410 Gone: the requested resource version is no longer available.

use testbed::api_proxy::{End, Fault, On, Verb};

use super::Rig;

/// More than one page.
const PODS: usize = 600;

#[test]
fn gone_in_each_of_its_three_forms_leads_to_a_whole_list() {
    let rig = Rig::new();
    rig.crowd(PODS);
    let running = rig.start();

    // As the answer to the start of a watch.
    let order = rig
        .proxy
        .order_times(2, On::to(Verb::Watch, "csinodes"), Fault::refuse(410));
    rig.proxy.end_watches(Some("csinodes"), End::Closed);
    // Before the second refusal, the list in between could deliver a registration.
    rig.eventually("the watch is refused again", || order.hits() == 2);
    rig.register("win-2", true);
    rig.expect_missing("win-1");

    // As an event, for every kind at once.
    rig.end_watches(None, End::Gone);
    rig.register("win-2", false);
    rig.expect_missing("win-1, win-2");

    // As the answer to the request for the second page, which contains the pod that holds upgrades.
    let order = rig
        .proxy
        .order(On::rest_of_list("pods"), Fault::refuse(410));
    rig.proxy.end_watches(Some("pods"), End::Gone);
    for node in ["win-1", "win-2"] {
        rig.register(node, true);
    }
    rig.eventually("the rest of the list is gone again and again", || {
        order.hits() >= 3
    });
    assert_eq!(rig.openings(), 0, "on half a list");
    order.lift();
    rig.expect_open();
    running.assert_well();
}
