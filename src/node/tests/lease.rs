//! A process that loses the lease at any point of a reconcile begins nothing more on the node, and the next leader
//! brings the node to its desired state.

use super::scene::{Scene, assert_desired, expect_whole, is_as_desired, programs_on};
use crate::lease::Fence;
use crate::node::reconcile_node;

/// Requests that begin a change on a node. Writes follow from opening the file.
const CHANGES: [&str; 3] = ["sftp open", "sftp remove", "sftp mkdir"];
/// How many of them may be in flight already: a file is opened while a command starts.
const ON_ITS_WAY: usize = 1;

#[tokio::test]
async fn whenever_the_lease_ends_nothing_more_is_begun_on_the_node() {
    let scene = Scene::new();
    let before = scene.host_with_old().await;
    let uncut = scene.host();
    uncut.copy_from(&before);
    let reconciled = scene.go(&uncut, &scene.new).await.unwrap();
    assert_desired(&uncut, &reconciled, &scene.new);
    let all = uncut.counters().requests;
    let whole = [programs_on(&before), programs_on(&uncut)];
    let mut stopped = 0;
    for k in 1..=all {
        let host = scene.host();
        host.copy_from(&before);
        host.hold_at(k);
        let mut context = scene.context(&scene.new);
        context.fence = Fence::closed();
        context.fence.win();
        let fence = context.fence.clone();
        let target = scene.target(&host, &scene.new);
        let reconciling = tokio::spawn(async move { reconcile_node(&target, &context).await });
        host.wait_until(|seen| seen.held == 1).await.unwrap();
        let so_far = host.requests().len();
        fence.close();
        host.release();
        let reconciled = reconciling.await.unwrap();
        let requests = host.requests();
        let place = format!("request {k}, {}", requests[so_far - 1]);
        let later = &requests[so_far..];
        let changes = later.iter().filter(|name| CHANGES.contains(name)).count();
        assert!(changes <= ON_ITS_WAY, "{place}: {later:?}");
        assert!(!later.contains(&"command"), "{place}: {later:?}");
        let problem = reconciled.map_or_else(Some, |reconciled| reconciled.problem);
        let is_stopped = problem.is_some_and(|error| error.message.contains("lease"));
        stopped += usize::from(is_stopped);
        expect_whole(&host, &whole, &place);
        let next = scene.go(&host, &scene.new).await.unwrap();
        assert!(is_as_desired(&host, &next, &scene.new), "{place}: {next:?}");
    }
    // The last requests only end the session.
    assert!(
        stopped + 8 > usize::try_from(all).unwrap(),
        "stopped at {stopped} of {all}"
    );
}
