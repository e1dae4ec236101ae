//! Secret values that must not appear anywhere, and where they are planted.

use serde_json::json;
use testbed::objects::NAMESPACE;

/// The value in every place that may contain a secret.
pub const MARK: &str = "hunter2-must-not-be-seen";

/// Returns objects with the secret in every possible place. One only has the name of the operator's Deployment.
pub fn secrets() -> String {
    let metadata = |name: &str| {
        json!({"name": name, "namespace": NAMESPACE, "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": MARK, "example.com/note": MARK}})
    };
    let template = json!({"metadata": {"labels": {"app": "a", "example.com/token-tier": "b"}, "annotations": {"example.com/note": MARK}},
        "spec": {"nodeSelector": {"kubernetes.io/os": "windows", "example.com/token-tier": "b"}, "containers": [{
            "name": "c", "image": "example.com/a:1",
            "command": ["sh", "-c", format!("app --password {MARK} --kubelet-registration-path=/plugins/a.b/c.sock {MARK}$(PLAIN)")],
            "args": [format!("--admin-password={MARK}"), "--token", MARK, "-P", MARK, format!("--config={{\"password\":\"{MARK}\"}}")],
            "lifecycle": {"postStart": {"exec": {"command": ["app", MARK]}}},
            "livenessProbe": {"exec": {"command": ["app", MARK]}},
            "env": [{"name": "PLAIN", "value": MARK}]}]}});
    let deployment = |metadata: serde_json::Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "a"}}, "template": template}})
    };
    let services =
        json!({"services": [{"name": "a-service", "path": format!("a.exe --password {MARK}")}]})
            .to_string();
    let items = [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("other"), "stringData": {"key": MARK}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("other"), "data": {"key": MARK}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("windows-instances"),
            "data": {"192.0.2.1": format!("username=a password={MARK}"), "192.0.2.2": services}}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "secretive"},
            "provisioner": "example.com/a", "parameters": {"sshkey": MARK, "url": format!("https://a.example/b?sig={MARK}")}}),
        deployment(metadata("secretive")),
        deployment(json!({"name": "windows-storage-operator", "namespace": "default"})),
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}
