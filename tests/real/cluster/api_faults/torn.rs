//! Truncated answers.

use testbed::api_proxy::{End, Fault, On, Verb};

use super::{Rig, pod_that_needs_another_driver};

#[test]
fn a_watch_that_ends_at_any_moment_loses_nothing() {
    let rig = Rig::new();
    let running = rig.start();
    let mut is_registered = false;
    // Backoff grows with every failure, so not every combination is tested.
    for (end, lives) in [
        (End::Closed, &[0, 1, 2, 3][..]),
        (End::Cut, &[0, 2]),
        (End::Gone, &[1]),
    ] {
        for &events in lives {
            let order = rig.proxy.order_times(
                1,
                On::to(Verb::Watch, "csinodes"),
                Fault::EndAfter(events, end),
            );
            rig.proxy.end_watches(Some("csinodes"), End::Closed);
            // As many changes as the watch delivers events, and one more that it does not see.
            for _ in 0..=events {
                is_registered = !is_registered;
                rig.register("win-2", is_registered);
                rig.expect_registered("win-2", is_registered);
            }
            assert_eq!(order.hits(), 1, "{end:?} after {events}");
        }
    }
    // In the middle of an event.
    let order = rig
        .proxy
        .order_times(1, On::to(Verb::Watch, "csinodes"), Fault::CutAfter(100));
    rig.proxy.end_watches(Some("csinodes"), End::Closed);
    for _ in 0..2 {
        is_registered = !is_registered;
        rig.register("win-2", is_registered);
        rig.expect_registered("win-2", is_registered);
    }
    assert_eq!(order.hits(), 1, "in the middle of an event");
    assert_eq!(rig.openings(), 0);
    // After this many changes, the gate's message may be up to half a minute late.
    rig.expect_missing(if is_registered {
        "win-1"
    } else {
        "win-1, win-2"
    });
    running.assert_well();
}

#[test]
fn a_list_that_is_cut_is_not_taken_for_a_whole_one() {
    let rig = Rig::new();
    rig.crowd(5);
    let running = rig.start();
    // The pod that holds upgrades is last in the list, so the part that arrives never contains it.
    for bytes in [3_000, 300, 0] {
        let order = rig
            .proxy
            .order_times(2, On::to(Verb::List, "pods"), Fault::CutAfter(bytes));
        rig.end_watches(Some("pods"), End::Gone);
        assert_eq!(order.hits(), 2, "cut after {bytes} bytes");
        // The new watch delivers new objects.
        let control_plane = rig.control_plane();
        control_plane
            .apply(&pod_that_needs_another_driver())
            .unwrap();
        rig.expect_gate("False", "DriversMissing", &["pod shop/late"]);
        rig.kubectl("delete pod late --namespace=shop --force --grace-period=0");
        rig.expect_missing("win-1, win-2");
    }
    rig.register("win-2", true);
    rig.expect_missing("win-1");
    assert_eq!(rig.openings(), 0);
    rig.register("win-1", true);
    rig.expect_open();
    running.assert_well();
}
