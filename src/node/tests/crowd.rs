//! Tests with more hosts than places to work.

use std::time::Duration;

use futures::future::{join_all, select_all};
use tokio::sync::Semaphore;

use super::scene::{Scene, assert_desired, is_as_desired};
use crate::node::reconcile_node;

#[tokio::test]
async fn few_connections_wait_for_a_place_to_work_at() {
    let scene = Scene::new();
    let mut context = scene.context(&scene.new);
    (context.connecting, context.working) = (Semaphore::new(2), Semaphore::new(1));
    let (slow, others) = (scene.host(), [(); 7].map(|()| scene.host()));
    slow.set_faults(|faults| faults.holds_commands = true);
    let first = scene.target(&slow, &scene.new);
    let targets = others.each_ref().map(|host| scene.target(host, &scene.new));
    let after = async {
        slow.wait_until(|seen| seen.held > 0).await.unwrap();
        join_all(
            targets
                .iter()
                .map(|target| reconcile_node(target, &context)),
        )
        .await
    };
    let release = async {
        // As many hosts as may connect while the first one holds the place.
        let connecting = others
            .iter()
            .map(|host| Box::pin(host.wait_until(|seen| seen.connections > 0)));
        let (_, _, connecting) = select_all(connecting).await;
        drop(select_all(connecting).await);
        slow.set_faults(|faults| faults.holds_commands = false);
        slow.release();
    };
    let (first, reconciled, ()) = futures::join!(reconcile_node(&first, &context), after, release);
    assert!(is_as_desired(&slow, &first.unwrap(), &scene.new));
    for (host, reconciled) in others.iter().zip(reconciled) {
        let reconciled = reconciled.unwrap();
        assert_desired(host, &reconciled, &scene.new);
        assert_eq!(host.counters().connections, 1);
    }
    // Three, plus connections whose end the host has not noticed yet.
    let most = scene.fleet.gauges().connections.most();
    assert!(most <= 5, "{most} connections for one place");
}

#[tokio::test]
async fn a_host_that_does_not_go_on_gives_its_place_away_and_is_not_cut_off() {
    let scene = Scene::new();
    let mut context = scene.context(&scene.new);
    context.working = Semaphore::new(1);
    context.place = Duration::ZERO;
    let (slow, other) = (scene.host(), scene.host());
    slow.set_faults(|faults| faults.holds_commands = true);
    let targets = [&slow, &other].map(|host| scene.target(host, &scene.new));
    let after = async {
        slow.wait_until(|seen| seen.held > 0).await.unwrap();
        let reconciled = reconcile_node(&targets[1], &context).await;
        slow.set_faults(|faults| faults.holds_commands = false);
        slow.release();
        reconciled
    };
    let both = Box::pin(async { futures::join!(reconcile_node(&targets[0], &context), after) });
    let both = tokio::time::timeout(Duration::from_secs(60), both).await;
    let (first, second) = both.expect("the first host keeps the only place");
    for (host, reconciled) in [(&slow, first), (&other, second)] {
        let reconciled = reconciled.unwrap();
        assert_desired(host, &reconciled, &scene.new);
    }
}
