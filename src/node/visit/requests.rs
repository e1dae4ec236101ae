//! What a visit asks of a host: far away it takes the time of what it waits for, and little else.

use std::collections::BTreeMap;

use super::scene::{Programs, Scene, is_as_desired, left_over};
use protocol::paths::AGENT_EXE;
use testbed::simulated_host::SimulatedHost;

/// The requests of a visit by their kind, without what a file's size makes of it.
async fn asked(scene: &Scene, host: &SimulatedHost, programs: &Programs) -> String {
    let before = host.requests().len();
    let visited = scene.go(host, programs).await.unwrap();
    assert!(is_as_desired(host, &visited, programs), "{visited:?}");
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
        "channel 3, command 2, connection 1, login 1, login offered 1, sftp close 3, sftp init 1, sftp mkdir 1, sftp open 3, sftp remove 1, sftp rename 1, sftp stat 2, subsystem 1"
    );
    let upgrade = asked(&scene, &host, &scene.new).await;
    assert_eq!(
        upgrade,
        "channel 4, command 3, connection 1, login 1, login offered 1, sftp close 3, sftp init 1, sftp open 3, sftp remove 1, subsystem 1"
    );
    let nothing_to_do = asked(&scene, &host, &scene.new).await;
    assert_eq!(
        nothing_to_do,
        "channel 1, command 1, connection 1, login 1, login offered 1"
    );
}

#[tokio::test]
async fn a_command_that_was_started_for_a_request_that_does_not_come_keeps_nobody() {
    let scene = Scene::new();
    let host = scene.host_with_old().await;
    // Somebody has removed the agent's program, csi-proxy works, and it is another node's turn.
    host.with_disk(|disk| disk.remove(AGENT_EXE)).unwrap();
    scene.turns.decide(|_| ([].into(), ()));
    let before = host.counters();
    let visited = scene.go(&host, &scene.new).await.unwrap();
    assert!(visited.is_waiting(), "{visited:?}");
    let after = host.counters();
    assert_eq!(after.commands - before.commands, 2);
    assert_eq!(
        after.uploads - before.uploads,
        2,
        "the agent, and word that no request comes"
    );
    assert_eq!(left_over(&host), [""; 0]);
    scene.turns.decide(|_| (["win-1".to_owned()].into(), ()));
    let visited = scene.go(&host, &scene.new).await.unwrap();
    assert!(is_as_desired(&host, &visited, &scene.new), "{visited:?}");
}
