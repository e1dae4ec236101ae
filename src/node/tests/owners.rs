//! Nodes on which another owner manages csi-proxy.

use std::collections::BTreeSet;
use std::sync::Arc;

use simulated_host::{SimulatedHost, Speech};

use super::scene::{Scene, assert_desired, is_as_desired};
use crate::node::slots::State;
use crate::node::{Look, Purpose, Reason, Standing, Target};

fn host_of_another(scene: &Scene, service: &str) -> SimulatedHost {
    let host = scene.host();
    host.add_service(service, r"C:\other\csi-proxy.exe -windows-service");
    host
}

fn files(host: &SimulatedHost) -> Vec<String> {
    host.with_disk(|disk| disk.files())
}

#[tokio::test]
async fn nothing_is_brought_to_a_node_whose_csi_proxy_is_another_owners() {
    let scene = Scene::new();
    // Only a service csi-proxy may be taken over.
    for (service, may_replace, is_taken) in [
        ("csi-proxy", true, true),
        ("csiproxy", true, false),
        ("csiproxy", false, false),
    ] {
        let host = host_of_another(&scene, service);
        let mut target = scene.target(&host, &scene.old);
        if let Ok(desired) = &mut target.desired {
            Arc::make_mut(desired).request.replace_foreign = may_replace;
        }
        let found = scene.go_to(&target, &scene.old).await.unwrap();
        assert_eq!(found.problem, None);
        assert_eq!(is_as_desired(&host, &found, &scene.old), is_taken);
        if !is_taken {
            let command = r"C:\other\csi-proxy.exe -windows-service";
            let by = format!("unknown owner by service {service} ({command})");
            assert_eq!(found.look, Look::Owner(by));
            assert_eq!(files(&host), [""; 0]);
        }
    }

    // If the administrator has assigned the node to the operator, it is left to the agent to detect conflicts.
    let host = host_of_another(&scene, "csiproxy");
    let mut target = scene.target(&host, &scene.old);
    target.is_given = true;
    let found = scene.go_to(&target, &scene.old).await.unwrap();
    assert_desired(&host, &found, &scene.old);
}

#[tokio::test]
async fn a_node_is_given_up_with_csi_proxy_as_it_is() {
    let scene = Scene::new();
    let host = scene.host_with_old().await;
    let mut target = scene.target(&host, &scene.old);
    target.purpose = Purpose::Release;
    let before = files(&host);
    scene.give(&[]);
    let waits = scene.go_to(&target, &scene.new).await.unwrap();
    assert!(waits.is_waiting(), "{waits:?}");
    assert_eq!(files(&host), before);

    scene.give(&["win-1"]);
    let released = scene.go_to(&target, &scene.new).await.unwrap();
    assert_eq!(
        (released.problem, released.standing),
        (None, Standing::Current)
    );
    assert_eq!(files(&host), ["c:/k/csi-proxy.exe"]);

    let sent = host.requests().len();
    let again = scene.go_to(&target, &scene.new).await.unwrap();
    assert_eq!(again.problem, None);
    let more = &host.requests()[sent..];
    assert!(!more.contains(&"sftp open"), "{more:?}");
}

#[tokio::test]
async fn both_programs_are_removed_in_a_slot_and_what_is_not_there_needs_none() {
    let scene = Scene::new();
    let host = scene.host_with_old().await;
    host.add_service("logs", r"C:\k\logs.exe");
    let mut target = scene.target(&host, &scene.old);
    target.purpose = Purpose::Remove;
    scene.give(&[]);
    let before = files(&host);
    let waits = scene.go_to(&target, &scene.old).await.unwrap();
    assert!(waits.is_waiting() && waits.state.is_some());
    assert_eq!(files(&host), before);

    scene.give(&["win-1"]);
    let removed = scene.go_to(&target, &scene.old).await.unwrap();
    assert_eq!(removed.problem, None);
    assert_eq!((removed.standing, removed.state), (Standing::Current, None));
    assert_eq!(files(&host), [""; 0]);

    scene.give(&[]);
    let again = scene.go_to(&target, &scene.old).await.unwrap();
    assert_eq!((again.standing, again.problem), (Standing::Current, None));
}

#[tokio::test]
async fn what_was_removed_in_the_middle_and_is_brought_again_holds_no_place() {
    let scene = Scene::new();
    let host = scene.host();
    // The removal was cut after the agent was removed, and is then revoked.
    scene.slots.restore(["win-1".to_owned()]);
    let done = scene.go(&host, &scene.old).await.unwrap();
    assert_eq!((done.problem, done.standing), (None, Standing::Current));
    let in_progress = scene
        .slots
        .decide(|state| (BTreeSet::new(), state.in_progress(&BTreeSet::new())));
    assert_eq!(
        in_progress,
        BTreeSet::new(),
        "nobody looks again for five minutes"
    );
}

#[tokio::test]
async fn a_release_that_fails_leaves_no_doubt_about_csi_proxy_and_a_removal_does() {
    for (purpose, is_in_doubt) in [(Purpose::Release, false), (Purpose::Remove, true)] {
        let scene = Scene::new();
        let host = scene.host_with_old().await;
        let target = Target {
            purpose,
            ..scene.target(&host, &scene.old)
        };
        host.set_faults(|faults| faults.speech = Speech::Instead("no".to_owned()));
        let failed = scene.go_to(&target, &scene.old).await.unwrap();
        assert_eq!(failed.problem.unwrap().reason, Reason::AgentFailed);
        let in_doubt = |state: &State| !state.cut_short.is_empty();
        let seen = scene
            .slots
            .decide(|state| (BTreeSet::new(), in_doubt(state)));
        assert_eq!(seen, is_in_doubt, "{purpose:?}");
    }
}
