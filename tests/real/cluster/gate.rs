//! Problems with the `OperatorCondition`: the rest of the work continues, the problem is reported, and the gate
//! recovers by itself.

use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use testbed::objects::{self, NAMESPACE, OPERATOR_CONDITION};
use windows_storage_operator::api::OperatorCondition;
use windows_storage_operator::assess::report::{Reason, Upgradeable, Verdict};
use windows_storage_operator::client::Revisions;
use windows_storage_operator::gate::{Decision, GateError, GateObject};

use crate::cluster::harness::{Harness, SETTINGS, assert_has, client_of};

const WRITTEN: &str = "OperatorConditionWritten";
const CRD: &str = "operatorconditions.operators.coreos.com";

impl Harness {
    fn expect_written(&self, status: &str, reason: &str) -> String {
        self.expect(SETTINGS, WRITTEN, status, reason)
    }

    /// Returns the answer to `/readyz?verbose` from the operator that was started last.
    pub fn readyz(&self) -> String {
        self.get_http("readyz?verbose")
    }

    pub fn expect_readyz(&self, code: &str, part: &str) {
        let mut last = String::new();
        self.eventually(&format!("/readyz says {code} with {part:?}"), || {
            last = self.readyz();
            last.starts_with(&format!("HTTP/1.1 {code}")) && last.contains(part)
        });
    }

    fn change_operator_condition(&self, spec: &Value) {
        let object = format!("operatorcondition/{OPERATOR_CONDITION}");
        self.patch(&object, &json!({"spec": spec}));
    }
}

const SERVED: &[&str] = &["--serve-address=127.0.0.1:0"];

#[test]
fn an_object_that_is_not_there_or_may_not_be_written_is_told_and_all_else_goes_on() {
    let harness = Harness::held();
    let control_plane = harness.control_plane();
    let object = format!("operatorcondition/{OPERATOR_CONDITION}");
    harness.delete(&object);
    let _operator = harness.start_with_arguments(SERVED);
    let message = harness.expect_written("False", "NotFound");
    assert!(message.contains(OPERATOR_CONDITION) && message.contains("--operator-condition"));
    harness.expect_event("WindowsStorage/cluster", "NotFound");
    harness.expect_readyz(
        "503",
        "[-]operatorcondition failed: there is no OperatorCondition",
    );
    let brief = harness.get_http("readyz");
    assert!(
        brief.contains("[-]operatorcondition failed: reason withheld\n")
            && !brief.contains(OPERATOR_CONDITION),
        "{brief}"
    );
    let metrics = harness.get_http("metrics");
    assert_has(&metrics, &["winstorage_operator_condition_written{} 0"]);
    // The rest of the work continues.
    harness.expect(
        "windowsnodestorage/win-1",
        "DriversRegistered",
        "False",
        "DriversMissing",
    );
    harness.expect(SETTINGS, "Upgradeable", "False", "DriversMissing");

    control_plane.apply(&objects::operator_condition()).unwrap();
    harness.expect_gate("False", "DriversMissing", &["pod shop/web-0"]);
    harness.expect_readyz("200", "ok");
    let metrics = harness.get_http("metrics");
    assert_has(&metrics, &["winstorage_operator_condition_written{} 1"]);

    // Deleted while the operator runs: noticed when the next verdict is written.
    harness.delete(&object);
    harness.register("win-1", true);
    harness.expect_written("False", "NotFound");
    harness.expect_readyz("503", "operatorcondition failed");
    control_plane.apply(&objects::operator_condition()).unwrap();
    harness.expect_open();

    // The permission is removed and granted again.
    let binding = format!("rolebinding/{OPERATOR_CONDITION}");
    harness.kubectl(&format!("delete {binding} --namespace {NAMESPACE}"));
    harness.register("win-1", false);
    let message = harness.expect_written("False", "Forbidden");
    assert!(message.contains("get, update and patch"), "{message}");
    control_plane.apply(&objects::operator_condition()).unwrap();
    harness.expect_gate("False", "DriversMissing", &["pod shop/web-0"]);

    // Another manager's condition.
    let stale = json!({"type": "Stale", "status": "True", "reason": "Old", "message": "",
        "lastTransitionTime": "2024-01-01T00:00:00Z"});
    harness.patch_status(SETTINGS, &json!({"status": {"conditions": [stale]}}));
    harness.eventually("only the operator's own conditions are there", || {
        let status = &harness.get(SETTINGS)["status"];
        !status["conditions"].to_string().contains("Stale")
    });
    harness.expect(SETTINGS, "Upgradeable", "False", "DriversMissing");
}

