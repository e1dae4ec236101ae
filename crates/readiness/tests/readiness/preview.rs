//! What would happen to the pods of a node that is drained, or upgraded in place: `cases/preview.yaml`.

use readiness::assess::{Report, Way, preview};
use readiness::objects::Loader;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cases::objects_of;

/// Each stuck pod, with words of each reason and its nodes.
type StuckPods = Vec<(String, Vec<(String, Vec<String>)>)>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// Objects beside those that all cases have.
    objects: Value,
    #[serde(default)]
    to: Option<String>,
    /// What is stuck when the node is drained.
    drained: StuckPods,
    /// The same, when it is upgraded in place; not compared without.
    #[serde(default)]
    upgraded: Option<StuckPods>,
}

#[derive(Deserialize)]
struct Cases {
    all: Value,
    cases: Vec<Case>,
}

#[test]
fn a_pod_is_stuck_where_no_node_that_may_take_it_can_mount_its_volumes() {
    let Cases { all, cases } = serde_yaml::from_str(include_str!("cases/preview.yaml")).unwrap();
    for case in cases {
        let mut loader = Loader::default();
        for object in objects_of(&all).iter().chain(&objects_of(&case.objects)) {
            let text = |field: &str| object[field].as_str().unwrap();
            loader
                .put(text("apiVersion"), text("kind"), object)
                .unwrap();
        }
        let cluster = loader.finish();
        let target = case.to.as_deref().map(|to| to.parse().unwrap());
        let report = Report::once(&cluster, target);
        let ways = [
            (Way::Away, Some(&case.drained)),
            (Way::Again, case.upgraded.as_ref()),
        ];
        for (way, expected) in ways {
            let Some(expected) = expected else { continue };
            let found = preview(&cluster, &report, "win-1", way).unwrap();
            let pods: Vec<String> = found.stuck.iter().map(|it| it.name.clone()).collect();
            let wanted: Vec<&String> = expected.iter().map(|(name, _)| name).collect();
            assert_eq!(
                pods.iter().collect::<Vec<_>>(),
                wanted,
                "{}: {found:?}",
                case.name
            );
            for (stuck, (_, reasons)) in found.stuck.iter().zip(expected) {
                assert_eq!(
                    stuck.reasons.len(),
                    reasons.len(),
                    "{}: {found:?}",
                    case.name
                );
                for (words, nodes) in reasons {
                    let mut there = stuck.reasons.iter();
                    let is_there = there.any(|it| it.message.contains(words) && it.nodes == *nodes);
                    assert!(is_there, "{}: {words} {nodes:?} in {found:?}", case.name);
                }
            }
        }
    }
}

#[test]
fn a_node_that_is_not_there_or_whose_pods_do_not_count_is_refused() {
    let mut loader = Loader::default();
    let labelled = |name: &str, labels: Value| json!({"like": "win-1", "metadata": {"name": name, "labels": labels}});
    let objects = json!([
        "win-1",
        "linux",
        labelled("win-7", json!({"windowsstorage.dev/ignore": "true"})),
        labelled("win-8", json!({"type": "virtual-node"})),
    ]);
    for object in objects_of(&objects) {
        loader.put("v1", "Node", &object).unwrap();
    }
    let cluster = loader.finish();
    let report = Report::once(&cluster, None);
    for (node, words) in [
        ("win-9", "there is no node win-9"),
        ("n-1", "pods of node n-1 do not count"),
        ("win-7", "pods of node win-7 do not count"),
        ("win-8", "pods of node win-8 do not count"),
    ] {
        let error = preview(&cluster, &report, node, Way::Away).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    let none = preview(&cluster, &report, "win-1", Way::Away).unwrap();
    assert_eq!((none.pods, none.stuck.len()), (0, 0));
}
