//! Recognizes secrets by field names and in texts.
//!
//! A secret is recognized by the name before it, and keys and tokens by their form. Patterns cannot find every secret: a value
//! that nothing announces stays.

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
/// Schemes of HTTP's authorization.
const SCHEMES: [&str; 7] = [
    "Bearer",
    "bearer",
    "Basic",
    "Digest",
    "NTLM",
    "Negotiate",
    "SharedKey",
];

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

/// Returns a text without its secrets, if it may have one.
pub fn redacted(text: &str) -> Option<String> {
    if text.trim_start().starts_with(['{', '['])
        && let Ok(whole) = serde_json::from_str::<Value>(text)
    {
        let mut left = whole.clone();
        super::other(&mut left);
        return (left != whole).then(|| left.to_string());
    }
    // Nothing says where a secret ends.
    let finders = [assigned_at, announced_at, token_at, user_at, key_at];
    let at = finders.iter().filter_map(|find| find(text)).min()?;
    Some(format!("{}{REDACTED}", &text[..at]))
}

/// A value after a name that marks it as secret, as in `password=x`, `"token":"x"` or `Pwd: x`. Two plain words after a
/// colon and a blank are prose, such as what is wrong with a Secret. In `a.example/secrets-store:v1` a tag follows.
fn assigned_at(text: &str) -> Option<usize> {
    let is_of_name = |char: char| char.is_ascii_alphanumeric() || "_-.".contains(char);
    let text = text.trim_end();
    text.match_indices(['=', ':']).find_map(|(at, sign)| {
        let named = text[..at].trim_end_matches([' ', '"', '\'', '\\', ']']);
        let (path, name) = named.split_at(named.trim_end_matches(is_of_name).len());
        let value = text[at + 1..].trim_start();
        let begin = text.len() - value.len();
        let is_plain = |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase());
        let is_prose = || {
            let mut words = value.split(' ').take(2);
            sign == ":" && begin > at + 1 && value.contains(' ') && words.all(is_plain)
        };
        let is_tag = || {
            let folder = path.strip_suffix('/').unwrap_or_default();
            let is_path = folder.ends_with(|char| is_of_name(char) || char == '/');
            sign == ":" && begin == at + 1 && name.contains('-') && is_path
        };
        // A long text without blanks is not searched for one at each sign.
        let has_secret = !value.is_empty() && hides(name) && !is_prose() && !is_tag();
        has_secret.then_some(begin)
    })
}

/// A value after a flag such as `--password`, or after a scheme of HTTP's authorization.
fn announced_at(text: &str) -> Option<usize> {
    const ENDS: [char; 8] = [' ', '\t', '\n', '"', '\'', ',', ';', '&'];
    let (mut at, mut announces) = (0, false);
    for piece in text.split_inclusive(ENDS) {
        let word = piece.trim_end_matches(ENDS);
        if !word.is_empty() {
            if announces {
                return Some(at);
            }
            announces = is_secret_flag(word) || SCHEMES.contains(&word);
        }
        at += piece.len();
    }
    None
}

/// A token as JSON Web Tokens are written, or the name of a key of AWS.
fn token_at(text: &str) -> Option<usize> {
    let is_of_token = |char: char| char.is_ascii_alphanumeric() || "_-.".contains(char);
    let mut at = 0;
    for piece in text.split_inclusive(|char| !is_of_token(char)) {
        let word = piece.trim_end_matches(|char| !is_of_token(char));
        let is_jwt = word.starts_with("eyJ") && word.matches('.').count() >= 2;
        let is_aws = word.len() == 20
            && (word.starts_with("AKIA") || word.starts_with("ASIA"))
            && (word.bytes()).all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        if is_jwt || is_aws {
            return Some(at);
        }
        at += piece.len();
    }
    None
}

/// A private key as PEM.
pub fn key_at(text: &str) -> Option<usize> {
    let mut begins = text.match_indices("-----BEGIN ");
    let is_private = |kind: &str| {
        kind.split("-----")
            .next()
            .is_some_and(|kind| kind.ends_with("PRIVATE KEY"))
    };
    begins.find_map(|(at, begin)| is_private(&text[at + begin.len()..]).then_some(at))
}

/// Whether the next word is a secret, as after `--password`, `-Password` or `/password`.
pub fn is_secret_flag(word: &str) -> bool {
    let name = word.trim_start_matches(['-', '/']);
    name.len() < word.len() && !name.contains(['=', '/', ':', '\\']) && hides(name)
}

/// Where the authority of a URL begins that contains a user, before an @.
fn user_at(text: &str) -> Option<usize> {
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
    fn a_text_is_cut_where_a_secret_begins() {
        // The sign ^ stands there. Tests of lines have more.
        for marked in [
            "--set=auth.password=^hunter2",
            "form[password]=^hunter2",
            "login --password,^hunter2 now",
            "rotated by\nlogin --token\n^hunter2",
            "https://a.example/b?sig=^hunter2",
            "-H Authorization: ^Bearer hunter2",
            r#"config: {"tokens":^["hunter2"]}"#,
        ] {
            let (kept, _) = marked.split_once('^').unwrap();
            let expected = format!("{kept}{REDACTED}");
            assert_eq!(redacted(&marked.replace('^', "")), Some(expected));
        }
        let document = r#"{"a":{"password":{"value":"hunter2"}},"b":1}"#;
        let expected = format!(r#"{{"a":{{"password":"{REDACTED}"}},"b":1}}"#);
        assert_eq!(redacted(document), Some(expected));
        for plain in [
            "vers=3.0,dir_mode=0777",
            "--v=5",
            r#"{"a": 1}"#,
            "https://a.example/b@c",
            "MountVolume.SetUp failed for volume \"a\" : secret \"b\" not found",
            "Pulling image \"a.example:5000/csi/secrets-store:v1\"",
            "Get http://token-server:8080/a: no such host",
        ] {
            assert_eq!(redacted(plain), None);
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
