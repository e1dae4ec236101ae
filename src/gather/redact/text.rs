//! Recognizes secrets by field names and in texts.

use serde_json::Value;

use super::REDACTED;

/// Words in a name that mark its value as secret.
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
/// Whole names that mark their value as secret.
const SECRET_NAMES: [&str; 3] = ["pass", "sig", "auth"];
/// Suffixes of names ending in "key" that are not secret.
const PLAIN_KEYS: [&str; 3] = ["topologykey", "hostkey", "publickey"];

/// Whether a name marks its value as secret.
pub fn is_secret(name: &str) -> bool {
    let letters: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|char| char.to_ascii_lowercase())
        .collect();
    // A selector's field is just called `key`.
    let is_key = letters.len() > "key".len()
        && letters.ends_with("key")
        && !PLAIN_KEYS.iter().any(|plain| letters.ends_with(plain));
    is_key
        || SECRET_NAMES.contains(&&*letters)
        || SECRET_WORDS.iter().any(|word| letters.contains(word))
}

/// Whether a name marks its value as a reference to a secret.
fn is_reference(name: &str) -> bool {
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

/// Whether a value must be redacted: its name marks a secret and not a reference to one.
pub fn hides(name: &str) -> bool {
    is_secret(name) && !is_reference(name)
}

/// Whether a text may contain a secret: after a name that marks one, or as the user of a URL.
pub fn has_secret(text: &str) -> bool {
    // The separators in mount options and connection strings.
    const SEPARATORS: [char; 6] = [' ', ',', ';', '&', '\n', '\t'];
    let words = text.split(SEPARATORS).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.collect();
    let precedes = |word: &str| is_secret_flag(word) || ["Bearer", "Basic"].contains(&word);
    is_secret_document(text)
        || user_at(text).is_some()
        || words.iter().any(|word| has_secret_value(word))
        || words.windows(2).any(|pair| precedes(pair[0]))
}

/// Whether a text is a JSON document that contains a secret.
fn is_secret_document(text: &str) -> bool {
    if !text.trim_start().starts_with(['{', '[']) {
        return false;
    }
    serde_json::from_str(text).is_ok_and(|document: Value| {
        let mut redacted = document.clone();
        super::other(&mut redacted);
        redacted != document
    })
}

/// Whether a word assigns a secret, as in `password=x`, `https://a.example/b?sig=x` or `/password:x`.
fn has_secret_value(word: &str) -> bool {
    let is_flag = word.starts_with(['-', '/']);
    word.match_indices(['=', ':']).any(|(at, sign)| {
        let name = word[..at].rsplit(['=', '?', '"', '\'', '{', '(']).next();
        let has_value = at + 1 < word.len() && (is_flag || sign == "=");
        has_value && name.is_some_and(hides)
    })
}

/// Whether the next word is a secret, as after `--password`, `-Password` or `/password`.
pub fn is_secret_flag(word: &str) -> bool {
    let name = word.trim_start_matches(['-', '/']);
    name.len() < word.len() && !name.contains(['=', '/', ':', '\\']) && hides(name)
}

/// Where the authority of a URL begins that contains a user, before an @.
pub fn user_at(text: &str) -> Option<usize> {
    const SIGN: &str = "://";
    let is_end = |char: char| char.is_whitespace() || "/?#\"'<>,".contains(char);
    let mut authorities = text.match_indices(SIGN).map(|(at, _)| at + SIGN.len());
    authorities.find(|at| {
        let authority = text[*at..].split(is_end).next();
        authority.is_some_and(|authority| authority.contains('@'))
    })
}

/// Returns a command's program and redacts its arguments.
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
    fn a_secret_in_a_text_is_found_in_every_notation() {
        for secret in [
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
            assert!(has_secret(secret), "{secret}");
        }
        for plain in [
            "vers=3.0,dir_mode=0777",
            "--v=5",
            r#"{"a": 1}"#,
            "https://a.example/b@c",
            "MountVolume.SetUp failed for volume \"a\" : secret \"b\" not found",
        ] {
            assert!(!has_secret(plain), "{plain}");
        }
    }

    #[test]
    fn of_a_command_the_program_stays() {
        let exe = r"C:\k\csi-proxy.exe";
        assert_eq!(program(exe), exe);
        assert_eq!(program(&format!("{exe} -v=2")), format!("{exe} {REDACTED}"));
        let quoted = r#""C:\Program Files\a.exe" -p hunter2"#;
        let plain = format!(r"C:\Program Files\a.exe {REDACTED}");
        assert_eq!(program(quoted), plain);
        assert_eq!(program("a;password=hunter2"), REDACTED);
    }
}
