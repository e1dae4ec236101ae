//! The API server admits the samples.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::control_plane::ControlPlane;
use testbed::reused::Reused;
use testbed::sandbox;

use crate::samples::catalogue::{DRIVERS, WORKLOADS, all, root};

const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// Returns a control plane with the namespaces that must exist before a sample is applied.
fn with_namespaces() -> Reused {
    let control_plane = Reused::take(sandbox::installed).unwrap();
    let workloads = root().join("namespace");
    control_plane
        .kubectl(&["apply", "-k", workloads.to_str().unwrap()])
        .unwrap();
    for driver in DRIVERS.iter() {
        namespace(&control_plane, &driver.namespace, None);
    }
    control_plane
}

fn namespace(control_plane: &ControlPlane, name: &str, level: Option<&str>) {
    let mut labels = json!({});
    if let Some(level) = level {
        labels[ENFORCE] = level.into();
    }
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels},
    });
    control_plane.apply(&namespace.to_string()).unwrap();
}

/// Returns why the API server refuses a pod with this spec in this namespace, if it does.
fn admitted(control_plane: &ControlPlane, namespace: &str, spec: &Value) -> Result<(), String> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "pod", "namespace": namespace},
        "spec": spec,
    });
    let (is_admitted, said) = control_plane.try_create(&pod, None).unwrap();
    is_admitted.then_some(()).ok_or(said)
}

#[test]
fn drivers_need_a_privileged_namespace_and_the_workloads_do_not() {
    let control_plane = with_namespaces();
    namespace(&control_plane, "any", Some("privileged"));
    namespace(&control_plane, "some", Some("baseline"));
    for sample in all() {
        let set = sample.daemon_set();
        let spec = &set["spec"]["template"]["spec"];
        admitted(&control_plane, "any", spec).unwrap();
        let error = admitted(&control_plane, "some", spec).unwrap_err();
        for part in ["violates PodSecurity", "hostPath volumes"] {
            assert!(error.contains(part), "{error}");
        }
        let is_host_process = error.contains("hostProcess");
        assert_eq!(is_host_process, sample.is_host_process(), "{error}");

        let objects = sample.objects();
        let of_kind = |kind: &str| objects.iter().find(|it| it["kind"] == kind).unwrap();
        let labels = &of_kind("Namespace")["metadata"]["labels"];
        assert_eq!(labels[ENFORCE], "baseline");
        admitted(&control_plane, WORKLOADS, &of_kind("Pod")["spec"]).unwrap();
    }
}

/// Samples work under the enforcing policies if the driver's namespace has the required label.
#[test]
fn samples_work_under_the_policies() {
    const LABEL: &str = "windowsstorage.dev/csi-proxy-pipes=allowed";
    let control_plane = with_namespaces();
    namespace(&control_plane, "unlabelled", None);
    let policies = root().join("../policies-deny");
    control_plane
        .kubectl(&["apply", "-k", policies.to_str().unwrap()])
        .unwrap();
    for driver in DRIVERS.iter() {
        let namespace = &driver.namespace;
        control_plane
            .kubectl(&["label", "--overwrite", "namespace", namespace, LABEL])
            .unwrap();
    }
    let first = all().next().unwrap().daemon_set();
    let is_refused = |spec: &Value| {
        admitted(&control_plane, "unlabelled", spec).is_err_and(|said| said.contains(LABEL))
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_refused(&first["spec"]["template"]["spec"]) {
        assert!(Instant::now() < deadline, "the policies are not enforced");
        std::thread::sleep(Duration::from_millis(100));
    }
    for sample in all() {
        let path = sample.path();
        let mut kubectl = control_plane.kubectl_command();
        kubectl.args(["apply", "--dry-run=server", "-k"]);
        let applied = kubectl.arg(&path).output().unwrap();
        let said = String::from_utf8(applied.stderr).unwrap();
        assert!(applied.status.success(), "{said}");
        assert!(!said.contains("ValidatingAdmissionPolicy"), "{said}");
        let spec = &sample.daemon_set()["spec"]["template"]["spec"];
        admitted(&control_plane, &sample.driver.namespace, spec).unwrap();
        assert!(is_refused(spec), "{}", path.display());
    }
}
