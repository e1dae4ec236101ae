//! Tests of how the gate is reported.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::*;
use crate::assess::report::{Upgradeable, Verdict};
use crate::gate::Decision;

const TYPE: &str = "OperatorConditionWritten";

/// Writes the decided status of `WindowsStorage`, and returns what it says about the gate.
fn reported(rig: &mut Rig, reason: Option<&'static str>) -> Option<String> {
    rig.gate = reason.map(|reason| GateReport {
        is_of_olm: true,
        status: "False",
        reason,
        message: String::new(),
        ..GateReport::default()
    });
    find(&written(rig), TYPE).map(|condition| condition.reason.clone())
}

/// Writes the status of `WindowsStorage` as planned, and returns its conditions.
fn written(rig: &mut Rig) -> Vec<Condition> {
    if let Some((_, status)) = rig.pass().settings.clone() {
        rig.write_settings(status);
    }
    let object = rig.cluster.settings.get(SETTINGS_NAME).unwrap();
    object.status.as_ref().unwrap().conditions.clone()
}

#[test]
fn how_the_gate_stands_is_reported_and_nothing_without_one() {
    let mut rig = Rig::settled();
    for (now, expected) in [
        (Some("NotFound"), Some("NotFound")),
        // The earlier report stays until more is known.
        (Some("Pending"), Some("NotFound")),
        (None, None),
        (Some("Pending"), Some("Pending")),
    ] {
        assert_eq!(reported(&mut rig, now).as_deref(), expected);
    }
}

#[test]
fn without_olm_the_status_says_what_the_gate_says_and_what_was_said_before_is_known() {
    let mut rig = Rig::new();
    rig.add_node("win-1", "windows");
    assert_eq!(rig.pass().judged.was_held, None);
    let held = upgradeable("False", "DriversMissing");
    rig.write_settings(held);
    rig.read_verdict_kinds();
    rig.finish_configuration();
    let written = Decision::of(Verdict {
        upgradeable: Upgradeable::False,
        reason: Reason::DriversMissing,
        message: "what held upgrades is gone".to_owned(),
    });
    let plan = rig.pass();
    assert_eq!(plan.judged.was_held, Some(true));
    rig.gate = Some(GateReport {
        is_of_olm: false,
        status: "True",
        reason: "Confirmed",
        message: String::new(),
        decided: Some((plan.judged.verdict.clone(), written)),
        ..GateReport::default()
    });
    let (_, status) = rig.pass().settings.clone().unwrap();
    let said = find(&status.conditions, UPGRADEABLE).unwrap();
    assert_eq!(said.message, "What held upgrades is gone");
    assert!(status.conditions.iter().all(|said| said.type_ != TYPE));
    // What this process writes itself is nothing that it found.
    rig.write_settings(upgradeable("True", "NoInTreeVolumes"));
    assert_eq!(rig.pass().judged.was_held, Some(true));
}

fn upgradeable(status: &str, reason: &str) -> WindowsStorageStatus {
    let condition = json!({"type": "Upgradeable", "status": status, "reason": reason, "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    serde_json::from_value(json!({"conditions": [condition]})).unwrap()
}

#[test]
fn it_is_reported_while_the_cluster_cannot_be_read() {
    let mut rig = Rig::new();
    rig.add_node("win-1", "windows");
    rig.read_verdict_kinds();
    rig.finish_configuration();
    rig.cluster.pods = crate::index::Table::default();
    rig.cluster.pods.fail("reading it is forbidden".to_owned());
    for reason in [Some("Forbidden"), Some("NotFound"), None] {
        assert_eq!(reported(&mut rig, reason).as_deref(), reason);
    }
}

/// Policies go by the status alone.
#[test]
fn a_verdict_that_holds_is_written_whatever_else_cannot_be_read() {
    let fails: [fn(&mut Rig); 2] = [
        |rig| {
            rig.cluster.config_maps.fail("forbidden".to_owned());
        },
        |rig| {
            rig.cluster.node_statuses.fail("forbidden".to_owned());
        },
    ];
    for fail in fails {
        let mut rig = Rig::new();
        rig.add_node("win-1", "windows");
        rig.put(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"nodeName": "win-1", "containers": [],
                "volumes": [{"name": "data", "azureFile": {"secretName": "s", "shareName": "s"}}]}}));
        rig.read_verdict_kinds();
        rig.write_settings(upgradeable("True", "NoInTreeVolumes"));
        assert!(rig.pass().settings.is_none(), "its first lists may run");
        fail(&mut rig);
        let (_, status) = rig.pass().settings.clone().unwrap();
        let said = find(&status.conditions, UPGRADEABLE).unwrap();
        assert_eq!(said.reason, "DriversMissing");
    }
}

