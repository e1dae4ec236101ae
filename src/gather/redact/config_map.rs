//! Redacts values of `ConfigMap`s. Keeps their structure and what the assessment reads.

use serde_json::{Map, Value};

use super::REDACTED;
use super::text::{hides, program};
use crate::node::{ACCEPTED, FIRST_CONTACT};

/// String fields of the services document that only identify services, files or variables.
const KEPT: [&str; 6] = [
    "name",
    "checksum",
    "dependencies",
    "nodeObjectJsonPath",
    "variableName",
    "watchedEnvironmentVars",
];

/// Redacts `data` of a ConfigMap.
pub fn values(data: &mut Map<String, Value>) {
    for (name, value) in data {
        let text = value.as_str().unwrap_or_default();
        *value = match serde_json::from_str(text) {
            _ if is_plain(text) => text.into(),
            Ok(mut document @ (Value::Object(_) | Value::Array(_))) if !hides(name) => {
                structure(&mut document, "");
                format!("{document:#}").into()
            }
            _ => REDACTED.into(),
        };
    }
}

/// Redacts a value. `name` is the field that contains it, directly or in a list.
fn structure(value: &mut Value, name: &str) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Array(items) => items.iter_mut().for_each(|item| structure(item, name)),
        _ if hides(name) => *value = REDACTED.into(),
        // Names of variables are chosen by the author, so all values are redacted.
        Value::Object(variables) if name == "environmentVars" => {
            variables
                .values_mut()
                .for_each(|value| *value = REDACTED.into());
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                structure(value, name);
            }
        }
        Value::String(path) if name == "path" => *path = program(path),
        Value::String(_) if !KEPT.contains(&name) => *value = REDACTED.into(),
        Value::String(_) | Value::Number(_) => {}
    }
}

/// Whether a text is harmless: a vSphere feature switch, an instance's user, or a host key as the operator stores it.
fn is_plain(text: &str) -> bool {
    /// Comments that the operator adds to host keys.
    const COMMENTS: [&str; 2] = [FIRST_CONTACT, ACCEPTED];
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_base64 = |text: &str| {
        text.starts_with("AAAA")
            && text
                .chars()
                .all(|char| char.is_ascii_alphanumeric() || "+/=".contains(char))
    };
    match words[..] {
        [] | ["true" | "false"] => true,
        [word] => word.strip_prefix("username=").is_some_and(|user| {
            let is_plain = |char: char| char.is_alphanumeric() || "._-\\@".contains(char);
            user.chars().all(is_plain)
        }),
        [kind, key, ref comment @ ..] => {
            let mut kinds = ["ssh-", "ecdsa-", "sk-"].iter();
            let is_kind = kinds.any(|begin| kind.starts_with(begin));
            is_kind && is_base64(key) && comment.iter().all(|word| COMMENTS.contains(word))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_read_stays_and_the_rest_goes() {
        let services = json!({
            "services": [{"name": "kubelet", "path": r"C:\k\kubelet.exe --token hunter2", "dependencies": ["containerd"],
                "powershellPreScripts": [{"variableName": "IP", "path": "New-SmbGlobalMapping -Password hunter2"}], "priority": 2}],
            "files": [{"path": r"C:\k\kubelet.exe", "checksum": "0123"}],
            "environmentVars": {"HTTPS_PROXY": "http://u:hunter2@p", "path": "hunter2"},
            "password": 1234, "tokens": ["hunter2"], "credentials": {"name": "hunter2"},
        });
        let key = "ssh-ed25519 AAAAC3Nz stored-at-first-contact";
        let mut data = json!({"services": services.to_string(), "10.0.0.1": "username=Administrator", "node": key,
            "csi-windows-support": "true", "note": "net use x hunter2 /user:a", "token": "hunter2", "yaml": "password: hunter2",
            "10.0.0.2": "username=a password=hunter2", "key": "ssh-ed25519 AAAA hunter2"});
        values(data.as_object_mut().unwrap());
        let text = data.to_string();
        assert!(
            !text.contains("hunter2") && !text.contains("1234"),
            "{text}"
        );
        assert_eq!(data["10.0.0.1"], "username=Administrator");
        assert_eq!(data["node"], key);
        assert_eq!(data["csi-windows-support"], "true");
        let document: Value = serde_json::from_str(data["services"].as_str().unwrap()).unwrap();
        assert_eq!(document["environmentVars"]["HTTPS_PROXY"], REDACTED);
        assert_eq!(document["files"][0]["path"], r"C:\k\kubelet.exe");
        let service = &document["services"][0];
        assert_eq!(service["name"], "kubelet");
        assert_eq!(service["dependencies"][0], "containerd");
        assert_eq!(service["priority"], 2);
        assert_eq!(service["path"], format!(r"C:\k\kubelet.exe {REDACTED}"));
    }
}
