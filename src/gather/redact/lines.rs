//! Redacts logs, line by line, in bounded memory.
//!
//! A secret is recognized by the name before it, as in objects, and keys and tokens by their form. Patterns cannot find every
//! secret: a value that nothing announces stays.

use std::io::{self, Write};

use serde_json::Value;

use super::REDACTED;
use super::text::{hides, is_secret_flag, user_at};

/// The rest of a longer line is left out.
const LONGEST: usize = 64 * 1024;
/// How the first and the last line of PEM begin.
const PEM_BEGIN: &str = "-----BEGIN ";
const PEM_END: &str = "-----END ";
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

/// Writes lines to `file` without what may be secret. The last line needs [`Lines::finish`].
pub struct Lines<W> {
    file: W,
    line: Vec<u8>,
    /// Whether the rest of the line is left out.
    is_long: bool,
    /// Whether a private key has begun in a line before.
    in_key: bool,
}

impl<W: Write> Lines<W> {
    /// Redacts what is written to that file.
    pub fn new(file: W) -> Self {
        Self {
            file,
            line: Vec::new(),
            is_long: false,
            in_key: false,
        }
    }

    /// Writes the last line, and flushes.
    pub fn finish(mut self) -> io::Result<()> {
        self.end_line(b"")?;
        self.file.flush()
    }