#[test]
fn an_object_without_spec_is_written_and_one_of_another_operator_is_not() {
    let harness = Harness::held();
    let control_plane = harness.control_plane();
    let object = format!("operatorcondition/{OPERATOR_CONDITION}");
    let owned_by = |csv: &str| {
        let owner = json!([{
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "name": csv, "uid": "5f2c8a1e-0000-4000-8000-000000000001",
        }]);
        harness.patch(&object, &json!({"metadata": {"ownerReferences": owner}}));
    };
    harness.delete(&object);
    control_plane
        .apply(&format!(
            "apiVersion: operators.coreos.com/v2\nkind: OperatorCondition\nmetadata: {{name: {OPERATOR_CONDITION}, namespace: {NAMESPACE}}}\n"
        ))
        .unwrap();
    owned_by("windows-machine-config-operator.v10.18.3");
    let _operator = harness.start_with_arguments(SERVED);
    let message = harness.expect_written("False", "NotOurs");
    assert_has(&message, &["windows-machine-config-operator.v10.18.3"]);
    harness.expect_readyz("503", "another operator's");
    assert!(harness.get(&object)["spec"].is_null());
    owned_by("windows-storage-operator.v0.1.0");
    harness.expect_gate("False", "DriversMissing", &["pod shop/web-0"]);
    harness.expect_readyz("200", "ok");
}

#[test]
fn without_olm_or_with_one_that_is_too_old_that_is_said_until_it_is_there() {
    let harness = Harness::held();
    let served = |served: bool| {
        let change = json!({"op": "replace", "path": "/spec/versions/1/served", "value": served});
        let patch = json!([change]).to_string();
        harness.kubectl_with(&["patch", "crd", CRD, "--type=json", "-p", &patch]);
    };
    let versions =
        harness.kubectl_with(&["get", "crd", CRD, "-o", "jsonpath={.spec.versions[1].name}"]);
    assert_eq!(versions, "v2");
    served(false);
    let _operator = harness.start_with_arguments(SERVED);
    let message = harness.expect_written("False", "NotServed");
    assert!(message.contains("operators.coreos.com/v2"), "{message}");
    harness.expect_readyz("503", "[-]operatorcondition failed");
    harness.expect(SETTINGS, "Upgradeable", "False", "DriversMissing");
    served(true);
    harness.expect_gate("False", "DriversMissing", &[]);

    harness.kubectl(&format!("delete crd {CRD}"));
    harness.register("win-1", true);
    harness.expect_written("False", "NotServed");
    harness.expect(SETTINGS, "Upgradeable", "True", "DriversRegistered");
}

