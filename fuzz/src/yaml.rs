//! YAML in blocks, with every text in quotes: what plain words mean differs between the versions of YAML, and that is not
//! what is asked here.

use std::fmt::Write;

use serde_json::Value;
use windows_storage_operator::visible::is_hidden;

/// The value as a document.
pub fn written(value: &Value) -> String {
    let mut text = String::new();
    put(&mut text, value, 0);
    text.push('\n');
    text
}

fn put(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                line(text, depth);
                text.push_str("- ");
                put(text, item, depth + 1);
            }
        }
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                line(text, depth);
                // A name may be longer than what may stand before a colon without a question mark.
                text.push_str("? ");
                quote(text, name);
                line(text, depth);
                text.push_str(": ");
                put(text, value, depth + 1);
            }
        }
        Value::String(string) => quote(text, string),
        other => {
            let _ = write!(text, "{other}");
        }
    }
}

fn line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n(' ', depth));
}

fn quote(text: &mut String, string: &str) {
    text.push('"');
    for char in string.chars() {
        match char {
            '"' | '\\' => text.extend(['\\', char]),
            char if is_hidden(char) || !char.is_ascii() => {
                let _ = write!(text, "\\U{:08x}", u32::from(char));
            }
            char => text.push(char),
        }
    }
    text.push('"');
}