    fn end_line(&mut self, end: &[u8]) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let is_long = std::mem::take(&mut self.is_long);
        let text = String::from_utf8_lossy(&line);
        if self.in_key {
            let is_last = text.contains(PEM_END);
            self.in_key = !is_last && is_of_key(&text);
            if is_last || self.in_key {
                return Ok(());
            }
        }
        self.in_key = key_at(&text).is_some_and(|at| !text[at..].contains(PEM_END));
        match redacted(&text) {
            Some(redacted) => self.file.write_all(redacted.as_bytes())?,
            None => self.file.write_all(&line)?,
        }
        if is_long {
            self.file.write_all(REDACTED.as_bytes())?;
        }
        self.file.write_all(end)
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let content = piece.strip_suffix(b"\n").unwrap_or(piece);
            let room = LONGEST.saturating_sub(self.line.len());
            self.line
                .extend_from_slice(&content[..content.len().min(room)]);
            self.is_long |= content.len() > room;
            if content.len() < piece.len() {
                self.end_line(b"\n")?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns a line without its secrets, if it may have one.
fn redacted(line: &str) -> Option<String> {
    if line.starts_with('{')
        && let Ok(whole @ Value::Object(_)) = serde_json::from_str(line)
    {
        let mut left = whole.clone();
        fields(&mut left);
        return (left != whole).then(|| left.to_string());
    }
    cut(line)
}

fn fields(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(left) = cut(text) {
                *text = left;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(fields),
        Value::Object(named) => {
            for (name, value) in named {
                match value {
                    Value::Null | Value::Bool(_) => {}
                    value if hides(name) => *value = REDACTED.into(),
                    value => fields(value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Leaves out all from the first secret on: nothing says where it ends.
fn cut(text: &str) -> Option<String> {
    let finders = [assigned_at, announced_at, token_at, user_at, key_at];
    let at = finders.iter().filter_map(|find| find(text)).min()?;
    Some(format!("{}{REDACTED}", &text[..at]))
}

/// A value after a name that marks it as secret, as in `password=x`, `"token":"x"` or `Pwd: x`. Two plain words after a
/// colon and a blank are prose, such as what is wrong with a Secret.
fn assigned_at(text: &str) -> Option<usize> {
    let is_of_name = |char: char| char.is_ascii_alphanumeric() || "_-.".contains(char);
    let text = text.trim_end();
    text.match_indices(['=', ':']).find_map(|(at, sign)| {
        let name = text[..at].trim_end_matches([' ', '"', '\'', '\\']);
        let name = name.rsplit(|char| !is_of_name(char)).next()?;
        let value = text[at + 1..].trim_start();
        let begin = text.len() - value.len();
        let is_plain = |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase());
        let is_prose = sign == ":" && begin > at + 1 && {
            let mut words = value.split(' ').take(2);
            value.contains(' ') && words.all(is_plain)
        };
        let has_secret = !value.is_empty() && hides(name) && !is_prose;
        has_secret.then_some(begin)
    })
}

/// A value after a flag such as `--password`, or after a scheme of HTTP's authorization.
fn announced_at(text: &str) -> Option<usize> {
    const ENDS: [char; 4] = [' ', '\t', '"', '\''];
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
fn key_at(text: &str) -> Option<usize> {
    let mut begins = text.match_indices(PEM_BEGIN);
    let is_private = |kind: &str| {
        kind.split("-----")
            .next()
            .is_some_and(|kind| kind.ends_with("PRIVATE KEY"))
    };
    begins.find_map(|(at, begin)| is_private(&text[at + begin.len()..]).then_some(at))
}

/// Whether a line can be inside a key as PEM: data, or a header and its value.
fn is_of_key(line: &str) -> bool {
    !line.starts_with('{') && line.split_whitespace().count() <= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Redacts a text that comes in pieces of that size.
    fn through(text: &[u8], size: usize) -> String {
        let mut out = Vec::new();
        let mut lines = Lines::new(&mut out);
        for piece in text.chunks(size) {
            lines.write_all(piece).unwrap();
        }
        lines.finish().unwrap();
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn from_a_secret_on_the_rest_of_a_line_is_left_out() {
        // The sign ^ stands where the secret begins.
        for marked in [
            "I1126 a.go:7] Request: Map with password=^hunter2 now",
            r#"Request: username:"u" password:^"hunter 2""#,
            "{Username:u Password:^hunter2 Path:x}",
            "passphrase: ^hunter2",
            "password: ^hunter2, user: bob",
            "{Password: ^Hunter two, Path: x}",
            "Authorization: ^SharedKey account:hunter2=",
            "sent SharedKey ^account:hunter2=",
            "accountKey: ^'hunter 2' # note",
            "Server=s;Pwd = ^hunter2;x",
            r#"run: login --password "^hunter 2" now"#,
            "New-SmbGlobalMapping -Password ^hunter2",
            "cmdkey /password:^hunter2",
            "Authorization: ^Bearer hunter2",
            "sent Bearer ^hunter2",
            "GET https://a.example/b?sv=1&sig=^hunter2%3D HTTP/1.1",
            "https://a.example, then https://^u:hunter2@a.example/b",
            "got ^eyJhbGciOiJ.eyJpc3MiOi.c2lnbmF0dXJl, gone",
            "id ^AKIAIOSFODNN7EXAMPLE used",
            r"key ^-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n",
        ] {
            let (kept, _) = marked.split_once('^').unwrap();
            let text = format!("before\n{}\nafter", marked.replace('^', ""));
            for size in [1, 7, 1000] {
                let expected = format!("before\n{kept}{REDACTED}\nafter");
                assert_eq!(through(text.as_bytes(), size), expected);
            }
        }
    }

    #[test]
    fn of_an_object_in_json_the_secret_fields_are_left_out() {
        for (line, expected) in [
            (
                r#"{"level":"INFO","token":"hunter2"}"#,
                r#"{"level":"INFO","token":"(left out)"}"#,
            ),
            (
                r#"{"fields":{"message":"login --password hunter2"},"n":1}"#,
                r#"{"fields":{"message":"login --password (left out)"},"n":1}"#,
            ),
            (
                r#"{"a":["x",{"apiKey":["hunter2"]}]}"#,
                r#"{"a":["x",{"apiKey":"(left out)"}]}"#,
            ),
        ] {
            assert_eq!(through(line.as_bytes(), 9), expected);
        }
    }

    #[test]
    fn a_line_without_a_secret_stays_byte_for_byte() {
        for line in [
            &b"I1126 20:40:56.000001    1234 main.go:60] Version: v1.3.0\r\n"[..],
            b"Request: PathExists with path=\"C:\\\\var\\\\lib\"\n",
            b"Secret cloud-private-key: it has no key private-key.pem\n",
            b"MountVolume.SetUp failed for volume \"a\" : secret \"b\" not found\n",
            b"token: no such file or directory\n",
            b"host key is pinned: ssh-ed25519 AAAAC3Nz\n",
            b"GET https://a.example:443/b@c?sv=1\n",
            b"{\"z\": 1,  \"key\": \"shop/web\"}\n",
            b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
            b"\xff\xfe broken\n\n\n",
            b"no end",
        ] {
            assert_eq!(through(line, 5), String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn a_private_key_is_left_out_to_its_end_or_to_what_is_no_key() {
        let begin =
            "key:\n  -----BEGIN RSA PRIVATE KEY-----\r\nProc-Type: 4,ENCRYPTED\n\n  hunter2\n";
        let kept = format!("key:\n  {REDACTED}\n");
        for (rest, after) in [
            ("  -----END RSA PRIVATE KEY-----\nafter\n", "after\n"),
            (
                "I1126 20:40:56 main.go:60] after\n",
                "I1126 20:40:56 main.go:60] after\n",
            ),
            ("{\"message\":\"after\"}\n", "{\"message\":\"after\"}\n"),
            ("hunter2", ""),
        ] {
            let text = format!("{begin}{rest}");
            assert_eq!(through(text.as_bytes(), 11), format!("{kept}{after}"));
        }
    }

    #[test]
    fn of_a_line_too_long_to_keep_the_end_is_left_out() {
        let text = format!("{} password=hunter2\nafter\n", "x".repeat(LONGEST));
        let expected = format!("{}{REDACTED}\nafter\n", "x".repeat(LONGEST));
        assert!(through(text.as_bytes(), 4096) == expected);
    }
}
