//! An API server that refuses requests for a while.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use testbed::api_proxy::{End, Fault, On, Seen, Verb};

use super::Rig;

const RETRY_AFTER: u32 = 3;
const READS: [Verb; 2] = [Verb::List, Verb::Watch];

#[test]
fn retry_after_is_heeded_and_nothing_is_lost() {
    let rig = Rig::new();
    let running = rig.start();
    let order = rig.proxy.order(On::any(), Fault::too_many(RETRY_AFTER));
    rig.proxy.end_watches(None, End::Closed);
    for node in ["win-1", "win-2"] {
        rig.register(node, true);
    }
    // Each kind has only one reader. Writes of two objects may be in flight at the same time, so they are left out.
    let by_path = || {
        let mut paths = BTreeMap::<String, Vec<Seen>>::new();
        let victims = order.victims().into_iter();
        for seen in victims.filter(|seen| READS.contains(&seen.call.verb)) {
            let path = seen.path.split('?').next().unwrap_or_default();
            paths.entry(path.to_owned()).or_default().push(seen);
        }
        paths
    };
    rig.eventually("every kind was asked for three times", || {
        by_path().values().filter(|asked| asked.len() >= 3).count() > 10
    });
    // Times are taken at the proxy, so a delay before the first of two requests shortens the gap.
    for (path, asked) in by_path() {
        for pair in asked.windows(2) {
            let gap = pair[1].at - pair[0].at;
            let least = Duration::from_secs(RETRY_AFTER.into());
            assert!(gap >= least, "{path} was asked for again after {gap:?}");
        }
    }
    assert_eq!(rig.openings(), 0);
    order.lift();
    rig.expect_open();
    running.assert_well();
}

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
    let check = || {
        Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"))
            .args(["check", "--kubeconfig"])
            .arg(rig.proxy.kubeconfig())
            .env_remove("KUBECONFIG")
            .output()
            .unwrap()
    };
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
