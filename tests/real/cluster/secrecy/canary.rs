//! Secrets that are recognized in any encoding.

use std::fmt::Write;

use memchr::memmem;
use openssl::base64::encode_block;

/// A secret to search for.
pub struct Canary {
    name: String,
    forms: Vec<(&'static str, String)>,
}

impl Canary {
    pub fn new(name: &str, secret: &str) -> Self {
        assert!(
            secret.len() >= 16 && secret.is_ascii(),
            "{name} may be there by chance"
        );
        Self {
            name: name.to_owned(),
            forms: forms(secret),
        }
    }

    /// Creates a canary for each part of a key's text, so that a truncated key is found as well.
    pub fn of_key(name: &str, pem: &str) -> Vec<Self> {
        let is_key = |line: &&str| !line.starts_with("-----") && line.len() > 40;
        let lines: Vec<&str> = pem.lines().filter(is_key).collect();
        // Skips the first line, which is the same for all keys in this format.
        let parts = lines.iter().skip(1).map(|line| &line[..40]);
        let canaries: Vec<Self> = parts.map(|part| Self::new(name, part)).collect();
        assert!(canaries.len() > 2, "{name} is no key");
        canaries
    }

    /// Returns the form in which the content contains the secret.
    pub fn find(&self, content: &[u8]) -> Option<String> {
        let mut forms = self.forms.iter();
        let (form, _) = forms.find(|(_, secret)| is_in(content, secret))?;
        Some(format!("{} {form}", self.name))
    }
}

fn is_in(content: &[u8], secret: &str) -> bool {
    memmem::find(content, secret.as_bytes()).is_some()
}

fn forms(secret: &str) -> Vec<(&'static str, String)> {
    let bytes = secret.as_bytes();
    let joined = |write: &dyn Fn(&mut String, u8)| {
        bytes.iter().fold(String::new(), |mut text, byte| {
            write(&mut text, *byte);
            text
        })
    };
    let json = serde_json::to_string(secret).unwrap();
    let json = json.trim_matches('"').to_owned();
    let decimal = joined(&|text, byte| write!(text, "{byte}, ").unwrap());
    let mut forms = vec![
        ("as it is", secret.to_owned()),
        ("in JSON", json.clone()),
        ("in JSON with slashes escaped", json.replace('/', r"\/")),
        (
            "in JSON in JSON",
            json.replace('\\', r"\\").replace('"', r#"\""#),
        ),
        (
            "as hexadecimal",
            joined(&|text, byte| write!(text, "{byte:02x}").unwrap()),
        ),
        (
            "as HEXADECIMAL",
            joined(&|text, byte| write!(text, "{byte:02X}").unwrap()),
        ),
        (
            "as a list of bytes",
            decimal.trim_end_matches(", ").to_owned(),
        ),
        (
            "as a list of bytes in JSON",
            decimal.replace(' ', "").trim_end_matches(',').to_owned(),
        ),
        (
            "percent-encoded",
            joined(&|text, byte| {
                if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                    text.push(char::from(byte));
                } else {
                    write!(text, "%{byte:02X}").unwrap();
                }
            }),
        ),
    ];
    for (form, url_form, before) in [
        ("as base64", "as base64url", 0),
        ("as base64 after one byte", "as base64url after one byte", 1),
        (
            "as base64 after two bytes",
            "as base64url after two bytes",
            2,
        ),
    ] {
        let text = encode_block(&[&vec![0; before][..], bytes].concat());
        // Without the digits that also depend on the bytes before and after.
        let begin = [0, 2, 3][before];
        let end = (before + bytes.len()) * 8 / 6;
        let text = &text[begin..end];
        forms.push((form, text.to_owned()));
        forms.push((url_form, text.replace('+', "-").replace('/', "_")));
    }
    forms
}
