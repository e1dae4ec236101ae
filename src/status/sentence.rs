//! Formats messages for people as sentences.

use std::borrow::Cow;

use crate::objects::KINDS;

/// Capitalizes a message, unless it starts with the name of an object, program or field.
pub fn sentence(message: &str) -> Cow<'_, str> {
    let ends = |c: char| c.is_whitespace() || ":,;".contains(c);
    let end = message.find(ends).unwrap_or(message.len());
    let word = &message[..end];
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'\'';
    // Objects start with their kind in lower case, as in kubectl.
    let mut kinds = KINDS.iter();
    let is_kind = kinds.any(|kind| kind.name().eq_ignore_ascii_case(word));
    if word.is_empty() || !word.bytes().all(is_plain) || is_kind {
        return Cow::Borrowed(message);
    }
    let (first, rest) = message.split_at(1);
    Cow::Owned(first.to_ascii_uppercase() + rest)
}

/// Truncates a text to a number of bytes and marks the truncation.
pub fn shortened(text: &str, bytes: usize) -> Cow<'_, str> {
    const MORE: &str = "…";
    if text.len() <= bytes {
        return Cow::Borrowed(text);
    }
    let mut end = bytes.saturating_sub(MORE.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(format!("{}{MORE}", text[..end].trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_and_words_get_a_capital() {
        for (message, expected) in [
            ("the node has no address", "The node has no address"),
            ("storage is ready", "Storage is ready"),
            ("pod shop/web-0: volume data", "pod shop/web-0: volume data"),
            ("csi-proxy v1.3.0 runs", "csi-proxy v1.3.0 runs"),
            ("spec.ssh.user names nobody", "spec.ssh.user names nobody"),
            (
                "windows-services cannot be used",
                "windows-services cannot be used",
            ),
            ("ConfigMap x", "ConfigMap x"),
            ("10.0.0.1 has no user", "10.0.0.1 has no user"),
            (r"C:\k is full", r"C:\k is full"),
            ("été", "été"),
            ("", ""),
        ] {
            assert_eq!(sentence(message), expected);
        }
    }

    #[test]
    fn what_is_cut_says_so_and_is_cut_between_characters() {
        assert_eq!(shortened("aé", 3), "aé");
        assert_eq!(shortened("aéb", 3), "…");
        assert_eq!(shortened("a ébc", 5), "a…");
        assert_eq!(shortened("abcdef", 5), "ab…");
    }
}
