//! Tests of the limits on depth and on what aliases repeat.

use std::fmt::Write as _;

use super::yaml::MAX_DEPTH;
use super::*;

#[test]
fn depth_is_bounded() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("- ", "")] {
        let nested = |depth| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        good(nested(MAX_DEPTH));
        for depth in [MAX_DEPTH + 1, 100_000] {
            for text in [nested(depth), format!("kind: A\nb:\n  {}", nested(depth))] {
                let error = bad(text);
                assert!(error.contains("limit"), "{depth}: {error}");
            }
        }
    }
}

#[test]
fn aliases_do_not_blow_up() {
    let mut laughs = "a0: &a0 [ha, ha]\n".to_owned();
    for level in 1..30 {
        let below = level - 1;
        let _ = writeln!(laughs, "a{level}: &a{level} [*a{below}, *a{below}]");
    }
    let long = format!(
        "x: &x {}\ny: [{}]\n",
        "ha".repeat(100_000),
        "*x,".repeat(1000)
    );
    for text in [laughs, long] {
        let error = bad(text);
        assert!(error.contains("limits breached"), "{error}");
    }
}

#[test]
fn text_is_utf8_or_utf16_with_a_mark_and_has_any_line_end() {
    let utf16 = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    };
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
        assert_eq!(decoded(bytes).ok().unwrap(), expected);
    }
    for (bytes, expected) in [
        (
            &b"kind: Pod\n\xFF"[..],
            "in: this is not text, or invalid UTF-8 in line 2; ",
        ),
        (
            b"\xEF\xBB\xBFa\xC3(",
            "in: this is not text, or invalid UTF-8; ",
        ),
        // An incomplete character, and a lone surrogate.
        (
            b"\xFF\xFEa\0b",
            "in: this is not text, or invalid UTF-16LE; ",
        ),
        (
            b"\xFE\xFF\0a\xD8\0\0b",
            "in: this is not text, or invalid UTF-16BE; ",
        ),
        (b"k\0i\0", "in: a NUL character; "),
        (b"\xFF\xFEa\0\0\0", "in: a NUL character; "),
    ] {
        assert!(bad(bytes).starts_with(expected), "{bytes:?}");
    }
    let named = |bytes: &[u8]| {
        let outcome = read_from("in", bytes, &pods, &mut |_| {}, &mut |_| Ok(()));
        (!outcome.unread.is_empty(), !outcome.left_out.is_empty())
    };
    // What may hold a pod matters, whatever its bytes.
    assert_eq!(named(b"k\0i\0n\0d\0:\0 \0P\0o\0d\0"), (true, false));
    assert_eq!(named(b"kind: Pod\n\xFF"), (true, false));
    assert_eq!(named(b"kind: Secret\n\xFF"), (false, true));
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
