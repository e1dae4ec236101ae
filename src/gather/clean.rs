//! Takes out of objects what may be a secret, and what only makes them long.
//!
//! Pure. What the judgement reads stays as it is; where that is not sure to be harmless, the narrowest rule that keeps the
//! judgement alike holds: the variables that a driver's registration path is made of, the annotations that are read.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// What stands in place of what was taken out.
pub const REDACTED: &str = "(left out)";

const REGISTRATION_FLAG: &str = "kubelet-registration-path";

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

/// Parts of names that say of a value that it is secret.
const SECRET_WORDS: [&str; 11] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "accesskey",
    "accountkey",
    "apikey",
    "privatekey",
    "userkey",
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

/// Cleans data that is no object, such as what an agent says.
pub fn data(value: &mut Value) {
    walk(value);
}

/// Cleans a text that is JSON if it can be: a ConfigMap's value.
#[must_use]
pub fn document(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(mut value) if value.is_object() || value.is_array() => {
            variables(&mut value, &BTreeSet::new());
            walk(&mut value);
            serde_json::to_string_pretty(&value).unwrap_or_else(|_| REDACTED.to_owned())
        }
        _ => text.lines().map(word).collect::<Vec<_>>().join("\n"),
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
            let clean = word(text);
            if clean != *text {
                *text = clean;
            }
        }
        Value::Array(items) => {
            secret_arguments(items);
            items.iter_mut().for_each(walk);
        }
        Value::Object(fields) => mapping(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn mapping(fields: &mut Map<String, Value>) {
    if let Some(env) = fields.get("env") {
        let needed = needed_variables(fields, env);
        if let Some(env) = fields.get_mut("env") {
            variables(env, &needed);
        }
    }
    if let Some(headers) = fields.get_mut("httpHeaders") {
        variables(headers, &BTreeSet::new());
    }
    // The template of pods within an object has metadata of its own.
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata_of(metadata);
    }
    for (name, value) in fields.iter_mut() {
        match value {
            Value::String(text) if is_secret(name) && !is_reference(name) => {
                REDACTED.clone_into(text);
            }
            value => walk(value),
        }
    }
}

/// Takes the values of named variables out, but for those that are needed.
fn variables(list: &mut Value, needed: &BTreeSet<String>) {
    for variable in list.as_array_mut().into_iter().flatten() {
        let name = variable.get("name").and_then(Value::as_str);
        if name.is_some_and(|name| needed.contains(name)) {
            continue;
        }
        if let Some(value) = variable.get_mut("value") {
            *value = REDACTED.into();
        }
    }
}

/// The variables of a container that its registration path is made of, and those that these are made of.
fn needed_variables(container: &Map<String, Value>, env: &Value) -> BTreeSet<String> {
    let texts = |field: &str| -> Vec<&str> {
        let words = container.get(field).and_then(Value::as_array);
        words
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    };
    let mut needed = BTreeSet::new();
    let words = [texts("command"), texts("args")].concat();
    let Some(flag) = words
        .iter()
        .position(|word| word.contains(REGISTRATION_FLAG))
    else {
        return needed;
    };
    // The value is in the same word or in the next one.
    let is_whole = words[flag]
        .split_once(REGISTRATION_FLAG)
        .is_some_and(|(_, rest)| !rest.is_empty());
    let count = if is_whole { 1 } else { 2 };
    let mut open: Vec<&str> = words.iter().skip(flag).take(count).copied().collect();
    while let Some(text) = open.pop() {
        for name in referred(text) {
            if needed.insert(name.to_owned()) {
                let list = env.as_array().into_iter().flatten();
                let named = list.filter(|variable| variable["name"] == name);
                open.extend(named.filter_map(|variable| variable["value"].as_str()));
            }
        }
    }
    needed
}

/// The names in `$(NAME)`.
fn referred(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split("$(").skip(1);
    parts.filter_map(|part| Some(part.split_once(')')?.0))
}

/// Of `--password VALUE` the value is a word of its own.
fn secret_arguments(words: &mut [Value]) {
    let mut follows = false;
    for value in words {
        let Value::String(text) = value else {
            follows = false;
            continue;
        };
        let is_flag = text.starts_with('-');
        if follows && !is_flag {
            REDACTED.clone_into(text);
        }
        follows = is_flag && !text.contains('=') && is_secret(text) && !is_reference(text);
    }
}

/// A text without the value of `name=value` where the name says that it is secret, and without what stands before the @
/// of an address.
fn word(text: &str) -> String {
    without_users(&without_values(text))
}

fn without_values(text: &str) -> String {
    // Mount options and connection strings separate by these.
    const SEPARATORS: [char; 6] = [' ', ',', ';', '&', '\n', '\t'];
    if !text.contains('=') {
        return text.to_owned();
    }
    let mut clean = String::with_capacity(text.len());
    let parts = text.split_inclusive(SEPARATORS);
    for part in parts {
        let body = part.trim_end_matches(SEPARATORS);
        let end = &part[body.len()..];
        match body.split_once('=') {
            Some((name, value)) if !value.is_empty() && is_secret(name) && !is_reference(name) => {
                clean.push_str(name);
                clean.push('=');
                clean.push_str(REDACTED);
            }
            _ => clean.push_str(body),
        }
        clean.push_str(end);
    }
    clean
}

fn without_users(text: &str) -> String {
    const SCHEME: &str = "://";
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(SCHEME) {
        let (before, after) = rest.split_at(at + SCHEME.len());
        clean.push_str(before);
        let end = after.find(|char: char| char.is_whitespace() || "/?#\"'<>,".contains(char));
        let authority = &after[..end.unwrap_or(after.len())];
        rest = match authority.rfind('@') {
            Some(at) => {
                clean.push_str(REDACTED);
                &after[at..]
            }
            None => after,
        };
    }
    clean.push_str(rest);
    clean
}

/// Whether a name says that its value is a secret.
fn is_secret(name: &str) -> bool {
    let letters: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|char| char.to_ascii_lowercase())
        .collect();
    letters == "pass" || SECRET_WORDS.iter().any(|word| letters.contains(word))
}

/// Whether a name says that its value only tells where the secret is.
fn is_reference(name: &str) -> bool {
    let letters = name.to_ascii_lowercase();
    let ends = [
        "name",
        "namespace",
        "ref",
        "path",
        "dir",
        "file",
        "ttl",
        "resourceversion",
    ];
    ends.iter().any(|end| letters.ends_with(end))
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
        ] {
            let clean = cleaned(dirty.clone()).to_string();
            assert!(dirty.to_string().contains(MARK));
            assert!(!clean.contains(MARK), "{clean}");
        }
        let services = json!([{"name": "HTTPS_PROXY", "value": format!("http://u:{MARK}@p")}, {"name": "A", "value": MARK}]);
        let clean = document(&services.to_string());
        assert!(
            clean.contains("HTTPS_PROXY") && !clean.contains(MARK),
            "{clean}"
        );
        assert!(!document(&format!("a=b\npassword={MARK}")).contains(MARK));
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
                    "args": ["--v=5", "--kubelet-registration-path=$(SOCK)", "--endpoint=unix://tmp/csi.sock"],
                    "env": [{"name": "BASE", "value": "C:\\var"}, {"name": "SOCK", "value": "$(BASE)\\csi.sock"}],
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
