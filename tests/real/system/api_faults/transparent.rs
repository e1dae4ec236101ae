//! The proxy itself: without an order it changes nothing.

use std::path::Path;
use std::time::Duration;

use http::Request;
use kube::Client;
use testbed::api_proxy::{Seen, Verb};

use super::{Rig, client_of};

#[test]
fn the_gate_opens_before_all_else_is_written() {
    let rig = Rig::new();
    let running = rig.start();
    rig.register("win-2", true);
    rig.expect_missing("win-1");
    rig.harness.expect_registered("win-2", true);
    // By then, silent watches count as stale and the operator has to check that they are alive.
    std::thread::sleep(Duration::from_secs(6));
    let before = rig.proxy.seen().len();
    rig.register("win-1", true);
    rig.expect_open();
    rig.harness.expect_registered("win-1", true);
    let seen = rig.proxy.seen().split_off(before);
    let first = |what: &str| {
        let is_it = |seen: &Seen| seen.call.verb == Verb::Patch && seen.path.contains(what);
        seen.iter().position(is_it).unwrap()
    };
    assert!(first("/operatorconditions/") < first("/windowsnodestorages/win-1/"));
    running.assert_well();
}

#[test]
fn a_proxy_without_orders_changes_nothing() {
    let rig = Rig::new();
    let running = rig.start();
    assert_eq!(rig.harness.openings(), 0);
    for node in ["win-1", "win-2"] {
        rig.register(node, true);
    }
    rig.expect_open();
    assert_eq!(rig.harness.openings(), 1);
    rig.harness.assert_nothing_was_forbidden();

    // The proxy does not extend the operator's permissions, and its answers are identical to the byte.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let through = rig.proxy.kubeconfig();
    let straight = through.to_str().unwrap();
    let straight = straight.replace(".proxied.kubeconfig", ".kubeconfig");
    let [straight, through] =
        [Path::new(&straight), through].map(|kubeconfig| runtime.block_on(client_of(kubeconfig)));
    for (path, is_allowed) in [
        ("/version", true),
        ("/api/v1/nodes", true),
        ("/api/v1/pods?limit=1", true),
        ("/apis/storage.k8s.io/v1/csinodes/win-1", false),
        ("/apis/storage.k8s.io/v1/csinodes?limit=2", true),
        ("/api/v1/namespaces/kube-system/secrets", false),
        ("/api/v1/nodes/nobody", false),
        ("/api/v1/pods?continue=nonsense", false),
    ] {
        let ask = |client: &Client| {
            let request = Request::get(path).body(Vec::new()).unwrap();
            let answer = runtime.block_on(client.request_text(request));
            answer.map_err(|error| error.to_string())
        };
        // A list contains the resourceVersion of the whole cluster, which keeps changing.
        let (straight, through) = loop {
            let (before, through, after) = (ask(&straight), ask(&through), ask(&straight));
            if before == after {
                break (after, through);
            }
        };
        assert_eq!(straight, through, "{path}");
        assert_eq!(straight.is_ok(), is_allowed, "{path}: {straight:?}");
    }
    running.assert_well();
}
