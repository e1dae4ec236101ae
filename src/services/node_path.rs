//! Reads values of a Node with kubectl's path notation: `{.status.addresses[?(@.type=="InternalIP")].address}`.

use std::fmt;

use serde_json::Value;
use serde_json_path::JsonPath;

/// Maximum length of a value. Addresses, names and versions are shorter.
const LONGEST: usize = 1024;

/// A path into a Node object.
#[derive(Clone, PartialEq)]
pub struct NodePath(JsonPath);

impl fmt::Debug for NodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodePath({})", self.0)
    }
}

impl NodePath {
    /// Parses a path, or explains what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = text.trim().strip_prefix('{');
        let inner = rest.and_then(|rest| rest.strip_suffix('}'));
        let inner = inner.ok_or("it is not in braces")?;
        let standard = standard(inner.trim())?;
        let path = JsonPath::parse(&standard);
        path.map(Self).map_err(|error| error.to_string())
    }

    /// Returns the single value of a Node at this path, if it is safe in a command line.
    pub fn value(&self, node: &Value) -> Result<String, String> {
        let found = self.0.query(node).all();
        let value = match found.as_slice() {
            [] => return Err("the Node object has nothing there".to_owned()),
            [value] => value,
            more => return Err(format!("the Node object has {} values there", more.len())),
        };
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Err("the Node object has no plain value there".to_owned());
            }
        };
        // It becomes part of a command that SYSTEM runs: allow nothing that could end an argument or begin another.
        let fit = |c: char| c.is_ascii_alphanumeric() || "._:/-+=@,".contains(c);
        if text.is_empty() || text.len() > LONGEST || !text.chars().all(fit) {
            let problem = "the Node object has something there that does not belong in a command";
            return Err(problem.to_owned());
        }
        Ok(text)
    }
}

/// Converts the path to the notation of RFC 9535: kubectl omits the `$` and escapes a dot in a name as `\.`.
fn standard(path: &str) -> Result<String, String> {
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    if !rest.starts_with(['.', '[']) {
        return Err("it begins with neither '.' nor '['".to_owned());
    }
    let mut standard = "$".to_owned();
    while !rest.is_empty() {
        if rest.starts_with('[') {
            let end = bracket_end(rest).ok_or("a bracket is not closed")?;
            standard.push_str(&rest[..end]);
            rest = &rest[end..];
        } else {
            let after = rest.strip_prefix('.');
            let mut after = after.ok_or("after a bracket comes neither '.' nor '['")?;
            if let Some(deeper) = after.strip_prefix('.') {
                // Recursive descent: RFC 9535 writes it the same way.
                standard.push_str("..");
                after = deeper;
            }
            let (name, remaining) = name(after);
            standard.push_str(&quoted(&name)?);
            rest = remaining;
        }
    }
    Ok(standard)
}

fn quoted(name: &str) -> Result<String, String> {
    match name {
        "" => Err("a name is missing after a dot".to_owned()),
        "*" => Ok("[*]".to_owned()),
        name => {
            let name = name.replace('\\', r"\\").replace('\'', r"\'");
            Ok(format!("['{name}']"))
        }
    }
}

/// Splits off a name up to the next dot or bracket.
fn name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, &text[at..]),
            other => name.push(other),
        }
    }
    (name, "")
}

/// Returns the position after the bracket that closes the first one, respecting quotes.
fn bracket_end(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match (quote, c) {
            (_, '\\') => drop(characters.next()),
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(path: &str) -> Result<String, String> {
        let node = json!({
            "metadata": {
                "name": "win-1",
                "annotations": {"k8s.ovn.org/node-mac": "0a:58", "evil": "x\" -y", "sub'net": "10.1.0.0/24"}
            },
            "status": {
                "addresses": [
                    {"type": "Hostname", "address": "win-1"},
                    {"type": "InternalIP", "address": "10.0.0.4"}
                ],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}
            }
        });
        NodePath::parse(path)?.value(&node)
    }

    #[test]
    fn reads_what_kubectl_reads() {
        for (path, wanted) in [
            ("{.metadata.name}", "win-1"),
            ("{$.metadata.name}", "win-1"),
            (
                r#"{.status.addresses[?(@.type=="InternalIP")].address}"#,
                "10.0.0.4",
            ),
            ("{.status.addresses[1].address}", "10.0.0.4"),
            (r"{.metadata.annotations.k8s\.ovn\.org/node-mac}", "0a:58"),
            ("{.metadata.annotations['k8s.ovn.org/node-mac']}", "0a:58"),
            ("{.metadata.annotations.sub'net}", "10.1.0.0/24"),
            ("{.status.daemonEndpoints.kubeletEndpoint.Port}", "10250"),
            ("{..Port}", "10250"),
        ] {
            assert_eq!(value(path).as_deref(), Ok(wanted), "{path}");
        }
    }

    #[test]
    fn a_value_is_one_and_plain_and_fit_for_a_command() {
        for path in [
            "{.metadata.labels.x}",
            "{.status.addresses[*].address}",
            "{.metadata.annotations}",
            "{.metadata.annotations.evil}",
        ] {
            assert!(value(path).is_err(), "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in [
            "",
            ".metadata.name",
            "{metadata.name}",
            "{.metadata..}",
            "{.a[0}",
            "{.a[?(@.b=}",
            "{.}",
            // Only a dot or a bracket may follow a bracket.
            "{.a['b']\u{e9}}",
            "{.a['b']c}",
        ] {
            assert!(NodePath::parse(path).is_err(), "{path}");
        }
    }
}
