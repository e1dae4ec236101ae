//! The `windows-instances` ConfigMap: the user to log in with, by address.
//!
//! Source of the format: WMCO, `<IPv4 address or DNS name>: username=<user>`.

use std::collections::BTreeMap;

/// The ConfigMap's name.
pub const INSTANCES_CONFIG_MAP: &str = "windows-instances";

/// The user for each address, or what is wrong with its entry.
pub type Instances = BTreeMap<String, Result<String, String>>;

/// Parses the ConfigMap's data. An invalid entry affects only its own address.
#[must_use]
pub fn parse(data: &BTreeMap<String, String>) -> Instances {
    let user_of = |(address, line): (&String, &String)| {
        let address = address.trim();
        (address.to_owned(), user(address, line))
    };
    data.iter().map(user_of).collect()
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
    let is_unusable = |c: char| c.is_whitespace() || c.is_control() || "/:;,\"".contains(c);
    if user.is_empty() || user.len() > 256 || user.contains(is_unusable) {
        return problem("names no usable user");
    }
    Ok(user.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_user_or_is_refused_for_its_own_address_alone() {
        for (line, user) in [
            ("username=Administrator", "Administrator"),
            ("  username = CORP\\ops \n", "CORP\\ops"),
            ("", ""),
            ("Administrator", ""),
            ("user=x", ""),
            ("username=", ""),
            ("username=a b", ""),
            ("username=a\nb", ""),
            ("username=a,b", ""),
        ] {
            let data = [("10.1.2.3", line), ("b", "username=u")];
            let data = data.map(|(address, line)| (address.to_owned(), line.to_owned()));
            let read = parse(&data.into());
            match &read["10.1.2.3"] {
                Ok(read) => assert_eq!(read, user),
                Err(problem) => assert!(
                    user.is_empty() && problem.contains("10.1.2.3: username=<user>"),
                    "{line:?}: {problem}"
                ),
            }
            assert_eq!(read["b"].as_deref(), Ok("u"));
        }
    }
}
