//! Renders a report as JSON or YAML, with nothing hidden.

use std::fmt::Write;
use std::io;

use serde::Serialize;

use crate::visible::is_hidden;

/// JSON for people and programs, its last line ended.
pub(crate) fn json(value: &impl Serialize) -> io::Result<String> {
    Ok(escaped(&serde_json::to_string_pretty(value)?, false) + "\n")
}

/// The same as YAML.
pub(super) fn yaml(value: &impl Serialize) -> io::Result<String> {
    let text = serde_yaml::to_string(value).map_err(io::Error::other)?;
    // YAML's plain and single-quoted strings know no escapes. JSON is YAML too and can say everything.
    if text.chars().any(|char| char != '\n' && is_hidden(char)) {
        json_as_yaml(value)
    } else {
        Ok(text)
    }
}

/// JSON for readers of YAML.
pub(crate) fn json_as_yaml(value: &impl Serialize) -> io::Result<String> {
    Ok(escaped(&serde_json::to_string_pretty(value)?, true) + "\n")
}

/// A JSON text that means the same and has nothing hidden.
///
/// `serde_json` escapes only what JSON demands, and that is less than what terminals act on. Hidden characters are in
/// strings alone, never after a lone backslash. JSON writes those that do not fit into four digits as two halves, which
/// most readers of YAML do not know.
fn escaped(json: &str, is_yaml: bool) -> String {
    let mut shown = String::with_capacity(json.len());
    for char in json.chars() {
        // Writing to a String does not fail.
        if char == '\n' || !is_hidden(char) {
            shown.push(char);
        } else if is_yaml && char > '\u{ffff}' {
            let _ = write!(shown, "\\U{:08x}", u32::from(char));
        } else {
            for half in char.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{half:04x}");
            }
        }
    }
    shown
}
