//! Takes out of objects what may be a secret, and what only makes them long.
//!
//! Pure. What the judgement reads stays as it is. Where anything may stand, only that stays: of the words of a container
//! the path that it registers a driver by, of annotations those that are read, of ConfigMaps how they are built.

mod config_map;
mod containers;
mod words;

use serde_json::{Map, Value};

pub use config_map::values as config_map;
use words::{is_reference, is_secret, program};

/// What stands in place of what was taken out.
pub const REDACTED: &str = "(left out)";

/// Fields of labels, whose names are not ours to judge by: what selects by them must still fit.
const LABELS: [&str; 4] = ["labels", "matchLabels", "nodeSelector", "selector"];

/// Annotations whose values stay, by what their names begin with. Anything may be in others.
const KEPT_ANNOTATIONS: [&str; 13] = [
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
    "pv.kubernetes.io/",
    "storageclass.beta.kubernetes.io/is-default-class",
    "storageclass.kubernetes.io/is-default-class",
    "volume.beta.kubernetes.io/",
    "volume.kubernetes.io/",
    "windowsmachineconfig.openshift.io/desired-version",
    "windowsmachineconfig.openshift.io/ssh-host-key",
    "windowsmachineconfig.openshift.io/version",
    "csi.volume.kubernetes.io/nodeid",
    "operatorframework.io/",
    "windowsstorage.dev/",
];

/// Cleans an object of the API server.
pub fn object(value: &mut Value) {
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        metadata_of(metadata);
    }
    // Fifty images a node, of which nobody asks.
    if let Some(Value::Object(status)) = value.get_mut("status") {
        status.remove("images");
    }
    walk(value);
}

/// Cleans data that is no object of the API server.
pub fn data(value: &mut Value) {
    walk(value);
}

/// Cleans what the agent says of its node: of commands the programs stay.
pub fn state(value: &mut Value) {
    programs(value);
    walk(value);
}

fn programs(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(programs),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(command) if name == "command" => *command = program(command),
                    value => programs(value),
                }
            }
        }
        _ => {}
    }
}

fn metadata_of(metadata: &mut Map<String, Value>) {
    metadata.remove("managedFields");
    metadata.remove("selfLink");
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else {
        return;
    };
    // All of the object once more, with everything that is taken out elsewhere.
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    for (name, value) in annotations {
        if !KEPT_ANNOTATIONS.iter().any(|kept| name.starts_with(kept)) {
            *value = REDACTED.into();
        }
    }
}

