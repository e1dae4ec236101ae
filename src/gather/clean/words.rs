//! What names say of their values, and texts with such names in them.

use serde_json::Value;

use super::{REDACTED, data};

/// Parts of names that say of a value that it is secret.
const SECRET_WORDS: [&str; 12] = [
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "authorization",
    "signature",
    "cookie",
    "apikey",
    "accesskey",
];
/// Names that are this and nothing else.
const SECRET_NAMES: [&str; 3] = ["pass", "sig", "auth"];
/// Names of keys that are no keys to anything.
const PLAIN_KEYS: [&str; 3] = ["topologykey", "hostkey", "publickey"];

/// Whether a name says that its value is a secret.
pub fn is_secret(name: &str) -> bool {
    let letters: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|char| char.to_ascii_lowercase())
        .collect();
    // A selector's field is just called key.
    let is_key = letters.len() > "key".len()
        && letters.ends_with("key")
        && !PLAIN_KEYS.iter().any(|plain| letters.ends_with(plain));
    is_key
        || SECRET_NAMES.contains(&&*letters)
        || SECRET_WORDS.iter().any(|word| letters.contains(word))
}

/// Whether a name says that its value only tells where the secret is.
pub fn is_reference(name: &str) -> bool {
    let letters = name.to_ascii_lowercase();
    let ends = [
        "name",
        "namespace",
        "ref",
        "path",
        "dir",
        "file",
        "ttl",
        "resourceversion",
    ];
    ends.iter().any(|end| letters.ends_with(end))
}

fn hides(name: &str) -> bool {
    is_secret(name) && !is_reference(name)
}

/// A text without what follows a name that says that it is secret, and without what stands before the @ of an address.
pub fn text(text: &str) -> String {
    if let Some(clean) = json(text) {
        return clean;
    }
    without_users(&without_values(text))
}

/// A text that is a document in itself.
fn json(text: &str) -> Option<String> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let whole: Value = serde_json::from_str(text).ok()?;
    let mut clean = whole.clone();
    data(&mut clean);
    (clean != whole).then(|| clean.to_string())
}

fn without_values(text: &str) -> String {
    // Mount options and connection strings separate by these.
    const SEPARATORS: [char; 6] = [' ', ',', ';', '&', '\n', '\t'];
    let mut clean = String::with_capacity(text.len());
    let mut follows = false;
    for part in text.split_inclusive(SEPARATORS) {
        let body = part.trim_end_matches(SEPARATORS);
        let end = &part[body.len()..];
        if follows && !body.is_empty() {
            clean.push_str(REDACTED);
            follows = is_scheme(body);
        } else if let Some(value) = value_in(body) {
            clean.push_str(&body[..value]);
            clean.push_str(REDACTED);
        } else {
            clean.push_str(body);
            // An empty part between two separators ends nothing.
            follows = (follows && body.is_empty()) || is_scheme(body) || is_flag(body);
        }
        clean.push_str(end);
    }
    clean
}

/// Where a value begins that its name says to be secret.
fn value_in(body: &str) -> Option<usize> {
    let is_flag = body.starts_with(['-', '/']);
    let ends = body
        .char_indices()
        .filter(|(_, char)| *char == '=' || (is_flag && *char == ':'));
    ends.map(|(at, _)| at).find_map(|at| {
        let before = &body[..at];
        let name = before.rsplit(['=', '?', '"', '\'', '{', '(']).next();
        let is_hidden = at + 1 < body.len() && name.is_some_and(hides);
        is_hidden.then_some(at + 1)
    })
}

/// `--password`, `-Password`, `/password`: the value is the next word.
pub fn is_flag(body: &str) -> bool {
    let name = body.trim_start_matches(['-', '/']);
    name.len() < body.len() && !name.contains(['=', '/', ':', '\\']) && hides(name)
}

fn is_scheme(body: &str) -> bool {
    ["Bearer", "Basic"].contains(&body)
}

fn without_users(text: &str) -> String {
    const SCHEME: &str = "://";
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(SCHEME) {
        let (before, after) = rest.split_at(at + SCHEME.len());
        clean.push_str(before);
        let end = after.find(|char: char| char.is_whitespace() || "/?#\"'<>,".contains(char));
        let authority = &after[..end.unwrap_or(after.len())];
        rest = match authority.rfind('@') {
            Some(at) => {
                clean.push_str(REDACTED);
                &after[at..]
            }
            None => after,
        };
    }
    clean.push_str(rest);
    clean
}

/// The program of a command, without its arguments.
pub fn program(command: &str) -> String {
    let command = command.trim();
    let quoted = command
        .strip_prefix('"')
        .and_then(|rest| rest.split_once('"'));
    let (program, rest) = match quoted {
        Some((program, rest)) => (program, rest.trim()),
        None => command.split_once(' ').unwrap_or((command, "")),
    };
    let is_plain = |char: char| char.is_alphanumeric() || r"\/:._-() ".contains(char);
    match (program.chars().all(is_plain), rest.is_empty()) {
        (true, true) => program.to_owned(),
        (true, false) => format!("{program} {REDACTED}"),
        (false, _) => REDACTED.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_lose_what_follows_a_secret_name_in_every_notation() {
        const MARK: &str = "hunter2";
        for dirty in [
            "password=hunter2",
            "Server=s;Pwd=hunter2",
            "https://a.example/b?sv=1&sig=hunter2",
            "https://a.example/b?sig=hunter2",
            "https://u:hunter2@a.example/b",
            "--set=auth.password=hunter2",
            "login --password hunter2 now",
            "New-SmbGlobalMapping -Password hunter2",
            "cmdkey /password:hunter2",
            "-H Authorization: Bearer hunter2",
            r#"{"tokens":["hunter2"]}"#,
            r#"{"a":{"password":{"value":"hunter2"}}}"#,
        ] {
            let clean = text(dirty);
            assert!(!clean.contains(MARK), "{clean}");
            assert!(clean.contains(REDACTED), "{clean}");
        }
        for plain in [
            "vers=3.0,dir_mode=0777",
            "--v=5",
            r#"{"a": 1}"#,
            "https://a.example/b@c",
            "MountVolume.SetUp failed for volume \"a\" : secret \"b\" not found",
        ] {
            assert_eq!(text(plain), plain);
        }
    }

    #[test]
    fn of_a_command_the_program_stays() {
        let exe = r"C:\k\csi-proxy.exe";
        assert_eq!(program(exe), exe);
        assert_eq!(program(&format!("{exe} -v=2")), format!("{exe} {REDACTED}"));
        let quoted = r#""C:\Program Files\a.exe" -p hunter2"#;
        assert_eq!(
            program(quoted),
            format!(r"C:\Program Files\a.exe {REDACTED}")
        );
        assert_eq!(program("a;password=hunter2"), REDACTED);
    }
}
