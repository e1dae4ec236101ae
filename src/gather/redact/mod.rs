//! Redacts possible secrets in objects, and drops large fields that are not needed.
//!
//! No I/O. Keeps what the assessment reads. Of free-form values, keeps only that: in a container's command the driver's
//! registration path, of annotations the known ones, of ConfigMaps the names and programs of
//! services.

mod config_map;
mod containers;
mod lines;
mod text;

use serde_json::{Map, Value};

use crate::objects::SELECTOR_ANNOTATIONS;
pub use lines::Lines;
use text::{hides, is_secret_flag, program, redacted};

/// The placeholder for redacted values.
pub const REDACTED: &str = "(left out)";

/// Fields with labels. They are kept, because their keys say nothing about secrets and selectors must still match.
const LABELS: [&str; 4] = ["labels", "matchLabels", "nodeSelector", "selector"];

/// Prefixes of annotations to keep. Other annotations may contain anything.
const KEPT_ANNOTATIONS: [&str; 13] = [
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
    "pv.kubernetes.io/",
    "storage.alpha.kubernetes.io/migrated-plugins",
    "storageclass.beta.kubernetes.io/is-default-class",
    "storageclass.kubernetes.io/is-default-class",
    "volume.beta.kubernetes.io/",
    "volume.kubernetes.io/",
    "windowsmachineconfig.openshift.io/ssh-host-key",
    "windowsmachineconfig.openshift.io/version",
    "csi.volume.kubernetes.io/nodeid",
    "operatorframework.io/",
    "windowsstorage.dev/",
];

/// Redacts an object of this kind from the API server.
pub fn object(kind: &str, value: &mut Value) {
    let Value::Object(fields) = value else {
        return;
    };
    // A ConfigMap's data has its own redaction rules.
    let mut data = None;
    if kind == "ConfigMap" {
        fields.remove("binaryData");
        data = fields.remove("data");
    }
    // Up to fifty images per node, which are not needed.
    if let Some(Value::Object(status)) = fields.get_mut("status") {
        status.remove("images");
    }
    other(value);
    if let Some(Value::Object(mut data)) = data {
        config_map::values(&mut data);
        value["data"] = data.into();
    }
}

/// Redacts a value that is not an object of the API server, also of a text or log.
pub fn other(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(left) = redacted(text) {
                *text = left;
            }
        }
        Value::Array(items) => {
            arguments(items);
            items.iter_mut().for_each(other);
        }
        Value::Object(fields) => fields
            .iter_mut()
            .for_each(|(name, value)| field(name, value)),
        _ => {}
    }
}

/// Redacts the word after a flag such as `--password`.
fn arguments(words: &mut [Value]) {
    let mut follows = false;
    for word in words.iter_mut().filter(|word| word.is_string()) {
        let is_flag = word.as_str().is_some_and(is_secret_flag);
        if follows {
            *word = REDACTED.into();
        }
        follows = is_flag;
    }
}

fn field(name: &str, value: &mut Value) {
    match (name, &mut *value) {
        // Pod templates inside an object have their own metadata.
        ("metadata", Value::Object(fields)) => metadata(fields),
        ("containers" | "initContainers" | "ephemeralContainers", Value::Array(containers)) => {
            containers.iter_mut().for_each(containers::container);
        }
        ("env" | "httpHeaders", value) => containers::variables(value),
        // The container's termination message.
        ("waiting" | "terminated", Value::Object(state)) => {
            if let Some(message) = state.get_mut("message") {
                *message = REDACTED.into();
            }
        }
        // From the agent's node state.
        ("command", Value::String(command)) => *command = program(command),
        _ => {}
    }
    match value {
        Value::Object(_) if LABELS.contains(&name) => {}
        Value::String(_) if SELECTOR_ANNOTATIONS.contains(&name) => {}
        // Not secrets, but settings that matter.
        Value::Null | Value::Bool(_) => {}
        value if hides(name) => *value = REDACTED.into(),
        value => other(value),
    }
}

