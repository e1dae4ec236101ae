//! When a worker reconciles its node.

use super::*;
use crate::node::payload::Payload;
use crate::node::{HostKey, RolloutSlots};

fn assignment(has_slot: bool) -> Assignment {
    Assignment {
        target: Arc::new(Target::of_test_host(22)),
        has_slot,
    }
}

fn assignment_like(known: &Assignment, has_slot: bool) -> Assignment {
    Assignment {
        has_slot,
        ..known.clone()
    }
}

#[test]
fn only_news_of_others_call_for_a_reconcile() {
    let known = assignment(false);
    let new = |change: fn(&mut Target)| {
        let mut new = known.clone();
        change(Arc::make_mut(&mut new.target));
        new
    };
    let same = |new: &Assignment| is_same(&known.target, Some(new));
    assert!(same(&known) && same(&assignment_like(&known, true)));
    assert!(!is_same(&known.target, None));
    assert!(!same(&new(|target| target.boot_id = "other".to_owned())));
    let pinned = |key: &[u8]| {
        let mut new = known.clone();
        let target = Arc::make_mut(&mut new.target);
        target.host_keys.pin = Some(HostKey::new("ssh-ed25519", key));
        new
    };
    assert!(
        same(&pinned(b"one")),
        "the reconcile itself has pinned the key"
    );
    assert!(!is_same(&pinned(b"one").target, Some(&pinned(b"two"))));
    let shared = new(|target| target.host_keys.address_of = Some("win-2".to_owned()));
    assert!(
        !is_same(&shared.target, Some(&known)),
        "it was refused while the other had its address"
    );
}

#[tokio::test]
async fn a_slot_is_news_to_who_was_refused_one_and_to_nobody_else() {
    let known = assignment(true);
    let (sender, mut assignments) = watch::channel(None);
    let hour = Duration::from_secs(3_600);
    // While it connected, the slot moved to another node, and then perhaps back.
    for (slot, waits) in [(false, true), (true, true), (true, false)] {
        sender.send(Some(assignment_like(&known, slot))).unwrap();
        assignments.borrow_and_update();
        let waiting = wait(&mut assignments, &known.target, waits, hour);
        let waited = timeout(Duration::from_millis(200), waiting).await;
        assert_eq!(waited.is_ok(), slot && waits);
    }
}

#[tokio::test]
async fn a_node_that_goes_while_it_is_reconciled_ends_its_task() {
    // A host that accepts connections and never sends a byte.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target::of_test_host(listener.local_addr().unwrap().port());
    let interval = Duration::from_secs(300);
    let observations = Observations::default();
    let context = Context::of_test(&Payload::of_test(), &RolloutSlots::default());
    let mut workers = Workers::new(context, observations.clone(), Metrics::default(), interval);
    let plan = NodePlan::Reconcile(Ok(Arc::new(target)));
    let nobody = BTreeSet::new();
    let plans = BTreeMap::from([("win-1".to_owned(), plan)]);
    workers.assign(&plans, &nobody);
    // The host keeps accepting connections, so a task that continues would find it as silent as before.
    let held = tokio::task::spawn_blocking(move || (listener.accept().unwrap(), listener))
        .await
        .unwrap();
    workers.assign(&BTreeMap::new(), &nobody);
    let ended = tokio::time::timeout(Duration::from_secs(10), workers.tasks.join_next()).await;
    assert!(
        ended.unwrap().is_some(),
        "the task goes on for a node that is gone"
    );
    assert!(observations.read().is_empty());
    let mut ended = std::pin::pin!(workers.ended());
    let none = tokio::time::timeout(Duration::from_millis(20), &mut ended).await;
    assert!(none.is_err(), "what was to end is no fault");
    drop(held);
}
