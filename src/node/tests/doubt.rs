//! What a rollout may rely on while work on a node has no known end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use simulated_host::Speech;

use super::scene::Scene;
use crate::node::Reason;

impl Scene {
    fn is_unsure(&self) -> bool {
        self.slots
            .decide(|state| (BTreeSet::new(), state.is_unsure("win-1")))
    }
}

#[tokio::test]
async fn a_node_that_cannot_be_looked_at_stays_in_doubt() {
    let scene = Scene::new();
    let host = scene.host_with_old().await;
    scene.slots.restore(["win-1".to_owned()]);
    for said in [
        "ERROR: Insufficient system resources exist to complete the requested service.\r\n",
        "",
    ] {
        let refusal = Speech::Refusal(said.as_bytes().to_vec(), 1);
        host.set_faults(|faults| faults.speech = refusal);
        let problem = scene.problem(&host, &scene.old).await.unwrap();
        assert_eq!(problem.reason, Reason::AgentFailed, "{problem}");
        assert!(scene.is_unsure(), "{said}");
    }
    host.set_faults(|faults| faults.speech = Speech::default());
    assert_eq!(scene.problem(&host, &scene.old).await, None);
    assert!(!scene.is_unsure());
}

#[tokio::test]
async fn a_node_in_the_middle_of_a_request_gets_no_other_one() {
    let scene = Scene::new();
    let host = scene.host_with_old().await;
    let with = |id: &str, flag: &str| {
        let mut target = scene.target(&host, &scene.old);
        let desired = Arc::make_mut(target.desired.as_mut().unwrap());
        let request = &mut desired.request;
        request.id = id.to_owned();
        request.flags.push(flag.to_owned());
        target
    };
    let (first, second) = (with("first", "-v=4"), with("second", "-v=5"));
    host.set_faults(|faults| faults.interruption = Duration::from_secs(3));
    let before = host.interruptions().len();
    let cut = async {
        while host.interruptions().len() == before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        host.cut_connections();
    };
    let (_, ()) = tokio::join!(scene.go_to(&first, &scene.old), cut);
    // The rollout is paused, or has stopped.
    scene.give(&[]);
    let kept = async || {
        let seen = scene.go_to(&second, &scene.old).await.unwrap();
        let state = seen.state.unwrap();
        (state.request_id, seen.problem.map(|problem| problem.reason))
    };
    while let (_, Some(reason)) = kept().await {
        assert_eq!(reason, Reason::CSIProxyFailed);
        assert!(scene.is_unsure(), "it is still at work");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(kept().await, (Some("first".to_owned()), None));
    assert_eq!(host.interruptions().len(), before + 1);
}