fn metadata(fields: &mut Map<String, Value>) {
    fields.remove("managedFields");
    fields.remove("selfLink");
    let Some(Value::Object(annotations)) = fields.get_mut("annotations") else {
        return;
    };
    // Repeats the whole object, including what is redacted elsewhere.
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    for (name, value) in annotations {
        let mut kept = KEPT_ANNOTATIONS.iter().chain(&SELECTOR_ANNOTATIONS);
        if !kept.any(|kept| name.starts_with(kept)) {
            *value = REDACTED.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MARK: &str = "hunter2";

    fn redacted(mut value: Value) -> Value {
        object("Pod", &mut value);
        value
    }

    #[test]
    fn no_secret_is_left_whatever_its_place() {
        let pod = |container: Value| json!({"metadata": {"name": "a"}, "spec": {"containers": [container]}});
        let template = |template: Value| json!({"spec": {"template": template}});
        for whole in [
            json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": MARK}}}),
            json!({"metadata": {"annotations": {"example.com/note": MARK}, "managedFields": [{"x": MARK}]}}),
            template(json!({"metadata": {"annotations": {"vault/x": MARK}}})),
            template(json!({"spec": {"containers": [{"env": [{"name": "A", "value": MARK}]}]}})),
            pod(json!({"command": ["net", "use", "x", MARK], "args": [MARK], "workingDir": MARK})),
            pod(json!({"lifecycle": {"postStart": {"exec": {"command": ["a", MARK]}}}})),
            pod(
                json!({"readinessProbe": {"httpGet": {"httpHeaders": [{"name": "A", "value": MARK}]}}}),
            ),
            json!({"spec": {"initContainers": [{"args": [MARK]}], "ephemeralContainers": [{"command": [MARK]}]}}),
            json!({"status": {"containerStatuses": [{"lastState": {"terminated": {"message": MARK, "exitCode": 1}}}]}}),
            json!({"spec": {"csi": {"volumeAttributes": {"accountKey": MARK}}, "clusterCredential": MARK}}),
            json!({"spec": {"extraArgs": ["--token", MARK]}}),
            json!({"mountOptions": ["vers=3.0", format!("username=u,password={MARK}")]}),
            json!({"parameters": {"restuserkey": MARK, "resturl": format!("http://admin:{MARK}@heketi:8080")}}),
            json!({"kind": "Event", "message": format!("cannot log in with password: {MARK}")}),
            json!({"status": {"conditions": [{"message": format!("got eyJhbGciOiJ.eyJpc3MiOi.{MARK}")}]}}),
            json!({"note": format!("-----BEGIN PRIVATE KEY-----\n{MARK}\n")}),
            json!({"parameters": {"tokens": [MARK], "credentials": {"value": MARK}, "sshkey": MARK, "encryptionKey": MARK}}),
        ] {
            let redacted = redacted(whole.clone()).to_string();
            assert!(whole.to_string().contains(MARK));
            assert!(!redacted.contains(MARK), "{redacted}");
        }
        let number =
            redacted(json!({"spec": {"password": 1234, "pin": {"token": [1234]}}})).to_string();
        assert!(!number.contains("1234"), "{number}");
        let mut state = json!({"services": [{"command": format!(r"C:\a.exe -p {MARK}")}]});
        other(&mut state);
        let command = format!(r"C:\a.exe {REDACTED}");
        assert_eq!(state["services"][0]["command"], command);
    }

    #[test]
    fn labels_and_what_selects_by_them_stay() {
        let kept = json!({
            "metadata": {"labels": {"example.com/token-tier": "a"}},
            "spec": {"selector": {"matchLabels": {"secret-class": "b"}}, "template": {"metadata": {"labels": {"secret-class": "b"}},
                "spec": {"nodeSelector": {"example.com/token-tier": "a"}, "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                    {"nodeSelectorTerms": [{"matchExpressions": [{"key": "example.com/token-tier", "operator": "In", "values": ["a"]}]}]}},
                    "podAntiAffinity": {"x": [{"topologyKey": "kubernetes.io/hostname"}]}}}}},
        });
        assert_eq!(redacted(kept.clone()), kept);
    }

    #[test]
    fn what_the_judgement_reads_stays() {
        let kept = json!({
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "labels": {"kubernetes.io/os": "windows"},
                "annotations": {
                    "volume.beta.kubernetes.io/storage-class": "c",
                    "volume.kubernetes.io/storage-provisioner": "kubernetes.io/azure-disk",
                    "storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/azure-disk,kubernetes.io/cinder",
                    "storageclass.kubernetes.io/is-default-class": "true",
                    "windowsmachineconfig.openshift.io/version": "10",
                    "windowsmachineconfig.openshift.io/ssh-host-key-type": "ssh-ed25519",
                    "openshift.io/node-selector": "kubernetes.io/os=windows,example.com/secret-tier=a",
                    "scheduler.alpha.kubernetes.io/node-selector": "kubernetes.io/os=windows",
                }},
            "provisioner": "kubernetes.io/azure-file",
            "parameters": {"secretNamespace": "n", "csi.storage.k8s.io/node-stage-secret-name": "s", "shareName": "s"},
            "spec": {
                "nodeSelector": {"kubernetes.io/os": "windows"},
                "azureFile": {"secretName": "s", "shareName": "t"},
                "automountServiceAccountToken": false,
                "containers": [{
                    "image": "a.example/b:1.2",
                    "args": [REDACTED, "--kubelet-registration-path=/var/csi.sock"],
                    "env": [{"name": "BASE", "value": REDACTED}],
                }],
            },
        });
        assert_eq!(redacted(kept.clone()), kept);
    }

    #[test]
    fn names_of_what_was_taken_out_stay() {
        let redacted = redacted(json!({"metadata": {"annotations": {"a.example/b": MARK}},
            "env": [{"name": "A", "value": MARK}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}));
        assert_eq!(redacted["metadata"]["annotations"]["a.example/b"], REDACTED);
        assert_eq!(redacted["env"][0]["name"], "A");
        assert_eq!(redacted["env"][1]["valueFrom"]["secretKeyRef"]["key"], "k");
    }
}
