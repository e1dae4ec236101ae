//! Tests of settings that differ by pool.

use super::rig::said;
use super::*;
use crate::status::has_accepted;

/// Nodes `win-1` and `win-2` in pool blue, and `win-3` without a pool.
fn pools(blue: &Value) -> Rig {
    let mut rig = Rig::settled();
    for name in ["win-2", "win-3"] {
        rig.add_node(name, "windows");
    }
    for name in ["win-1", "win-2"] {
        rig.label(name, "pool", "blue");
    }
    rig.want_pool(blue);
    rig.pass();
    rig
}

fn with_its_own_key() -> Value {
    json!({"ssh": {"privateKeySecretRef": {"name": "cloud-private-key", "key": "blue.pem"}}})
}

impl Rig {
    fn want_pool(&mut self, blue: &Value) {
        let mut pool = json!({"name": "blue", "nodeSelector": {"pool": "blue"}});
        let fields = blue.as_object().unwrap().clone();
        pool.as_object_mut().unwrap().extend(fields);
        self.want(&json!({"nodePools": [pool]}));
    }

    fn target(&self, node: &str) -> &crate::node::Target {
        match &self.last.nodes[node] {
            NodePlan::Reconcile(Ok(target)) => target,
            other => panic!("{node}: {other:?}"),
        }
    }
}

#[test]
fn a_pool_has_its_own_user_port_and_owner() {
    let mut rig = pools(&json!({"ssh": {"user": "ops", "port": 2222}}));
    let way = |rig: &Rig, node: &str| {
        let target = rig.target(node);
        (target.user.clone(), target.port)
    };
    assert_eq!(way(&rig, "win-1"), ("ops".to_owned(), 2222));
    assert_eq!(way(&rig, "win-3"), ("Administrator".to_owned(), 22));
    let status = |todo: &Plan, name: &str| todo.statuses.by_name[name].status.node_pool.clone();
    let todo = rig.pass();
    assert_eq!(status(&todo, "win-1"), "blue");
    assert_eq!(status(&todo, "win-3"), "");

    rig.want_pool(&json!({"management": "External"}));
    rig.pass();
    assert!(!rig.last.nodes["win-1"].is_managed());
    assert!(rig.last.nodes["win-3"].is_managed());
    // A node that changes its labels changes its pool.
    rig.change_node("win-1", |node| node.labels = [].into());
    rig.pass();
    assert!(rig.last.nodes["win-1"].is_managed());
}

#[test]
fn a_pool_without_its_key_waits_and_the_others_go_on() {
    let mut rig = pools(&with_its_own_key());
    let is_blocked = |rig: &Rig, node: &str| match &rig.last.nodes[node] {
        NodePlan::Reconcile(Err(error)) => error.message.contains("has no key blue.pem"),
        _ => false,
    };
    assert!(is_blocked(&rig, "win-1") && is_blocked(&rig, "win-2"));
    assert!(!is_blocked(&rig, "win-3"));
    let key = rig.ssh_secret().remove("private-key.pem").unwrap();
    rig.ssh_secret().insert("blue.pem".to_owned(), key);
    rig.pass();
    assert!(rig.target("win-1").key.pem().contains("PRIVATE KEY"));
    assert!(matches!(
        &rig.last.nodes["win-3"],
        NodePlan::Reconcile(Err(error)) if error.message.contains("has no key private-key.pem")
    ));
}

#[test]
fn a_pool_with_a_limit_of_its_own_is_counted_apart() {
    let mut rig = pools(&json!({"rollout": {"maxUnavailable": 2}}));
    let all = ["win-1", "win-2", "win-3"];
    for name in all {
        rig.see(name, Standing::Waiting);
    }
    assert_eq!(rig.slots(), all);
    let progress = rig.last.rollout.pools["blue"];
    assert_eq!((progress.nodes, progress.waiting), (2, 2));
    // Without its own limit, the pool shares the global one.
    rig.want_pool(&json!({}));
    let few = rig.slots();
    assert_eq!(few.len(), 1, "{few:?}");
    // A failure in a pool with its own limit stops only that pool.
    rig.want_pool(&json!({"rollout": {"maxUnavailable": 2}}));
    rig.see("win-1", Standing::Failed);
    assert_eq!(rig.slots(), ["win-3"]);
    rig.see("win-1", Standing::Waiting);
    rig.pass();
    // A pause applies only to its pool.
    rig.want_pool(&json!({"rollout": {"paused": true}}));
    assert_eq!(rig.slots(), ["win-3"]);
}

