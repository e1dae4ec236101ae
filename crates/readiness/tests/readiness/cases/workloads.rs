//! Which nodes are Windows nodes, and which pods are workloads.

use super::{Case, asking, azure_disk, case, csi_node, linux, node, object, pod, pod_on, windows};
use crate::oracle::cluster::{NODE, RUNTIME_CLASS};
use serde_json::{Value, json};

fn rows(count: usize) -> Value {
    json!({"volumes": vec![json!({}); count]})
}

/// An unbound pod with a disk; it is a workload if its spec asks for Windows.
fn unbound(name: &'static str, asks: bool, mut spec: Value) -> Case {
    spec["volumes"] = json!([azure_disk()]);
    case(
        name,
        vec![windows("win-1"), pod("web-0", spec)],
        rows(usize::from(asks)),
    )
}

fn with_terms(terms: &Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
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
    vec![
        case(
            "the label makes a Windows node",
            vec![by_info(json!({"kubernetes.io/os": "windows"}), "linux")],
            count(1),
        ),
        case(
            "the label has the last word",
            vec![by_info(json!({"kubernetes.io/os": "linux"}), "windows")],
            count(0),
        ),
        case(
            "without a label the node info decides",
            vec![by_info(json!({}), "windows")],
            count(1),
        ),
        case(
            "an ignored node",
            vec![windows_with(
                json!({"labels": {"windowsstorage.dev/ignore": "true"}}),
            )],
            count(0),
        ),
        case(
            "ignoring takes the value true",
            vec![windows_with(
                json!({"labels": {"windowsstorage.dev/ignore": "false"}}),
            )],
            count(1),
        ),
        case(
            "a node that is being deleted",
            vec![windows_with(
                json!({"deletionTimestamp": "2026-01-02T03:04:05Z"}),
            )],
            json!({"windowsNodes": 0, "nodes": [], "verdict": {"reason": "NoWindowsNodes"}}),
        ),
        case(
            "nodes are sorted by name, and a CSINode without node is none",
            vec![
                windows("win-2"),
                windows("win-1"),
                csi_node("win-3", &["a.example.com"]),
            ],
            json!({"nodes": [{"name": "win-1"}, {"name": "win-2"}], "drivers": []}),
        ),
        case(
            "a pod on a Linux node asks in vain",
            vec![windows("win-1"), linux("n-1"), {
                let mut spec = asking(azure_disk());
                spec["nodeName"] = json!("n-1");
                pod("web-0", spec)
            }],
            rows(0),
        ),
        case(
            "a pod on a node that nobody knows",
            vec![windows("win-1"), pod_on("gone", "web-0", azure_disk())],
            rows(0),
        ),
        case(
            "a pod on a Windows node need not ask",
            vec![windows("win-1"), pod_on("win-1", "web-0", azure_disk())],
            rows(1),
        ),
    ]
}

fn asks() -> Vec<Case> {
    let os = "kubernetes.io/os";
    let build = "node.kubernetes.io/windows-build";
    let one = |key: &str, operator: &str, values: &[&str]| {
        with_terms(&json!([expression(key, operator, values)]))
    };
    let class_case = |name, asks, selector: Value| {
        let mut case = unbound(name, asks, json!({"runtimeClassName": "hyperv"}));
        case.objects.push(runtime_class(&selector));
        case
    };
    vec![
        unbound("no sign of Windows", false, json!({})),
        unbound("os.name windows", true, json!({"os": {"name": "windows"}})),
        unbound("os.name linux", false, json!({"os": {"name": "linux"}})),
        unbound(
            "selector os",
            true,
            json!({"nodeSelector": {os: "windows"}}),
        ),
        unbound(
            "selector linux",
            false,
            json!({"nodeSelector": {os: "linux"}}),
        ),
        unbound(
            "selector beta os",
            true,
            json!({"nodeSelector": {"beta.kubernetes.io/os": "windows"}}),
        ),
        unbound(
            "selector of any build",
            true,
            json!({"nodeSelector": {build: "10.0.20348"}}),
        ),
        unbound("affinity In windows", true, one(os, "In", &["windows"])),
        unbound(
            "affinity In windows or linux",
            false,
            one(os, "In", &["windows", "linux"]),
        ),
        unbound("affinity NotIn linux", true, one(os, "NotIn", &["linux"])),
        unbound(
            "affinity NotIn both",
            false,
            one(os, "NotIn", &["linux", "windows"]),
        ),
        unbound(
            "affinity NotIn something else",
            false,
            one(os, "NotIn", &["darwin"]),
        ),
        unbound("affinity Exists os", false, one(os, "Exists", &[])),
        unbound(
            "affinity beta os",
            true,
            one("beta.kubernetes.io/os", "In", &["windows"]),
        ),
        unbound("affinity In build", true, one(build, "In", &["10.0.20348"])),
        unbound("affinity Exists build", true, one(build, "Exists", &[])),
        unbound("affinity Gt build", true, one(build, "Gt", &["1"])),
        unbound("affinity Lt build", true, one(build, "Lt", &["9"])),
        unbound(
            "affinity NotIn build",
            false,
            one(build, "NotIn", &["10.0.20348"]),
        ),
        unbound(
            "affinity DoesNotExist build",
            false,
            one(build, "DoesNotExist", &[]),
        ),
        unbound(
            "every term asks",
            true,
            with_terms(&json!([
                expression(os, "In", &["windows"]),
                expression(build, "Exists", &[])
            ])),
        ),
        unbound(
            "one term of two asks",
            false,
            with_terms(&json!([
                expression(os, "In", &["windows"]),
                expression("zone", "In", &["a"])
            ])),
        ),
        unbound(
            "an empty term asks for nothing",
            false,
            with_terms(&json!([expression(os, "In", &["windows"]), {}])),
        ),
        unbound(
            "a preference is no requirement",
            false,
            json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": expression(os, "In", &["windows"])}]}}}),
        ),
        unbound(
            "a RuntimeClass that is not there",
            false,
            json!({"runtimeClassName": "hyperv"}),
        ),
        class_case(
            "a RuntimeClass that selects Windows",
            true,
            json!({os: "windows"}),
        ),
        class_case(
            "a RuntimeClass that selects a build",
            true,
            json!({build: "10.0.20348"}),
        ),
        class_case(
            "a RuntimeClass that selects Linux",
            false,
            json!({os: "linux"}),
        ),
    ]
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
        case(
            "a pod that is being deleted still does",
            vec![windows("win-1"), leaving],
            rows(1),
        ),
    ]
}