fn walk(value: &mut Value) {
    match value {
        Value::String(text) => {
            let clean = words::text(text);
            if clean != *text {
                *text = clean;
            }
        }
        Value::Array(items) => {
            arguments(items);
            items.iter_mut().for_each(walk);
        }
        Value::Object(fields) => mapping(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Of `--password VALUE` the value may be a word of its own.
fn arguments(words: &mut [Value]) {
    let mut follows = false;
    for word in words.iter_mut().filter(|word| word.is_string()) {
        let is_flag = word.as_str().is_some_and(words::is_flag);
        if follows {
            *word = REDACTED.into();
        }
        follows = is_flag;
    }
}

fn mapping(fields: &mut Map<String, Value>) {
    for (name, value) in fields.iter_mut() {
        match name.as_str() {
            "containers" | "initContainers" | "ephemeralContainers" => containers::all(value),
            "env" | "httpHeaders" => containers::variables(value),
            "containerStatuses" | "initContainerStatuses" | "ephemeralContainerStatuses" => {
                last_words(value);
            }
            // The template of pods within an object has metadata of its own.
            "metadata" => {
                if let Value::Object(metadata) = value {
                    metadata_of(metadata);
                }
            }
            _ => {}
        }
        if LABELS.contains(&name.as_str()) && value.is_object() {
            continue;
        }
        match value {
            // They tell nothing, and are settings that are looked at.
            Value::Null | Value::Bool(_) => {}
            value if is_secret(name) && !is_reference(name) => *value = REDACTED.into(),
            value => walk(value),
        }
    }
}

/// What a container wrote before it ended is in its status.
fn last_words(statuses: &mut Value) {
    for status in statuses.as_array_mut().into_iter().flatten() {
        for when in ["state", "lastState"] {
            let states = status.get_mut(when).and_then(Value::as_object_mut);
            for (_, state) in states.into_iter().flatten() {
                if let Some(message) = state.get_mut("message") {
                    *message = REDACTED.into();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MARK: &str = "hunter2";

    fn cleaned(mut value: Value) -> Value {
        object(&mut value);
        value
    }

    #[test]
    fn no_secret_is_left_whatever_its_place() {
        let pod = |container: Value| json!({"metadata": {"name": "a"}, "spec": {"containers": [container]}});
        let template = |template: Value| json!({"spec": {"template": template}});
        for dirty in [
            json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": MARK}}}),
            json!({"metadata": {"annotations": {"example.com/note": MARK}, "managedFields": [{"x": MARK}]}}),
            pod(json!({"env": [{"name": "A", "value": MARK}]})),
            pod(json!({"env": [{"name": "A", "value": MARK}], "args": ["--a=$(A)"]})),
            pod(
                json!({"env": [{"name": "A", "value": MARK}, {"name": "B", "value": "b"}],
                "args": ["--kubelet-registration-path=/$(B)/c", "--x=$(A)"]}),
            ),
            pod(json!({"args": [format!("--admin-password={MARK}")]})),
            pod(json!({"args": ["--token", MARK]})),
            pod(json!({"command": ["sh", "-c", format!("login --api-key={MARK} now")]})),
            pod(
                json!({"livenessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": MARK}]}}}),
            ),
            template(json!({"metadata": {"annotations": {"vault/x": MARK}}})),
            template(json!({"spec": {"containers": [{"env": [{"name": "A", "value": MARK}]}]}})),
            json!({"parameters": {"restuserkey": MARK, "resturl": format!("http://admin:{MARK}@heketi:8080")}}),
            json!({"mountOptions": ["vers=3.0", format!("username=u,password={MARK}")]}),
            json!({"spec": {"csi": {"volumeAttributes": {"accountKey": MARK}}}}),
            json!({"spec": {"clusterCredential": MARK}}),
            json!({"spec": {"extraArgs": ["--token", MARK]}}),
            pod(json!({"command": ["sh", "-c", format!("app --password {MARK}")]})),
            pod(json!({"args": [format!("--set=auth.password={MARK}"), "-P", MARK]})),
            pod(json!({"args": [format!("--config={{\"password\":\"{MARK}\"}}")]})),
            pod(
                json!({"args": [format!("net use x {MARK} /user:a"), format!("cat <<E\npassword: {MARK}\nE")]}),
            ),
            pod(json!({"lifecycle": {"postStart": {"exec": {"command": ["a", MARK]}}}})),
            pod(json!({"readinessProbe": {"exec": {"command": ["a", MARK]}}, "workingDir": MARK})),
            json!({"spec": {"initContainers": [{"args": [MARK]}], "ephemeralContainers": [{"command": [MARK]}]}}),
            json!({"status": {"containerStatuses": [{"lastState": {"terminated": {"message": MARK, "exitCode": 1}}}]}}),
            json!({"parameters": {"url": format!("https://a.example/b?sv=1&sig={MARK}"), "connection": format!("Server=s;Pwd={MARK}")}}),
            json!({"parameters": {"tokens": [MARK], "credentials": {"value": MARK}, "sshkey": MARK, "encryptionKey": MARK}}),
            json!({"parameters": {"config": format!("{{\"a\":{{\"password\":\"{MARK}\"}}}}")}}),
        ] {
            let clean = cleaned(dirty.clone()).to_string();
            assert!(dirty.to_string().contains(MARK));
            assert!(!clean.contains(MARK), "{clean}");
        }
        let number =
            cleaned(json!({"spec": {"password": 1234, "pin": {"token": [1234]}}})).to_string();
        assert!(!number.contains("1234"), "{number}");
        let mut said = json!({"services": [{"command": format!(r"C:\a.exe -p {MARK}")}]});
        state(&mut said);
        assert_eq!(
            said["services"][0]["command"],
            format!(r"C:\a.exe {REDACTED}")
        );
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
        assert_eq!(cleaned(kept.clone()), kept);
    }

    #[test]
    fn what_the_judgement_reads_stays() {
        let kept = json!({
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "labels": {"kubernetes.io/os": "windows"},
                "annotations": {
                    "volume.beta.kubernetes.io/storage-class": "c",
                    "volume.kubernetes.io/storage-provisioner": "kubernetes.io/azure-disk",
                    "storageclass.kubernetes.io/is-default-class": "true",
                    "windowsmachineconfig.openshift.io/version": "10",
                    "windowsmachineconfig.openshift.io/ssh-host-key-type": "ssh-ed25519",
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
        assert_eq!(cleaned(kept.clone()), kept);
    }

    #[test]
    fn names_of_what_was_taken_out_stay() {
        let clean = cleaned(json!({"metadata": {"annotations": {"a.example/b": MARK}},
            "env": [{"name": "A", "value": MARK}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}));
        assert_eq!(clean["metadata"]["annotations"]["a.example/b"], REDACTED);
        assert_eq!(clean["env"][0]["name"], "A");
        assert_eq!(clean["env"][1]["valueFrom"]["secretKeyRef"]["key"], "k");
    }
}
