//! Hosts on which an ordinary account has put programs at all paths that it could write. None of them is run.

use std::time::Duration;

use protocol::paths::{AGENT_EXE, AGENT_SERVICE};

use simulated_host::{KeyKind, SimulatedHost};

use super::scene::{Scene, is_as_desired};
use crate::node::{NodePlan, Preflight, Purpose, Target, Trust, inspect, state};

const PATIENCE: Duration = Duration::from_secs(60);

/// Returns planted hosts: a new one, one that was installed anew under the same name, and one from which everything of
/// this operator was removed.
async fn planted_hosts(scene: &Scene) -> [(&'static str, SimulatedHost); 3] {
    let new = scene.host();
    let again = scene.host_with_old().await;
    again.copy_from(&scene.host());
    again.change_host_keys(&[KeyKind::Ed25519]).unwrap();
    let removed = scene.host_with_old().await;
    let removal = Target {
        purpose: Purpose::Remove,
        ..scene.target(&removed, &scene.old)
    };
    let found = scene.go_to(&removal, &scene.old).await.unwrap();
    assert_eq!(found.problem, None);
    let hosts = [
        ("new", new),
        ("installed anew", again),
        ("after a removal", removed),
    ];
    for (_, host) in &hosts {
        host.plant();
    }
    hosts
}

#[tokio::test]
async fn no_command_runs_a_program_that_anybody_could_have_put_there() {
    for scene in Scene::of_the_oldest_and_the_newest_server() {
        for (what, host) in planted_hosts(&scene).await {
            let target = scene.target(&host, &scene.new);

            // What must-gather asks.
            let asked = inspect(&target, "ns", Trust::Known, PATIENCE, state).await;
            assert_eq!(asked.unwrap().unwrap(), None, "{what}");

            // What check hosts asks.
            let plan = NodePlan::Reconcile(Ok(target.clone().into()));
            let seen = Preflight::of("win-1", &plan, "ns", false).await;
            assert!(seen.reached && seen.agent.is_none(), "{what}: {seen:?}");
            assert!(seen.free_bytes.is_some(), "{what}: {seen:?}");

            for purpose in [Purpose::Release, Purpose::Remove, Purpose::Reconcile] {
                let target = Target {
                    purpose,
                    ..target.clone()
                };
                let found = scene.go_to(&target, &scene.new).await.unwrap();
                assert_eq!(found.problem, None, "{what}: {purpose:?}");
                assert_eq!(host.planted_runs(), [""; 0], "{what}: {purpose:?}");
                if purpose == Purpose::Reconcile {
                    assert!(is_as_desired(&host, &found, &scene.new), "{what}");
                } else {
                    host.plant();
                }
            }
        }
    }
}

#[tokio::test]
async fn a_service_of_the_agents_name_that_runs_anything_else_is_not_ours() {
    let scene = Scene::new();
    for command in [
        "",
        AGENT_EXE,
        r"C:\k\windows-storage-agent.exe service --and-more",
        r"C:\k\windows-storage-agent.exe  service",
        r#""C:\k\windows-storage-agent.exe" service"#,
        r"C:\Users\Public\windows-storage-agent.exe service",
        r"C:\k\windows-storage-agent.previous.exe service",
    ] {
        let host = scene.host();
        host.plant();
        host.add_service(AGENT_SERVICE, command);
        let found = scene.go(&host, &scene.new).await.unwrap();
        assert_eq!(found.problem, None, "{command}");
        assert_eq!(host.planted_runs(), [""; 0], "{command}");
    }
}
