//! What Kubernetes itself says to the manifest's pod in a namespace that enforces the `restricted` standard.

use std::path::Path;

use serde_json::{Value, json};
use testbed::control_plane::ControlPlane;

#[test]
fn the_pod_of_the_manifest_is_restricted() {
    let control_plane = ControlPlane::start().unwrap();
    let read = |file: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("manifests")
            .join(file);
        std::fs::read_to_string(path).unwrap()
    };
    let namespace = read("namespace.yaml");
    control_plane.apply(&namespace).unwrap();
    let namespace: Value = serde_yaml::from_str(&namespace).unwrap();
    assert_eq!(
        namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"],
        "restricted"
    );
    let deployment: Value = serde_yaml::from_str(&read("deployment.yaml")).unwrap();
    let template = &deployment["spec"]["template"];
    let create = |spec: &Value| {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "operator",
                "namespace": namespace["metadata"]["name"],
                "labels": template["metadata"]["labels"],
            },
            "spec": spec,
        });
        control_plane
            .kubectl_with_input(&["create", "--dry-run=server", "-f", "-"], &pod.to_string())
    };
    create(&template["spec"]).unwrap();

    // Each line of it counts: without it the API server refuses the pod.
    for (pointer, value, complaint) in [
        (
            "/securityContext/runAsNonRoot",
            json!(false),
            "runAsNonRoot != true",
        ),
        (
            "/securityContext/seccompProfile",
            Value::Null,
            "seccompProfile",
        ),
        (
            "/containers/0/securityContext/allowPrivilegeEscalation",
            Value::Null,
            "allowPrivilegeEscalation != false",
        ),
        (
            "/containers/0/securityContext/capabilities/drop",
            json!([]),
            "unrestricted capabilities",
        ),
        (
            "/containers/0/securityContext",
            json!({"privileged": true}),
            "privileged",
        ),
    ] {
        let mut spec = template["spec"].clone();
        *spec.pointer_mut(pointer).unwrap() = value;
        let refused = create(&spec).expect_err(pointer).to_string();
        assert!(
            refused.contains("violates PodSecurity \"restricted") && refused.contains(complaint),
            "{pointer}: {refused}"
        );
    }
    // The standard does not ask for it, but the image is made for it.
    assert_eq!(
        template["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"],
        true
    );
}
