//! Tests of findings and their advice, on objects as Kubernetes writes them: `cases/findings.yaml` and
//! `cases/daemon_sets.yaml`.

use readiness::assess::{assess_once, codes};
use readiness::index::ReadFrom;
use readiness::objects::Loader;
use serde_json::{Value, json};

use crate::cases;

/// Returns what `check` says of the objects.
pub fn report(objects: &[Value], live: bool, to: Option<&str>) -> Value {
    let mut loader = Loader::default();
    for object in objects {
        let text = |field: &str| object[field].as_str().unwrap();
        let put = loader.put(text("apiVersion"), text("kind"), object);
        put.unwrap();
    }
    let mut cluster = loader.finish();
    if live {
        cluster.read_from = ReadFrom::Api;
    }
    let target = to.map(|to| to.parse().unwrap());
    serde_json::to_value(assess_once(&cluster, target)).unwrap()
}

/// Returns the findings of the node, of a driver or of the report.
fn at<'a>(report: &'a Value, place: &str) -> &'a [Value] {
    let mut drivers = report["drivers"].as_array().unwrap().iter();
    let row = match place {
        "report" => report,
        "node" => &report["nodes"][0],
        driver => drivers.find(|row| row["name"] == driver).unwrap(),
    };
    row["findings"].as_array().unwrap()
}

/// Returns all findings of a report.
fn all(report: &Value) -> Vec<&Value> {
    let rows = ["nodes", "drivers"].map(|part| report[part].as_array().unwrap());
    let rows = rows.into_iter().flatten().chain([report]);
    let findings = rows.flat_map(|row| row["findings"].as_array().unwrap());
    findings.collect()
}

#[test]
fn a_command_in_a_message_is_there_to_be_copied() {
    let mut commands = 0;
    for case in cases::findings() {
        let report = report(&case.objects, case.live, case.to.as_deref());
        for finding in all(&report) {
            let message = finding["message"].as_str().unwrap();
            let problem = match finding["command"].as_str() {
                Some(command) => message.strip_suffix(&format!(": {command}")),
                None => Some(message),
            };
            let problem = problem.unwrap_or_else(|| unreachable!("{}: {finding}", case.name));
            for tool in ["kubectl ", "oc "] {
                assert!(!problem.contains(tool), "{}: {finding}", case.name);
            }
            commands += usize::from(problem != message);
        }
    }
    assert!(commands > 20, "{commands}");
}

#[test]
fn each_case_has_the_findings_that_it_says_and_none_of_which_it_is_silent() {
    for case in cases::findings() {
        let (name, report) = (
            &case.name,
            report(&case.objects, case.live, case.to.as_deref()),
        );
        assert!(case.says.len() + case.silent.len() > 0, "{name}");
        for said in &case.says {
            let [place, code, object, words @ ..] = &said[..] else {
                unreachable!("{name}: {said:?}");
            };
            let findings = at(&report, place).iter();
            let findings: Vec<_> = findings.filter(|it| it["code"] == **code).collect();
            let all_said = case.says.iter().filter(|it| it[..2] == said[..2]);
            assert_eq!(
                findings.len(),
                all_said.count(),
                "{name}: {code} in {report}"
            );
            let found = findings.iter().find(|it| it["object"] == **object);
            let found = found.unwrap_or_else(|| unreachable!("{name}: {object} in {report}"));
            let message = found["message"].as_str().unwrap();
            for word in words {
                let absent = word.strip_prefix("NOT ");
                let is_there = message.contains(absent.unwrap_or(word));
                assert_eq!(
                    is_there,
                    absent.is_none(),
                    "{name}: {word:?} in {message:?}"
                );
            }
        }
        for silent in &case.silent {
            for code in &silent[1..] {
                let is_known = codes::CODES.iter().any(|(known, _)| known == code);
                assert!(is_known || code == "any", "{code}");
                let findings = at(&report, &silent[0]);
                let found = findings
                    .iter()
                    .find(|it| it["code"] == **code || code == "any");
                assert_eq!(found, None, "{name}");
            }
        }
    }
}

#[test]
fn the_pod_of_another_driver_changes_nothing_about_this_one() {
    let object = |written: Value| {
        cases::objects_of(&json!([
            "win-1.30",
            "csi-node",
            "pod-disk",
            "azuredisk-win",
            written
        ]))
    };
    let smb = json!({"like": "azuredisk-win", "metadata": {"name": "csi-smb-node-win", "uid": "uid-smb"},
        "spec": {"template": {"spec": {"containers": [{"name": "driver", "image": "registry.k8s.io/sig-storage/smbplugin:v1.17.0"}]}}}});
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "csi-smb-node-win", "uid": "uid-smb", "controller": true}]);
    let pod = json!({"like": "azuredisk-pod-waits", "metadata": {"name": "csi-smb-node-win-x7k2p", "ownerReferences": owner},
        "spec": smb["spec"]["template"]["spec"]});
    let pod = json!({"like": pod, "spec": {"nodeName": "win-1"}});
    let (without, along) = (object(smb.clone()), object(json!([smb, pod])));
    assert_eq!(along.len(), without.len() + 1);
    assert_eq!(
        at(&report(&along, true, None), "node"),
        at(&report(&without, true, None), "node")
    );
}
