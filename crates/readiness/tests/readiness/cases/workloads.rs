//! Which nodes are Windows nodes, and which pods are workloads.

use super::{Case, asking, azure_disk, case, csi_node, linux, node, object, pod, pod_on, windows};
use crate::oracle::cluster::{NODE, RUNTIME_CLASS};
use serde_json::{Value, json};

fn rows(count: usize) -> Value {
    json!({"volumes": vec![json!({}); count]})
}

/// In each line whether an unbound pod asks for Windows, and what its spec says.
const SPECS: &str = r#"
no  {}
yes {"os": {"name": "windows"}}
no  {"os": {"name": "linux"}}
yes {"nodeSelector": {"kubernetes.io/os": "windows"}}
no  {"nodeSelector": {"kubernetes.io/os": "linux"}}
yes {"nodeSelector": {"beta.kubernetes.io/os": "windows"}}
yes {"nodeSelector": {"node.kubernetes.io/windows-build": "10.0.20348"}}
no  {"runtimeClassName": "hyperv"}
no  {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]}]}}]}}}
"#;

/// In each line the same, and the node selector terms of a required affinity: key, operator and values.
const TERMS: &str = "
yes kubernetes.io/os In windows
no  kubernetes.io/os In windows linux
yes kubernetes.io/os NotIn linux
no  kubernetes.io/os NotIn linux windows
no  kubernetes.io/os NotIn darwin
no  kubernetes.io/os Exists
yes beta.kubernetes.io/os In windows
yes node.kubernetes.io/windows-build In 10.0.20348
yes node.kubernetes.io/windows-build Exists
yes node.kubernetes.io/windows-build Gt 1
yes node.kubernetes.io/windows-build Lt 9
no  node.kubernetes.io/windows-build NotIn 10.0.20348
no  node.kubernetes.io/windows-build DoesNotExist
yes kubernetes.io/os In windows; node.kubernetes.io/windows-build Exists
no  kubernetes.io/os In windows; zone In a
no  kubernetes.io/os In windows;
";

/// In each line the same, and what the node selector of its RuntimeClass says.
const CLASSES: &str = "
yes kubernetes.io/os windows
yes node.kubernetes.io/windows-build 10.0.20348
no  kubernetes.io/os linux
";

/// An unbound pod with a disk, which is a workload if the line says that its spec asks for Windows.
fn unbound(line: &'static str, mut spec: Value) -> Case {
    spec["volumes"] = json!([azure_disk()]);
    let objects = vec![windows("win-1"), pod("web-0", spec)];
    case(line, objects, rows(usize::from(line.starts_with("yes"))))
}

/// A term out of key, operator and values; an empty one asks for nothing.
fn term(text: &str) -> Value {
    let mut words = text.split_whitespace();
    let Some(key) = words.next() else {
        return json!({});
    };
    let (operator, values) = (words.next(), words.collect::<Vec<_>>());
    json!({"matchExpressions": [{"key": "zone", "operator": "Exists"},
        {"key": key, "operator": operator, "values": values}]})
}

fn runtime_class(selector: &Value) -> Value {
    object(
        RUNTIME_CLASS,
        false,
        "hyperv",
        json!({"handler": "h", "scheduling": {"nodeSelector": selector}}),
    )
}

pub fn cases() -> Vec<Case> {
    let mut cases = nodes();
    cases.extend(asks());
    cases.extend(phases());
    cases
}

fn nodes() -> Vec<Case> {
    let by_info = |labels: Value, system: &str| {
        let parts = json!({"metadata": {"labels": labels}, "status": {"nodeInfo": {"operatingSystem": system}}});
        object(NODE, false, "n-1", parts)
    };
    let windows_with = |mut metadata: Value| {
        metadata["labels"]["kubernetes.io/os"] = json!("windows");
        node("n-1", metadata)
    };
    let count = |count: usize| json!({"windowsNodes": count});
    let mut on_linux = asking(azure_disk());
    on_linux["nodeName"] = json!("n-1");
    vec![
        case!("the label makes a Windows node":
            [by_info(json!({"kubernetes.io/os": "windows"}), "linux")]
            => count(1)),
        case!("the label has the last word": [by_info(json!({"kubernetes.io/os": "linux"}), "windows")]
            => count(0)),
        case!("without a label the node info decides": [by_info(json!({}), "windows")] => count(1)),
        case!("an ignored node": [windows_with(json!({"labels": {"windowsstorage.dev/ignore": "true"}}))]
            => count(0)),
        case!("ignoring takes the value true":
            [windows_with(json!({"labels": {"windowsstorage.dev/ignore": "false"}}))]
            => count(1)),
        case!("a node that is being deleted":
            [windows_with(json!({"deletionTimestamp": "2026-01-02T03:04:05Z"}))]
            => json!({"windowsNodes": 0, "nodes": [], "verdict": {"reason": "NoWindowsNodes"}})),
        case!("nodes are sorted by name, and a CSINode without node is none":
            [windows("win-2"), windows("win-1"), csi_node("win-3", &["a.example.com"])]
            => json!({"nodes": [{"name": "win-1"}, {"name": "win-2"}], "drivers": []})),
        case!("a pod on a Linux node asks in vain": [windows("win-1"), linux("n-1"), pod("web-0", on_linux)]
            => rows(0)),
        case!("a pod on a node that nobody knows":
            [windows("win-1"), pod_on("gone", "web-0", azure_disk())]
            => rows(0)),
        case!("a pod on a Windows node need not ask":
            [windows("win-1"), pod_on("win-1", "web-0", azure_disk())]
            => rows(1)),
    ]
}

fn asks() -> Vec<Case> {
    let rest = |line: &'static str| line[3..].trim_start();
    let specs = SPECS.trim().lines();
    let specs = specs.map(|line| unbound(line, serde_json::from_str(rest(line)).unwrap()));
    let terms = TERMS.trim().lines().map(|line| {
        let terms: Vec<_> = rest(line).split(';').map(term).collect();
        let affinity =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        unbound(line, json!({"affinity": {"nodeAffinity": affinity}}))
    });
    let classes = CLASSES.trim().lines().map(|line| {
        let (key, value) = rest(line).split_once(' ').unwrap();
        let mut case = unbound(line, json!({"runtimeClassName": "hyperv"}));
        case.objects.push(runtime_class(&json!({key: value})));
        case
    });
    specs.chain(terms).chain(classes).collect()
}

fn phases() -> Vec<Case> {
    let in_phase = |name, phase: &str, count| {
        let mut pod = pod_on("win-1", "web-0", azure_disk());
        pod["status"]["phase"] = json!(phase);
        case(name, vec![windows("win-1"), pod], rows(count))
    };
    let mut leaving = pod_on("win-1", "web-0", azure_disk());
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    vec![
        in_phase("a pod that succeeded uses nothing", "Succeeded", 0),
        in_phase("a pod that failed uses nothing", "Failed", 0),
        in_phase("a pending pod uses its volumes", "Pending", 1),
        case!("a pod that is being deleted still does": [windows("win-1"), leaving] => rows(1)),
    ]
}