#[test]
fn what_others_do_to_the_condition_is_undone_and_told() {
    let harness = Harness::held();
    let operator = harness.start_with_arguments(SERVED);
    harness.expect_gate("False", "DriversMissing", &[]);
    let condition = |type_: &str, status: &str| {
        json!({"type": type_, "status": status, "reason": "Hurry", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let (theirs, open) = (
        condition("Theirs", "Unknown"),
        condition("Upgradeable", "True"),
    );
    for _ in 0..3 {
        harness.change_operator_condition(&json!({"conditions": [theirs, open]}));
        harness.expect_gate("False", "DriversMissing", &["pod shop/web-0"]);
    }
    let message = harness.expect_written("False", "Contested");
    assert_has(&message, &["Only this operator may write it"]);
    harness.expect_readyz("200", "ok");
    let conditions =
        &harness.get(&format!("operatorcondition/{OPERATOR_CONDITION}"))["spec"]["conditions"];
    assert_eq!(
        conditions[0]["type"], "Theirs",
        "others' conditions are kept"
    );
    assert_eq!(conditions.as_array().unwrap().len(), 2);
    assert!(operator.terminate().unwrap().success());

    // Written while no operator ran: the next one corrects it before anything else.
    harness.change_operator_condition(&json!({"conditions": [open]}));
    let accepted = json!({"type": "Upgradeable", "status": "True", "reason": "Accepted", "message": "we know"});
    harness.change_operator_condition(&json!({"overrides": [accepted]}));
    let _operator = harness.start_with_arguments(SERVED);
    harness.expect_gate("False", "DriversMissing", &[]);
    let message = harness.expect_written("True", "Overridden");
    assert!(message.contains("spec.overrides"), "{message}");
    harness.expect_event("WindowsStorage/cluster", "Overridden");
    harness.change_operator_condition(&json!({"overrides": []}));
    harness.register("win-1", true);
    harness.expect_open();
    harness.eventually("the override is no longer told", || {
        harness.condition(SETTINGS, WRITTEN).1 != "Overridden"
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn who_writes_at_the_same_time_loses_nothing_and_neither_does_the_gate() {
    let harness = Harness::new();
    let control_plane = harness.control_plane();
    let kubeconfig = control_plane
        .kubeconfig_for_service_account(NAMESPACE, "windows-storage-operator")
        .unwrap();
    let client = client_of(&kubeconfig).await;
    let api: Api<OperatorCondition> = Api::namespaced(client.clone(), NAMESPACE);
    let others = tokio::spawn(write_others_conditions(api.clone()));

    let name = OPERATOR_CONDITION.to_owned();
    let gate = GateObject::new(client, NAMESPACE, name, Revisions::default());
    let mut contended = 0;
    let mut number = 0;
    while !others.is_finished() || contended == number {
        number += 1;
        let verdict = Verdict {
            upgradeable: Upgradeable::False,
            reason: Reason::DriversMissing,
            message: format!("message {number}"),
        };
        let decision = Decision::of(verdict);
        match gate.ensure(&decision, |_| true).await {
            Ok(_) => {
                let object = api.get(OPERATOR_CONDITION).await.unwrap();
                let ours = object.spec.conditions.iter();
                let mut ours = ours.filter(|value| value["type"] == "Upgradeable");
                assert_eq!(ours.next().unwrap()["message"], decision.verdict.message);
                assert!(ours.next().is_none());
            }
            Err(error) => {
                let is_conflict = matches!(&error, GateError::Call(call) if call.is_conflict());
                assert!(is_conflict, "{error}");
                contended += 1;
            }
        }
    }
    let written = others.await.unwrap();
    let object = api.get(OPERATOR_CONDITION).await.unwrap();
    let theirs = object
        .spec
        .conditions
        .iter()
        .find(|value| value["type"] == "Theirs");
    assert_eq!(theirs.unwrap()["message"], format!("{written}"));
    let conflicts = harness.requests().into_iter();
    let conflicts = conflicts.filter(|request| request.verb == "patch" && request.code == 409);
    assert!(conflicts.count() > 0, "nobody has got in between");
    // A decision that is no longer valid when the object has been read is not written.
    let verdict = Verdict {
        upgradeable: Upgradeable::True,
        reason: Reason::NoInTreeVolumes,
        message: "open".to_owned(),
    };
    let open = Decision::of(verdict);
    assert!(gate.ensure(&open, |_| false).await.unwrap().is_none());
    let after = api.get(OPERATOR_CONDITION).await.unwrap();
    assert_eq!(after.spec.conditions, object.spec.conditions);
}

/// Writes a condition of another type a hundred times, by replacing the whole object. Returns the last number written.
async fn write_others_conditions(api: Api<OperatorCondition>) -> u32 {
    for number in 1..=100 {
        loop {
            let mut object = api.get(OPERATOR_CONDITION).await.unwrap();
            let conditions = &mut object.spec.conditions;
            conditions.retain(|value| value["type"] != "Theirs");
            conditions.push(json!({
                "type": "Theirs", "status": "Unknown", "reason": "Counting", "message": format!("{number}"),
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }));
            let written = api
                .replace(OPERATOR_CONDITION, &PostParams::default(), &object)
                .await;
            if matches!(&written, Err(kube::Error::Api(status)) if status.code == 409) {
                continue;
            }
            written.unwrap();
            break;
        }
    }
    100
}
