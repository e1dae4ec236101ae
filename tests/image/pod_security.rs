//! How Kubernetes judges the manifest's pod in a namespace that enforces the `restricted` standard.

use std::path::Path;

use serde_json::{Value, json};
use testbed::control_plane::ControlPlane;

/// Fields, values that are refused in their place, and the text of the refusal.
const NEEDED: &str = r#"
/securityContext/runAsNonRoot | false | runAsNonRoot != true
/securityContext/seccompProfile | null | seccompProfile
/containers/0/securityContext/allowPrivilegeEscalation | null | allowPrivilegeEscalation != false
/containers/0/securityContext/capabilities/drop | [] | unrestricted capabilities
/containers/0/securityContext | {"privileged": true} | privileged
"#;

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

    // Each field is required: the API server refuses the pod with any of these changes.
    for row in NEEDED.trim().lines() {
        let [pointer, value, complaint] = row.split(" | ").collect::<Vec<_>>()[..] else {
            unreachable!("{row}");
        };
        let mut spec = template["spec"].clone();
        *spec.pointer_mut(pointer).unwrap() = serde_json::from_str(value).unwrap();
        let refused = create(&spec).expect_err(pointer).to_string();
        assert!(
            refused.contains("violates PodSecurity \"restricted") && refused.contains(complaint),
            "{pointer}: {refused}"
        );
    }
    // The standard does not require this, but the image supports it.
    assert_eq!(
        template["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"],
        true
    );
}
