//! Redacts values of `ConfigMap`s. Keeps what the assessment reads, and the names and programs of services.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::REDACTED;
use super::text::{hides, pattern, program};
use crate::node::{ACCEPTED, FIRST_CONTACT};

/// Harmless texts: nothing, a vSphere feature switch, an instance's user, or a host key with the operator's own comments.
static PLAIN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(
        r"^ \s* (
            true | false
            | username= [\w.\\@-]*
            | (ssh|ecdsa|sk)- \S* \s+ AAAA [A-Za-z0-9+/=]* ( \s+ ({FIRST_CONTACT}|{ACCEPTED}) )*
        )? \s* $"
    ))
});

/// Redacts `data` of a ConfigMap. Of a list of services, their fields stay, with names, programs, switches and numbers.
pub fn values(data: &mut Map<String, Value>) {
    for (name, value) in data {
        let text = value.as_str().unwrap_or_default();
        *value = match serde_json::from_str::<Vec<Map<String, Value>>>(text) {
            _ if PLAIN.is_match(text) => text.into(),
            Ok(mut services) if !hides(name) => {
                services.iter_mut().flatten().for_each(service);
                format!("{:#}", Value::from(services)).into()
            }
            _ => REDACTED.into(),
        };
    }
}

fn service((field, value): (&String, &mut Value)) {
    match (field.as_str(), &mut *value) {
        ("path", Value::String(path)) => *path = program(path),
        ("name", Value::String(_)) | ("priority", Value::Number(_)) | (_, Value::Bool(_)) => {}
        _ => *value = REDACTED.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_read_stays_and_the_rest_goes() {
        let services = json!([{"name": "kubelet", "path": r"C:\k\kubelet.exe --token hunter2", "dependencies": ["hunter2"],
            "powershellPreScripts": [{"variableName": "IP", "path": "New-SmbGlobalMapping -Password hunter2"}],
            "priority": 2, "bootstrap": false, "pin": 1234}]);
        let files = json!([{"path": r"C:\k\kubelet.exe", "checksum": "hunter2"}]);
        let key = "ssh-ed25519 AAAAC3Nz stored-at-first-contact";
        let mut data = json!({"services": services.to_string(), "files": files.to_string(), "environmentVars": "{\"path\": \"hunter2\"}", "lists": "[[\"a\", \"hunter2\"]]", "10.0.0.1": "username=Administrator", "node": key,
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
        let path = format!(r"C:\k\kubelet.exe {REDACTED}");
        let expected = json!([{"name": "kubelet", "path": path, "dependencies": REDACTED, "powershellPreScripts": REDACTED,
            "priority": 2, "bootstrap": false, "pin": REDACTED}]);
        assert_eq!(document, expected);
        assert_eq!(data["environmentVars"], REDACTED);
        assert_eq!(data["lists"], REDACTED);
    }
}