#[test]
fn how_pools_fit_is_told_and_follows_the_labels() {
    let mut rig = pools(&json!({}));
    let blue = json!({"name": "blue", "nodeSelector": {"pool": "blue"}});
    let first = json!({"name": "first", "nodeSelector": {"pool": "blue", "first": "yes"}});
    rig.want(&json!({"nodePools": [first, blue]}));
    let (reason, message) = said(&rig.pass(), "NodePoolsValid").unwrap();
    assert!(
        reason == "WithoutNodes" && message.contains("first"),
        "{message}"
    );
    rig.change_node("win-2", |node| {
        node.labels = [
            ("first".into(), "yes".into()),
            ("pool".into(), "blue".into()),
        ]
        .into();
    });
    let (reason, message) = said(&rig.pass(), "NodePoolsValid").unwrap();
    assert!(
        reason == "Overlapping" && message.contains("win-2"),
        "{message}"
    );
    assert_eq!(rig.last.rollout.pools["first"].nodes, 1);
    // A pool whose nodes all belong to earlier ones has none.
    let all = json!({"name": "all", "nodeSelector": {"pool": "blue"}});
    rig.want(&json!({"nodePools": [first, blue, all]}));
    let (_, message) = said(&rig.pass(), "NodePoolsValid").unwrap();
    assert!(
        message.contains("no Windows node is in pool(s) all"),
        "{message}"
    );
    rig.want(&json!({}));
    assert_eq!(said(&rig.pass(), "NodePoolsValid"), None);
}

#[test]
fn while_a_key_is_changed_the_nodes_that_have_not_taken_it_are_named() {
    let mut rig = pools(&json!({}));
    let secret = rig.ssh_secret();
    let old = secret["private-key.pem"].clone();
    let new = Zeroizing::new(PrivateKey::new_pem());
    secret.insert("private-key.pem".to_owned(), new);
    secret.insert("private-key.pem.previous".to_owned(), old);
    let (reason, message) = said(&rig.pass(), "CredentialsValid").unwrap();
    // It is unknown which key nodes without a login since then accept.
    assert!(
        reason == "KeyChanging" && message.contains("3 managed node(s)"),
        "{message}"
    );
    let id = rig.target("win-1").key.id().to_owned();
    for name in ["win-1", "win-2", "win-3"] {
        let seen = Observation {
            ssh_key: id.clone(),
            ..Observation::default()
        };
        rig.observations.insert(name.to_owned(), seen);
        let todo = rig.pass();
        let status = todo.statuses.by_name[name].status.clone();
        assert!(has_accepted(&status, &id));
        rig.write(name, status);
    }
    let (reason, _) = said(&rig.pass(), "CredentialsValid").unwrap();
    assert_eq!(reason, "Valid");
    // A damaged previous key is reported, and nothing waits for it.
    let damaged = Zeroizing::new(b"no key".to_vec());
    let secret = rig.ssh_secret();
    secret.insert("private-key.pem.previous".to_owned(), damaged);
    let (reason, message) = said(&rig.pass(), "CredentialsValid").unwrap();
    assert!(
        reason == "InvalidPrivateKey" && message.contains(".previous"),
        "{message}"
    );
    assert_eq!(rig.target("win-1").key.id(), id);
}

#[test]
fn a_key_that_only_nodes_of_others_would_need_is_not_missed() {
    let mut rig = pools(&with_its_own_key());
    let (reason, message) = said(&rig.pass(), "CredentialsValid").unwrap();
    assert!(
        reason == "CredentialsMissing" && message.contains("blue.pem"),
        "{message}"
    );
    let mut external = with_its_own_key();
    external["management"] = json!("External");
    rig.want_pool(&external);
    let (reason, _) = said(&rig.pass(), "CredentialsValid").unwrap();
    assert_eq!(reason, "Valid");
}

#[test]
fn a_node_that_is_down_takes_its_place_also_where_its_key_is_gone() {
    let mut rig = pools(&json!({}));
    for name in ["win-2", "win-3"] {
        rig.see(name, Standing::Waiting);
    }
    rig.see("win-1", Standing::NotInstalled);
    let down = protocol::NodeState {
        request_id: Some("kept".to_owned()),
        ..protocol::NodeState::default()
    };
    rig.observations.get_mut("win-1").unwrap().state = Some(down);
    assert_eq!(rig.slots(), [""; 0]);
    rig.want_pool(&with_its_own_key());
    rig.pass();
    assert!(matches!(
        rig.last.nodes["win-1"],
        NodePlan::Reconcile(Err(_))
    ));
    assert_eq!(rig.slots(), [""; 0]);
}
