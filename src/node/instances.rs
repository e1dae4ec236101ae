//! The `windows-instances` ConfigMap: the user to log in with, by address.
//!
//! Source of the format: WMCO, `<IPv4 address or DNS name>: username=<user>`.

use std::collections::BTreeMap;

/// The ConfigMap's name.
pub const INSTANCES_CONFIG_MAP: &str = "windows-instances";

/// Users by address, and the lines that make no sense.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instances {
    /// For each address its user, or what is wrong with its line.
    pub by_address: BTreeMap<String, Result<String, String>>,
}

/// Reads the ConfigMap's data. A bad line concerns only its own address.
#[must_use]
pub fn parse(data: &BTreeMap<String, String>) -> Instances {
    let by_address = data
        .iter()
        .map(|(address, line)| (address.trim().to_owned(), user(address, line)))
        .collect();
    Instances { by_address }
}

fn user(address: &str, line: &str) -> Result<String, String> {
    let problem = |what: &str| {
        Err(format!(
            "the entry {address:?} of ConfigMap {INSTANCES_CONFIG_MAP} {what}; write it as {address}: username=<user>"
        ))
    };
    let Some((key, user)) = line.trim().split_once('=') else {
        return problem("has no username=");
    };
    let user = user.trim();
    if key.trim() != "username" {
        return problem("starts with something else than username=");
    }
    if user.is_empty()
        || user.len() > 256
        || user
            .chars()
            .any(|c| c.is_whitespace() || c.is_control() || "/:;,\"".contains(c))
    {
        return problem("names no usable user");
    }
    Ok(user.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<String, String> {
        parse(&BTreeMap::from([("10.1.2.3".to_owned(), line.to_owned())]))
            .by_address
            .remove("10.1.2.3")
            .unwrap()
    }

    #[test]
    fn a_line_names_a_user() {
        assert_eq!(
            read("username=Administrator").as_deref(),
            Ok("Administrator")
        );
        assert_eq!(
            read("  username = CORP\\ops \n").as_deref(),
            Ok("CORP\\ops")
        );
    }

    #[test]
    fn lines_that_make_no_sense_say_how_to_write_them() {
        for line in [
            "",
            "Administrator",
            "user=x",
            "username=",
            "username=a b",
            "username=a\nb",
            "username=a,b",
        ] {
            let problem = read(line).unwrap_err();
            assert!(
                problem.contains("10.1.2.3: username=<user>"),
                "{line:?}: {problem}"
            );
        }
    }

    #[test]
    fn a_bad_line_does_not_spoil_the_others() {
        let data = BTreeMap::from([
            ("a".to_owned(), "?".to_owned()),
            ("b".to_owned(), "username=u".to_owned()),
        ]);
        let instances = parse(&data);
        assert!(instances.by_address["a"].is_err());
        assert_eq!(instances.by_address["b"].as_deref(), Ok("u"));
    }
}
