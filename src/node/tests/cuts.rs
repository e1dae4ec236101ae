//! Cuts the connection at the requests of a reconcile, before and after the host processes them. The next reconcile brings
//! the node to its desired state, and no file is ever half written in between. `CHAOS=full` cuts at every request.

use std::collections::BTreeMap;
use std::sync::Arc;

use simulated_host::{Moment, SimulatedHost};

use super::scene::{Programs, Scene, assert_desired, expect_whole, is_as_desired, programs_on};

/// The moments for the oldest and the newest server, each with its turn.
const TURNS: [[(usize, Moment); 2]; 2] = [
    [(0, Moment::Before), (1, Moment::After)],
    [(2, Moment::Before), (3, Moment::After)],
];

/// Additional requests after a cut: list the folder of uploaded agents to its end, and remove the leftover one.
const SWEEPING: u64 = 5;
/// All requests of a reconcile of a node in its desired state.
const SETTLED: [&str; 7] = [
    "connection",
    "login offered",
    "login",
    "channel",
    "command",
    "channel",
    "command",
];

/// Without `CHAOS=full`, only one request in so many is cut, another one for each server and moment.
const SOME: usize = 4;

/// Cuts at the requests of a reconcile that installs `programs` on a host like `before`, of which `turn` are left out first.
/// Returns the number of requests.
async fn cut_everywhere(
    scene: &Scene,
    before: &SimulatedHost,
    programs: &Programs,
    (turn, moment): (usize, Moment),
) -> u64 {
    let uncut = scene.host();
    uncut.copy_from(before);
    let reconciled = scene.go(&uncut, programs).await.unwrap();
    assert_desired(&uncut, &reconciled, programs);
    let all = uncut.counters();
    let whole = [programs_on(before), programs_on(&uncut)];
    let is_full = std::env::var("CHAOS").is_ok_and(|chaos| chaos == "full");
    let (first, step) = if is_full { (0, 1) } else { (turn, SOME) };
    for k in (1..=all.requests).skip(first).step_by(step) {
        let host = scene.host();
        host.copy_from(before);
        host.cut_at(k, moment);
        let cut = scene.go(&host, programs).await;
        let name = host.requests().last().copied().unwrap_or_default();
        let place = format!("{moment:?} request {k}, {name}");
        assert!(!host.waits_to_cut(), "{place}: nothing was cut");
        expect_whole(&host, &whole, &place);
        if let Ok(reconciled) = &cut
            && reconciled.problem.is_none()
        {
            // Nothing depended on the request that was cut.
            assert!(
                is_as_desired(&host, reconciled, programs),
                "{place}: {cut:?}"
            );
        }
        let first = host.counters();
        let again = scene.go(&host, programs).await.unwrap();
        assert!(is_as_desired(&host, &again, programs), "{place}: {again:?}");
        let second = host.counters();
        assert!(
            second.requests - first.requests <= all.requests + SWEEPING
                && second.uploads - first.uploads <= all.uploads,
            "{place}: {second:?} after {first:?}, and without a cut {all:?}"
        );
        let settled = scene.go(&host, programs).await.unwrap();
        assert!(is_as_desired(&host, &settled, programs), "{place}");
        let requests = host.requests();
        let last = requests.iter().rev().take(SETTLED.len()).rev().copied();
        let settled = host.counters();
        assert_eq!(
            settled.requests - second.requests,
            SETTLED.len() as u64,
            "{place}"
        );
        assert!(last.eq(SETTLED), "{place}: there was something left to do");
    }
    all.requests
}

#[tokio::test]
async fn a_fresh_node_gets_there_whatever_is_cut() {
    for (scene, turns) in Scene::of_the_oldest_and_the_newest_server().zip(TURNS) {
        let before = scene.host();
        for moment in turns {
            let requests = cut_everywhere(&scene, &before, &scene.old, moment).await;
            assert!(requests > 20, "{requests} requests are no whole reconcile");
        }
    }
}

#[tokio::test]
async fn an_upgrade_gets_there_whatever_is_cut() {
    for (scene, turns) in Scene::of_the_oldest_and_the_newest_server().zip(TURNS) {
        let before = scene.host_with_old().await;
        for moment in turns {
            let requests = cut_everywhere(&scene, &before, &scene.new, moment).await;
            assert!(requests > 20, "{requests} requests are no whole reconcile");
        }
    }
}

#[tokio::test]
async fn a_program_that_is_there_does_not_travel_again() {
    let scene = Scene::new();
    let host = scene.host_with_old().await;
    let before = host.counters();
    // The node gets another request, with the same program.
    let mut target = scene.target(&host, &scene.old);
    let desired = Arc::make_mut(target.desired.as_mut().unwrap());
    desired.request.id.push('x');
    let id = desired.request.id.clone();
    let reconciled = scene.go_to(&target, &scene.old).await.unwrap();
    assert_eq!(reconciled.problem, None);
    let state = reconciled.state.unwrap();
    assert_eq!(state.request_id, Some(id), "it was not handed over");
    let after = host.counters();
    assert_eq!(after.uploads - before.uploads, 1, "the request alone");
    let size = scene.old.payload.csi_proxy.read().unwrap().len() as u64;
    assert!(after.bytes_received - before.bytes_received < size / 2);
}

/// Counts the requests of a reconcile by kind, without those whose number depends on a file's size.
async fn asked(scene: &Scene, host: &SimulatedHost, programs: &Programs) -> String {
    let before = host.requests().len();
    let reconciled = scene.go(host, programs).await.unwrap();
    assert_desired(host, &reconciled, programs);
    let mut asked = BTreeMap::<&str, usize>::new();
    for request in host.requests().iter().skip(before) {
        *asked.entry(request).or_default() += 1;
    }
    asked.remove("sftp write");
    let kinds: Vec<_> = asked
        .iter()
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    kinds.join(", ")
}

#[tokio::test]
async fn no_more_is_asked_of_a_host_than_it_takes() {
    let scene = Scene::new();
    let host = scene.host();
    let fresh = asked(&scene, &host, &scene.old).await;
    assert_eq!(
        fresh,
        "channel 7, command 6, connection 1, login 1, login offered 1, sftp close 3, sftp init 1, sftp mkdir 1, sftp open 3, sftp remove 1, sftp rmdir 1, subsystem 1"
    );
    let upgrade = asked(&scene, &host, &scene.new).await;
    assert_eq!(
        upgrade,
        "channel 5, command 4, connection 1, login 1, login offered 1, sftp close 3, sftp init 1, sftp mkdir 1, sftp open 3, sftp remove 1, sftp rmdir 1, subsystem 1"
    );
    let nothing_to_do = asked(&scene, &host, &scene.new).await;
    assert_eq!(
        nothing_to_do,
        "channel 2, command 2, connection 1, login 1, login offered 1"
    );
}
