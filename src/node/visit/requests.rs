//! What a visit asks of a host: far away it takes the time of what it waits for, and little else.

use std::collections::BTreeMap;

use super::scene::{Programs, Scene, is_as_desired};
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
