//! What must-gather takes out.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use windows_storage_operator::gather::redact;

use super::parts;

const CANARY: &str = "canary-7f3a";
/// Below these the names and values are kept, because selectors must still fit them.
const KEPT: [&str; 4] = ["labels", "matchLabels", "nodeSelector", "selector"];
/// Fields whose values are lists of a shape of their own: what is put into them is not what stands there in a cluster.
const SHAPED: &str = "ports securityContext resources volumeMounts envFrom";

/// The ways in which the secret may stand in an object: a field's name and its value.
static FORMS: LazyLock<Vec<(String, Value)>> =
    LazyLock::new(|| serde_yaml::from_str(include_str!("secrets.yaml")).unwrap());

/// Puts a secret into any object at any place: after redaction it is gone.
pub fn redaction(bytes: &[u8]) {
    let [place, text] = parts::<2>(bytes);
    let Ok(Value::Object(mut object)) = serde_json::from_str::<Value>(&text) else {
        return;
    };
    if text.contains(CANARY) {
        return;
    }
    let mut steps = place.bytes().map(usize::from);
    let (name, value) = &FORMS[steps.next().unwrap_or_default() % FORMS.len()];
    put(&mut object, &mut steps, name, value);
    let whole = Value::Object(object);
    let mut redacted = whole.clone();
    redact::object("Pod", &mut redacted);
    let shown = redacted.to_string();
    assert!(!shown.contains(CANARY), "{shown}");
    // Of a ConfigMap what is not known to be harmless goes, whatever its name.
    let data = json!({"services": whole.to_string(), "any": format!("net use {CANARY}")});
    let mut map = json!({"data": data});
    redact::object("ConfigMap", &mut map);
    let shown = map.to_string();
    assert!(!shown.contains(CANARY), "{shown}");
}

/// Goes down by the steps as far as there is something, and puts the value there.
fn put(
    object: &mut Map<String, Value>,
    steps: &mut dyn Iterator<Item = usize>,
    name: &str,
    value: &Value,
) {
    let at = steps.next().unwrap_or_default();
    let inner: Vec<String> = object
        .iter()
        .filter(|(name, value)| {
            let name = name.as_str();
            let is_left = KEPT.contains(&name) || SHAPED.split(' ').any(|it| it == name);
            !is_left && (value.is_object() || value.is_array())
        })
        .map(|(name, _)| name.clone())
        .collect();
    // One more than there are: here.
    let next = inner.get(at % (inner.len() + 1));
    match next.and_then(|name| object.get_mut(name)) {
        Some(Value::Object(inner)) => put(inner, steps, name, value),
        Some(Value::Array(items)) => {
            if let Some(inner) = items.iter_mut().find_map(Value::as_object_mut) {
                put(inner, steps, name, value);
            } else {
                items.push(json!({name: value}));
            }
        }
        _ => {
            object.insert(name.to_owned(), value.clone());
        }
    }
}
