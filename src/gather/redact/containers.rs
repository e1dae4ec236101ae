//! Redacts containers. Keeps what the assessment reads and how they are configured to run.
//!
//! Commands, arguments, probes and lifecycle hooks may contain anything.

use serde_json::{Map, Value, json};

use super::REDACTED;
use super::text::hides;
use crate::objects;

/// Fields to keep. Their only free text is names.
const KEPT: [&str; 16] = [
    "envFrom",
    "image",
    "imagePullPolicy",
    "name",
    "ports",
    "resizePolicy",
    "resources",
    "restartPolicy",
    "securityContext",
    "stdin",
    "targetContainerName",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
];

/// Redacts a container.
pub fn container(container: &mut Value) {
    let Value::Object(fields) = container else {
        *container = REDACTED.into();
        return;
    };
    let flags = driver_flags(fields);
    for (name, value) in fields.iter_mut() {
        match (name.as_str(), &*value) {
            ("env", _) => variables(value),
            ("command" | "args", Value::Array(words)) if !words.is_empty() => {
                *value = json!([REDACTED]);
            }
            (_, Value::Null) => {}
            (name, _) if KEPT.contains(&name) => {}
            _ => *value = REDACTED.into(),
        }
    }
    if !flags.is_empty() {
        let redacted = [REDACTED.to_owned()].into_iter();
        let words: Vec<String> = redacted.chain(flags).collect();
        fields.insert("args".to_owned(), json!(words));
    }
}

/// Returns the flags in which the assessment finds the names of drivers, with variables expanded: the path that the registrar
/// passes to the kubelet, and the driver's own name. Redacts parts that cannot be driver names, and does not expand variables
/// with secret names.
fn driver_flags(fields: &Map<String, Value>) -> Vec<String> {
    let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let mut env = field("env");
    if let Some(env) = env.as_array_mut() {
        env.retain(|variable| !variable["name"].as_str().is_some_and(hides));
    }
    let container = json!({"command": field("command"), "args": field("args"), "env": env});
    let flag = |flag: &str, path: String| {
        let parts: Vec<&str> = path.split(['\\', '/']).map(plain).collect();
        format!("--{flag}={}", parts.join("/"))
    };
    let [path, registry, name] = objects::driver_flags(&container);
    let path = path.map(|path| flag("kubelet-registration-path", path));
    let registry = registry.map(|path| flag("plugin-registration-path", path));
    let name = name.map(|name| format!("--drivername={}", plain(&name)));
    path.into_iter().chain(registry).chain(name).collect()
}

/// Redacts a text that cannot be the name of a driver.
fn plain(text: &str) -> &str {
    /// The longest driver name.
    const LONGEST: usize = 63;
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "._-:".contains(char);
    if text.len() <= LONGEST && text.chars().all(is_plain) {
        text
    } else {
        REDACTED
    }
}

/// Redacts the values of named variables.
pub fn variables(list: &mut Value) {
    for variable in list.as_array_mut().into_iter().flatten() {
        if let Some(value) = variable.get_mut("value") {
            *value = REDACTED.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(whole: &Value) -> Value {
        let mut redacted = whole.clone();
        container(&mut redacted);
        redacted
    }

    #[test]
    fn the_path_for_the_kubelet_is_read_as_before() {
        let env = json!([{"name": "BASE", "value": "C:\\var"}, {"name": "SOCK", "value": "$(BASE)\\a.b\\csi.sock"}]);
        for words in [
            json!({"args": ["--v=5", "--kubelet-registration-path=$(SOCK)"], "env": env}),
            json!({"args": ["--kubelet-registration-path", "$(SOCK)", "--x"], "env": env}),
            json!({"command": ["a.exe", "--kubelet-registration-path=C:\\var\\a.b\\csi.sock"]}),
            json!({"command": ["sh", "-c", "a --kubelet-registration-path='/var/a.b/csi.sock' --x=hunter2"]}),
        ] {
            let parts = |container: &Value| {
                let path = objects::driver_flags(container)[0].clone().unwrap();
                let parts = path.split(['/', '\\']).map(str::to_owned);
                parts.filter(|part| !part.is_empty()).collect::<Vec<_>>()
            };
            let redacted = redacted(&words);
            assert_eq!(parts(&redacted), parts(&words), "{redacted}");
            assert!(!redacted.to_string().contains("hunter2"), "{redacted}");
        }
    }

    #[test]
    fn the_folder_of_registrars_is_read_as_before() {
        let words = json!({"args": ["--plugin-registration-path=C:\\k\\plugins_registry\\", "--x=hunter2"]});
        let redacted = redacted(&words);
        let registry = objects::driver_flags(&redacted)[1].clone().unwrap();
        assert_eq!(registry, "C:/k/plugins_registry/");
        assert!(!redacted.to_string().contains("hunter2"), "{redacted}");
    }

    #[test]
    fn the_name_of_a_driver_is_read_as_before() {
        for (words, name) in [
            (json!(["--v=2", "--drivername=a.b"]), "a.b"),
            (
                json!(["--driver-name", "$(NAME)", "--token=hunter2"]),
                "c.d",
            ),
            (json!(["--drivername=hunter2 x"]), REDACTED),
        ] {
            let env = json!([{"name": "NAME", "value": "c.d"}]);
            let redacted = redacted(&json!({"args": words, "env": env}));
            let [.., found] = objects::driver_flags(&redacted);
            assert_eq!(found.as_deref(), Some(name), "{redacted}");
            assert!(!redacted.to_string().contains("hunter2"), "{redacted}");
        }
    }

    #[test]
    fn no_variable_and_no_word_beside_the_path_stays() {
        for words in [
            json!({"args": ["--kubelet-registration-path=/a/$(PASSWORD)/b"], "env": [{"name": "PASSWORD", "value": "hunter2"}]}),
            json!({"command": ["sh", "-c", "a --kubelet-registration-path=/a/b --x=$(A)"], "env": [{"name": "A", "value": "hunter2"}]}),
            json!({"command": ["sh", "-c", "a --kubelet-registration-path='/a/b';P=hunter2"]}),
            json!({"command": ["sh", "-c", "a --kubelet-registration-path=/a/b"], "args": ["hunter2"]}),
        ] {
            let redacted = redacted(&words).to_string();
            let has_path = redacted.contains("--kubelet-registration-path=/a/");
            assert!(has_path && !redacted.contains("hunter2"), "{redacted}");
        }
    }
}
