//! Writes JSON in ASCII, which is the same in every Windows code page.

use std::fmt::Write;

/// Escapes all non-ASCII characters in JSON text, which a console or shell with another code page would corrupt. Outside
/// strings JSON has no such characters.
pub fn json(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            ascii.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(ascii, "\\u{unit:04x}");
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_is_the_same() {
        for text in [
            "plain",
            "Узел-1",
            "ノード",
            "C:\\k \"x\"\n\u{7f}",
            "\u{10ffff}é\u{2028}",
        ] {
            let said = serde_json::to_string(&[text]).unwrap();
            let ascii = json(&said);
            assert!(ascii.is_ascii(), "{ascii}");
            let read: Vec<String> = serde_json::from_str(&ascii).unwrap();
            assert_eq!(read, [text]);
        }
    }
}
