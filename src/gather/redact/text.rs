//! Recognizes secrets by field names and in texts.

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
