//! Reads the flags of a container that show which driver it registers.

use std::collections::HashMap;

use serde_json::Value;

use super::Container;
use crate::objects::decode;

/// The flags that show which driver a container registers: the registrar's with the driver's socket, as the kubelet sees it;
/// the registrar's with the kubelet's folder of registrars, as a HostProcess container sees it; and the drivers' with their
/// name, that of SMB, Azure Disk, Azure File and most others, and those of the rest.
const FLAGS: [&[&str]; 3] = [
    &["kubelet-registration-path"],
    &["plugin-registration-path"],
    &["drivername", "driver-name", "driver_name"],
];
/// The longest value that is read, with its variables replaced: Windows' paths have 260 characters. Anyone who can create a
/// pod controls the variables.
pub(super) const LONGEST_VALUE: usize = 512;

/// Returns the socket, the folder and the name that the flags of an undecoded container say.
pub fn driver_flags(container: &Value) -> [Option<String>; 3] {
    let container = decode(container);
    container
        .map(|container| values(&container))
        .unwrap_or_default()
}

/// Returns the values of the [flags](FLAGS).
pub(super) fn values(container: &Container) -> [Option<String>; 3] {
    FLAGS.map(|flags| value(container, flags))
}

/// Whether a part of the text is not known: a variable that only the kubelet knows, or what must-gather has left out.
pub(super) fn is_open(text: &str) -> bool {
    text.contains('(')
}

/// Returns the value of the first of these flags, with variables replaced.
fn value(container: &Container, flags: &[&str]) -> Option<String> {
    let mut words = container.command.iter().chain(&container.args).flatten();
    while let Some(word) = words.next() {
        let mut found = flags.iter().flat_map(|flag| in_word(word, flag));
        let Some(found) = found.next() else {
            continue;
        };
        let value = match found {
            Some(value) => value,
            None => words.next()?,
        };
        let mut known = HashMap::new();
        for variable in container.env.iter().flatten() {
            let name = variable.name.as_deref().unwrap_or_default();
            match &variable.value {
                Some(value) => known.insert(name, expand(value, &known)),
                None => known.remove(name),
            };
        }
        return Some(expand(value.trim_matches(['"', '\'']), &known));
    }
    None
}

/// Finds a flag in a word: `--flag=value` or `--flag`, or inside a shell command line. Without a value, that is the next word.
fn in_word<'a>(word: &'a str, flag: &str) -> impl Iterator<Item = Option<&'a str>> {
    word.match_indices(flag).filter_map(move |(at, flag)| {
        let (before, rest) = (&word[..at], &word[at + flag.len()..]);
        let start = before.trim_end_matches('-');
        let is_whole = start.is_empty();
        let is_longer =
            start.ends_with(|char: char| char.is_alphanumeric() || "._$".contains(char));
        if start.len() == before.len() || is_longer {
            return None;
        }
        match rest.strip_prefix(['=', ' ']) {
            Some(value) if is_whole => Some(Some(value)),
            Some(value) => value.split_whitespace().next().map(Some),
            None => (is_whole && rest.is_empty()).then_some(None),
        }
    })
}

/// Replaces `$(NAME)` by the variables that are known so far, as the kubelet does. Cuts off what is too long.
fn expand(text: &str, known: &HashMap<&str, String>) -> String {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("$(")
        && let Some((name, after)) = after.split_once(')')
        && expanded.len() < LONGEST_VALUE
    {
        expanded.push_str(before);
        match known.get(name) {
            Some(value) => expanded.push_str(value),
            None => expanded.extend(["$(", name, ")"]),
        }
        rest = after;
    }
    expanded.push_str(rest);
    let mut end = expanded.len().min(LONGEST_VALUE);
    while !expanded.is_char_boundary(end) {
        end -= 1;
    }
    expanded.truncate(end);
    expanded
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_are_replaced_as_the_kubelet_does_and_within_bounds() {
        let expand = |text: &str, variables: &[(&str, &str)]| {
            let env: Vec<_> = variables
                .iter()
                .map(|(name, value)| json!({"name": name, "value": value}))
                .collect();
            let flag = format!("--kubelet-registration-path={text}");
            let container = json!({"args": [flag], "env": env});
            driver_flags(&container)[0].clone().unwrap()
        };
        assert_eq!(expand("$(A)/$(B)", &[("A", "a"), ("B", "$(A)b")]), "a/ab");
        assert_eq!(expand("$(A)", &[("A", "$(B)"), ("B", "b")]), "$(B)");
        assert_eq!(expand("$(A)", &[("A", "1"), ("A", "2")]), "2");
        assert_eq!(expand("$(A)$(", &[]), "$(A)$(");
        let long = "\u{e9}".repeat(1 << 20);
        let many = "$(A)".repeat(1 << 18);
        assert_eq!(expand(&many, &[("A", &long)]).len(), LONGEST_VALUE);
        assert!(expand(&many, &[("A", "")]).len() <= LONGEST_VALUE);
        let twice: Vec<(String, String)> = (1..80)
            .map(|n| (format!("V{n}"), format!("$(V{})$(V{})", n - 1, n - 1)))
            .collect();
        let mut chain = vec![("V0", "x")];
        chain.extend(twice.iter().map(|(name, value)| (&**name, &**value)));
        assert!(expand("$(V79)", &chain).len() <= LONGEST_VALUE);
    }

    #[test]
    fn a_flag_is_found_by_its_whole_name() {
        for (words, name) in [
            (json!(["--drivername=a.b"]), Some("a.b")),
            (json!(["-v=2", "-drivername", "a.b", "--x"]), Some("a.b")),
            (json!(["--driver-name=\"a.b\""]), Some("a.b")),
            (json!(["--driver_name=$(NAME)"]), Some("c.d")),
            (
                json!(["cmd", "/c smb.exe --v=2 --drivername='a.b' --x"]),
                Some("a.b"),
            ),
            (json!(["--drivername"]), None),
            (json!(["--drivername-prefix=a.b"]), None),
            (json!(["--csi-driver-name=a.b"]), None),
            (json!(["--csi_driver_name=a.b"]), None),
            (json!(["drivername=a.b"]), None),
            (json!(["--label", "driver-name"]), None),
        ] {
            let container = json!({"args": words, "env": [{"name": "NAME", "value": "c.d"}]});
            assert_eq!(driver_flags(&container)[2].as_deref(), name, "{words}");
        }
    }
}