#[test]
fn a_verdict_does_not_stand_for_ever_while_something_cannot_be_read() {
    let mut rig = Rig::settled();
    let after = |rig: &mut Rig, seconds| rig.pass_after(seconds).judged.verdict.reason;
    assert_eq!(after(&mut rig, 0), Reason::NoInTreeVolumes);
    rig.cluster.pods.fail("reading it is forbidden".to_owned());
    assert_eq!(after(&mut rig, 1), Reason::NoInTreeVolumes);
    assert_eq!(after(&mut rig, 119), Reason::NoInTreeVolumes, "for a while");
    assert_eq!(after(&mut rig, 1), Reason::ReadinessUnknown);
    let todo = rig.pass_after(1);
    assert!(!todo.is_complete || todo.judged.verdict.message.contains("Pod"));
    rig.cluster.pods.finish();
    assert_eq!(after(&mut rig, 1), Reason::NoInTreeVolumes);
    rig.cluster.pods.fail("reading it is forbidden".to_owned());
    assert_eq!(after(&mut rig, 1), Reason::NoInTreeVolumes, "a while again");
}

#[test]
fn upgrades_are_held_for_as_long_as_the_gate_holds_them_whatever_the_verdict_is() {
    let mut rig = Rig::settled();
    let false_at = rig.history.turned.false_at;
    let mut said =
        |on: Option<Verdict>, reason: &'static str, decided: Option<(Upgradeable, Reason)>| {
            let on = on.unwrap_or_else(|| rig.last.judged.verdict.clone());
            rig.gate = Some(GateReport {
                is_of_olm: true,
                status: "True",
                reason,
                message: String::new(),
                decided: decided.map(|(upgradeable, reason)| {
                    let mut decision = Decision::of(Verdict {
                        upgradeable,
                        reason,
                        message: "the gate's".to_owned(),
                    });
                    decision.false_at = false_at;
                    (on, decision)
                }),
                ..GateReport::default()
            });
            let conditions = written(&mut rig);
            let found = find(&conditions, UPGRADEABLE).unwrap();
            (found.status.clone(), found.reason.clone())
        };
    let is = |status: &str, reason: &str| (status.to_owned(), reason.to_owned());
    let held = Some((Upgradeable::False, Reason::DriversMissing));
    assert_eq!(said(None, "Confirmed", held), is("False", "DriversMissing"));
    // From a process that has not read the gate yet, or is not done with it.
    assert_eq!(said(None, "Pending", None), is("False", "DriversMissing"));
    let open = Some((Upgradeable::True, Reason::NoInTreeVolumes));
    assert_eq!(said(None, "Confirmed", open), is("True", "NoInTreeVolumes"));
    // What is decided counts, whether it can be written or not.
    for reason in ["WriteFailed", "NotServed"] {
        assert_eq!(said(None, reason, held), is("False", "DriversMissing"));
        assert_eq!(said(None, reason, open), is("True", "NoInTreeVolumes"));
    }
    // What it decided on an earlier verdict says nothing about this one.
    let earlier = Verdict {
        upgradeable: Upgradeable::False,
        reason: Reason::ReadinessUnknown,
        message: String::new(),
    };
    let unsaid = said(Some(earlier), "Confirmed", held);
    assert_eq!(unsaid, is("True", "NoInTreeVolumes"));
    assert_eq!(said(None, "Confirmed", held), is("False", "DriversMissing"));
    // The gate has not seen that the verdict was False after it wrote this.
    rig.history.turned.false_at = Some(rig.instant);
    let gate = rig.gate.as_mut().unwrap();
    let (_, decided) = gate.decided.as_mut().unwrap();
    decided.verdict = rig.last.judged.verdict.clone();
    assert!(rig.pass().settings.is_none(), "it stays False");
}

#[test]
fn a_new_object_does_not_say_that_upgrades_are_safe_before_the_gate_has_decided() {
    let mut rig = Rig::settled();
    reported(&mut rig, None);
    rig.write_settings(WindowsStorageStatus::default());
    reported(&mut rig, Some("Pending"));
    let conditions = written(&mut rig);
    assert!(find(&conditions, "NodesReady").is_some());
    assert!(find(&conditions, UPGRADEABLE).is_none());
}
