//! Tests of valid and invalid encodings.

use std::rc::Rc;

use super::*;

/// Returns one byte at a time, so that every multi-byte sequence is split.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.0.len().min(1);
        self.0.read(&mut buffer[..length])
    }
}

fn decode(bytes: &[u8]) -> Result<String, Problem> {
    fn whole(input: impl Read) -> Result<String, Problem> {
        let mut text = String::new();
        let result = Text::new(input, Rc::default()).read_to_string(&mut text);
        result
            .map(|_| text)
            .map_err(|error| error.downcast().unwrap())
    }
    let text = whole(bytes);
    assert_eq!(format!("{text:?}"), format!("{:?}", whole(Trickle(bytes))));
    text
}

fn utf16(text: &str, bytes: impl Fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(bytes).collect()
}

#[test]
fn text_is_utf8_or_utf16_with_a_mark_and_has_any_line_end() {
    let marked = "\u{feff}kind: Pod # é😀\r\n";
    for (bytes, expected) in [
        ("é😀".as_bytes().to_vec(), "é😀"),
        (marked.as_bytes().to_vec(), "kind: Pod # é😀\n"),
        (utf16(marked, u16::to_le_bytes), "kind: Pod # é😀\n"),
        (utf16(marked, u16::to_be_bytes), "kind: Pod # é😀\n"),
        (b"".to_vec(), ""),
        (b"\xEF\xBB\xBF".to_vec(), ""),
        (b"a\r\nb\rc\n\r\rd\r".to_vec(), "a\nb\nc\n\n\nd\n"),
        // A byte-order mark elsewhere than at the start is text.
        ("a\u{feff}".as_bytes().to_vec(), "a\u{feff}"),
    ] {
        assert_eq!(decode(&bytes).unwrap(), expected);
    }
}

#[test]
fn line_ends_and_characters_that_are_cut_between_two_pieces_are_whole() {
    for text in ["aé😀\r\n", "a\r\n", "€", "ab\r"] {
        let text = text.repeat(50_000);
        let expected = text.replace("\r\n", "\n").replace('\r', "\n");
        assert_eq!(decode(text.as_bytes()).unwrap(), expected);
        let marked = format!("\u{feff}{text}");
        let decoded = decode(&utf16(&marked, u16::to_le_bytes)).unwrap();
        assert_eq!(decoded, expected);
    }
}

#[test]
fn what_is_no_text_is_an_error_that_names_the_byte() {
    for (bytes, expected) in [
        (&b"abc\xFFdef"[..], "invalid UTF-8 at byte 3; "),
        (b"ab\xE2\x82", "invalid UTF-8 at byte 2; "),
        (b"\xEF\xBB\xBFa\xC3(", "invalid UTF-8 at byte 4; "),
        // An incomplete character, and a lone surrogate.
        (b"\xFF\xFEa\0b", "invalid UTF-16LE at byte 4; "),
        (b"\xFE\xFF\0a\xD8\0\0b", "invalid UTF-16BE at byte 4; "),
        (b"k\0i\0", "a NUL character; "),
        (b"\xFF\xFEa\0\0\0", "a NUL character; "),
    ] {
        let error = decode(bytes).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{bytes:?}: {error}");
        // The byte is ahead of the parser's position, so no document is named.
        assert!(bad(bytes).starts_with(&format!("in: {expected}")));
    }
}

#[test]
fn the_first_character_tells_json_from_yaml() {
    for (text, expected) in [(" \r\n\t{ }", Some('{')), ("- a", Some('-')), (" \n", None)] {
        let mut reader = Text::new(text.as_bytes(), Rc::default());
        assert_eq!(reader.peek().unwrap(), expected);
        let mut all = String::new();
        reader.read_to_string(&mut all).unwrap();
        assert_eq!(all, text.replace("\r\n", "\n"));
    }
}

#[test]
fn a_text_of_nothing_is_no_error_and_a_control_character_is_one_with_its_place() {
    for text in ["", "\u{feff}", " \r\n\t"] {
        let (objects, tally) = good(text);
        assert!(objects.is_empty());
        assert_eq!((tally.documents, tally.not_objects), (0, 0), "{text:?}");
    }
    let error = bad("a: b\n\u{1}");
    assert!(
        error.starts_with("in, document 1, line 2 column 1: "),
        "{error}"
    );
}
