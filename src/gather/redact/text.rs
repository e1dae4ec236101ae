//! Recognizes secrets by field names and in texts.
//!
//! A secret is recognized by the name before it, and keys and tokens by their form. Patterns cannot find every secret: a value
//! that nothing announces stays.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::REDACTED;

/// Names, in small letters and digits alone, of values that are secret, and not keys.
static SECRET: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        "password | passwd | pwd | passphrase | secret | token | credential | authorization | signature | cookie
        | apikey | accesskey | ^(pass|sig|auth)$",
    )
});
/// Keys that are not secret.
static PLAIN_KEY: LazyLock<Regex> = LazyLock::new(|| pattern("^key$ | (topology|host|public)key$"));
/// Names of values that only refer to a secret.
static REFERENCE: LazyLock<Regex> =
    LazyLock::new(|| pattern("(name|namespace|ref|path|dir|file|ttl|resourceversion)$"));

/// Names in a text with what separates them from their values, and what only looks like that.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"
        # Prose, such as what is wrong with a Secret: two plain words follow.
        (?<prose> [\w.-]+ ) ["'\\\]\ ]* : \s+ [a-z]+ \  [a-z]+ (\ |$)
        # In `a.example/secrets-store:v1` a tag follows.
        | [\w./] / (?<tagged> [\w.-]* - [\w.-]* ) : \S
        # As in `password=x`, `"token":"x"` or `Pwd: x`.
        | (?<name> [\w.-]+ ) ["'\\\]\ ]* [=:] \s*
        # As in `--password x` or `/password x`.
        | (^|[\s"',;&]) [-/]+ (?<flag> [\w.-]+ ) [\s"',;&]+
        "#,
    )
});
/// What is secret by its form, or by the scheme of HTTP's authorization before it.
static FORMED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"
        (?: ^|[\s"',;&]) (?: Bearer|bearer|Basic|Digest|NTLM|Negotiate|SharedKey) [\s"',;&]+ ([^\s"',;&])
        # Where the authority of a URL begins that contains a user.
        | :// ([^\s/?\#"'<>,]* @)
        # A JSON Web Token, and the name of a key of AWS.
        | (?-u:\b) (eyJ [\w-]* \. [\w-]* \.)
        | (?-u:\b) ((?: AKIA|ASIA) [A-Z0-9]{16}) (?-u:\b)
        "#,
    )
});
/// How a private key begins in PEM.
static KEY: LazyLock<Regex> = LazyLock::new(|| pattern(r"-----BEGIN\ [^-]* PRIVATE\ KEY"));

/// Compiles a pattern that is laid out with blanks and comments.
#[expect(clippy::expect_used, reason = "the tests compile every pattern")]
pub fn pattern(text: &str) -> Regex {
    Regex::new(&format!("(?x){text}")).expect("patterns are constants")
}

/// Whether a value must be redacted: its name marks a secret and not a reference to one.
pub fn hides(name: &str) -> bool {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let letters: String = letters.map(|char| char.to_ascii_lowercase()).collect();
    let is_key = letters.ends_with("key") && !PLAIN_KEY.is_match(&letters);
    (is_key || SECRET.is_match(&letters)) && !REFERENCE.is_match(&letters)
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
    let found = [named_at(text), formed_at(text), key_at(text)];
    let at = found.into_iter().flatten().min()?;
    Some(format!("{}{REDACTED}", &text[..at]))
}

/// A value after a name that marks it as secret.
fn named_at(text: &str) -> Option<usize> {
    let text = text.trim_end();
    let mut at = 0;
    loop {
        let found = NAMED.captures_at(text, at)?;
        let end = found.get_match().end();
        let name = found.name("name").or(found.name("flag"));
        if name.is_some_and(|name| hides(name.as_str())) && end < text.len() {
            return Some(end);
        }
        // What follows a name may be another, or stand before it.
        let name = name.or(found.name("prose")).or(found.name("tagged"));
        at = name?.end();
    }
}

fn formed_at(text: &str) -> Option<usize> {
    let found = FORMED.captures(text)?;
    let mut groups = found.iter().skip(1);
    groups.find_map(|group| Some(group?.start()))
}

/// A private key as PEM.
pub fn key_at(text: &str) -> Option<usize> {
    KEY.find(text).map(|found| found.start())
}

/// Whether the next word is a secret, as after `--password`, `-Password` or `/password`.
pub fn is_secret_flag(word: &str) -> bool {
    let name = word.trim_start_matches(['-', '/']);
    name.len() < word.len() && !name.contains(['=', '/', ':', '\\']) && hides(name)
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
            "rotated by\nlogin --token\n^hunter2",
            r#"config: {"tokens":^["hunter2"]}"#,
            "password: ^hunter two\nnext: x",
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
