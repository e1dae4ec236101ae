//! More hosts than there are places to work at.

use std::time::Duration;

use futures::future::{join_all, select_all};
use testbed::simulated_host::SimulatedHost;
use tokio::sync::Semaphore;

use super::scene::{Scene, is_as_desired};
use super::visit;

fn let_go(host: &SimulatedHost) {
    host.set_faults(|faults| faults.holds_commands = false);
    host.release();
}

#[tokio::test]
async fn few_connections_wait_for_a_place_to_work_at() {
    let scene = Scene::new();
    let mut tools = scene.tools(&scene.new);
    (tools.connecting, tools.working) = (Semaphore::new(2), Semaphore::new(1));
    let (slow, others) = (scene.host(), [(); 7].map(|()| scene.host()));
    slow.set_faults(|faults| faults.holds_commands = true);
    let first = scene.target(&slow, &scene.new);
    let targets = others.each_ref().map(|host| scene.target(host, &scene.new));
    let after = async {
        slow.wait_until(|seen| seen.held > 0).await.unwrap();
        join_all(targets.iter().map(|target| visit(target, &tools))).await
    };
    let release = async {
        // As many as may have connected while the first one holds the place.
        let connecting = others
            .iter()
            .map(|host| Box::pin(host.wait_until(|seen| seen.connections > 0)));
        let (_, _, connecting) = select_all(connecting).await;
        drop(select_all(connecting).await);
        let_go(&slow);
    };
    let (first, visited, ()) = futures::join!(visit(&first, &tools), after, release);
    assert!(is_as_desired(&slow, &first.unwrap(), &scene.new));
    for (host, visited) in others.iter().zip(visited) {
        let visited = visited.unwrap();
        assert!(is_as_desired(host, &visited, &scene.new), "{visited:?}");
        assert_eq!(host.counters().connections, 1);
    }
    // Three, and those of which the host has not seen the end yet.
    let most = scene.fleet.gauges().connections.most();
    assert!(most <= 5, "{most} connections for one place");
}

#[tokio::test]
async fn who_waits_too_long_for_a_place_keeps_it_and_connects_anew() {
    let scene = Scene::new();
    let mut tools = scene.tools(&scene.new);
    tools.working = Semaphore::new(1);
    tools.queue = Duration::ZERO;
    let (slow, patient) = (scene.host(), scene.host());
    slow.set_faults(|faults| faults.holds_commands = true);
    let first = scene.target(&slow, &scene.new);
    let second = scene.target(&patient, &scene.new);
    let after = async {
        slow.wait_until(|seen| seen.held > 0).await.unwrap();
        visit(&second, &tools).await
    };
    let release = async {
        let given_up = |seen: &testbed::simulated_host::Counters| {
            seen.connections == 1 && seen.connections_now == 0
        };
        patient.wait_until(given_up).await.unwrap();
        let_go(&slow);
    };
    let (first, second, ()) = futures::join!(visit(&first, &tools), after, release);
    assert!(is_as_desired(&slow, &first.unwrap(), &scene.new));
    assert!(is_as_desired(&patient, &second.unwrap(), &scene.new));
    assert_eq!(patient.counters().connections, 2);
}
