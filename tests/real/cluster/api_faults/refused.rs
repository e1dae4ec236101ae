//! An API server that refuses requests for a while.

use testbed::api_proxy::{End, Fault, On, Verb};

use super::Rig;
use crate::cluster::harness::run;

#[test]
fn refusals_are_told_and_not_hidden_by_retries() {
    let rig = Rig::new();
    let running = rig.start();
    for (status, words) in [
        (503, "the server is not ready"),
        (500, "an error on the server has happened"),
    ] {
        let order = rig.proxy.order(On::any(), Fault::refuse(status));
        rig.proxy.end_watches(None, End::Closed);
        rig.eventually("what cannot be read is told", || {
            let log = rig.log();
            log.contains(&format!("watch interrupted: {words}"))
        });
        rig.register("win-2", status == 503);
        order.lift();
        rig.expect_missing(if status == 503 {
            "win-1"
        } else {
            "win-1, win-2"
        });
    }
    assert_eq!(rig.openings(), 0);
    running.assert_well();
}

#[test]
fn check_asks_a_busy_server_again() {
    let rig = Rig::new();
    let version = rig
        .proxy
        .order_times(2, On::to(Verb::Get, "/version"), Fault::too_many(1));
    let pods = rig
        .proxy
        .order_times(2, On::to(Verb::List, "pods"), Fault::refuse(503));
    let check = || run(rig.proxy.kubeconfig(), &["check"]);
    let output = check();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!((version.hits(), pods.hits()), (2, 2));

    // Retries are limited.
    let always = rig
        .proxy
        .order(On::to(Verb::List, "pods"), Fault::refuse(503));
    let output = check();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("the server is not ready"), "{told}");
    assert_eq!(always.hits(), 3);
}
