//! Values that were read in two ways.

use serde_json::Value;
use windows_storage_operator::visible::is_hidden;

/// Whether two values are the same, but for the last digit of a number with a fraction.
pub fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len() && pairs.all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_in = |(name, one)| other.get(name).is_some_and(|other| is_same(one, other));
            one.len() == other.len() && one.iter().all(is_in)
        }
        (Value::Number(one), Value::Number(other)) => {
            one == other
                || match (one.as_f64(), other.as_f64()) {
                    (Some(one), Some(other)) => (one - other).abs() <= one.abs() * 1e-15,
                    _ => false,
                }
        }
        _ => one == other,
    }
}

/// Panics where a text has something in it that acts on a terminal, but for ends of lines.
pub fn is_visible(text: &str, what: &str) {
    let hidden = text.chars().find(|char| *char != '\n' && is_hidden(*char));
    assert_eq!(hidden, None, "{what}: {text:?}");
}

/// The same of every text in a value.
pub fn are_visible(value: &Value, what: &str) {
    match value {
        Value::String(text) => is_visible(text, what),
        Value::Array(items) => items.iter().for_each(|item| are_visible(item, what)),
        Value::Object(fields) => {
            for (name, value) in fields {
                is_visible(name, what);
                are_visible(value, what);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
