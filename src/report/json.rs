//! Renders a report as JSON or YAML without hidden characters.

use std::fmt::Write;
use std::io;

use serde::Serialize;

use crate::visible::is_hidden;

/// Renders JSON with a final newline.
pub(crate) fn json(value: &impl Serialize) -> io::Result<String> {
    Ok(escaped(&serde_json::to_string_pretty(value)?, false) + "\n")
}

/// Renders YAML.
pub(super) fn yaml(value: &impl Serialize) -> io::Result<String> {
    let text = serde_yaml::to_string(value).map_err(io::Error::other)?;
    // YAML's plain and single-quoted strings have no escapes. JSON is valid YAML and can express everything.
    if text.chars().any(|char| char != '\n' && is_hidden(char)) {
        json_as_yaml(value)
    } else {
        Ok(text)
    }
}

/// Renders JSON that YAML parsers accept.
pub(crate) fn json_as_yaml(value: &impl Serialize) -> io::Result<String> {
    Ok(escaped(&serde_json::to_string_pretty(value)?, true) + "\n")
}

/// Escapes hidden characters in JSON text.
///
/// `serde_json` escapes only what JSON requires, which is less than what terminals act on. Hidden characters occur only
/// in strings and never after a lone backslash. JSON writes characters above U+FFFF as surrogate pairs, which most YAML
/// parsers do not accept.
fn escaped(json: &str, is_yaml: bool) -> String {
    let mut shown = String::with_capacity(json.len());
    for char in json.chars() {
        // Writing to a String cannot fail.
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
