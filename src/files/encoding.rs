//! Bytes to text: UTF-8, or UTF-16 with a byte-order mark, any line ends.

use std::cell::Cell;
use std::io::{ErrorKind, Read};
use std::rc::Rc;

use encoding_rs::{Decoder, DecoderResult, UTF_8, UTF_16BE, UTF_16LE};

use super::error::Problem;

const CHUNK: usize = 64 * 1024;

/// The text of a source, piece by piece, with LF as the only line end.
pub(super) struct Text<R> {
    input: R,
    raw: Vec<u8>,
    /// What of `raw` is read, and not yet decoded.
    undecoded: std::ops::Range<usize>,
    /// It is known once the first bytes are read.
    decoder: Decoder,
    is_started: bool,
    read: Rc<Cell<u64>>,
    /// Bytes given to the decoder.
    consumed: u64,
    /// Where the character comes from that is next to be handed out.
    offset: u64,
    after_cr: bool,
    at_end: bool,
    peeked: String,
}

impl<R: Read> Text<R> {
    pub fn new(input: R) -> Self {
        Self {
            input,
            raw: vec![0; CHUNK],
            undecoded: 0..0,
            decoder: UTF_8.new_decoder_without_bom_handling(),
            is_started: false,
            read: Rc::default(),
            consumed: 0,
            offset: 0,
            after_cr: false,
            at_end: false,
            peeked: String::new(),
        }
    }

    /// The number of bytes read so far, as it grows.
    pub fn bytes_read(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.read)
    }

    /// The first character that is not blank, without taking anything.
    pub fn peek(&mut self) -> Result<Option<char>, Problem> {
        // Somewhere blanks must have an end; then it is YAML as well as anything.
        while self.peeked.len() <= 16 * CHUNK {
            if let Some(first) = self.peeked.chars().find(|character| !is_blank(*character)) {
                return Ok(Some(first));
            }
            let mut peeked = std::mem::take(&mut self.peeked);
            let more = self.decode(&mut peeked);
            self.peeked = peeked;
            if !more? {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Appends the next piece of text; false at the end.
    pub fn take(&mut self, text: &mut String) -> Result<bool, Problem> {
        if self.peeked.is_empty() {
            return self.decode(text);
        }
        text.push_str(&std::mem::take(&mut self.peeked));
        Ok(true)
    }

    fn decode(&mut self, text: &mut String) -> Result<bool, Problem> {
        let before = text.len();
        while text.len() == before {
            if self.at_end {
                return Ok(false);
            }
            let last = if self.undecoded.is_empty() {
                self.fill()? == 0
            } else {
                false
            };
            let encoding = self.decoder.encoding();
            // Three bytes of UTF-8 for two of UTF-16 at the most.
            text.reserve(2 * CHUNK);
            let (result, read) = self.decoder.decode_to_string_without_replacement(
                &self.raw[self.undecoded.clone()],
                text,
                last,
            );
            self.undecoded.start += read;
            self.consumed += read as u64;
            match result {
                DecoderResult::InputEmpty => self.at_end = last,
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(length, after) => {
                    return Err(Problem::Encoding {
                        encoding: encoding.name(),
                        offset: self.consumed - u64::from(length) - u64::from(after),
                    });
                }
            }
            let utf8 = encoding == UTF_8;
            if let Some(nul) = text.as_bytes()[before..].iter().position(|byte| *byte == 0) {
                let offset = self.offset + width(&text[before..before + nul], utf8);
                return Err(Problem::Nul(offset));
            }
            self.offset += width(&text[before..], utf8);
            self.unify_line_ends(text, before);
        }
        Ok(true)
    }

    fn fill(&mut self) -> Result<usize, Problem> {
        let mut length = 0;
        // A byte-order mark must not be cut.
        let enough = if self.is_started { 1 } else { 3 };
        while length < enough {
            match self.input.read(&mut self.raw[length..]) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Problem::Read(error)),
            }
        }
        let mut mark = 0;
        if !self.is_started {
            self.is_started = true;
            (self.decoder, mark) = sniff(&self.raw[..length]);
            self.consumed = mark as u64;
            self.offset = mark as u64;
        }
        self.undecoded = mark..length;
        self.read.set(self.read.get() + length as u64);
        Ok(length)
    }

    fn unify_line_ends(&mut self, text: &mut String, from: usize) {
        let new = &text[from..];
        if !self.after_cr && !new.as_bytes().contains(&b'\r') {
            return;
        }
        let mut unified = String::with_capacity(new.len());
        for character in new.chars() {
            if character == '\r' {
                unified.push('\n');
            } else if character != '\n' || !self.after_cr {
                unified.push(character);
            }
            self.after_cr = character == '\r';
        }
        text.truncate(from);
        text.push_str(&unified);
    }
}

pub(super) fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n')
}

fn sniff(start: &[u8]) -> (Decoder, usize) {
    let (encoding, mark) = match start {
        [0xEF, 0xBB, 0xBF, ..] => (UTF_8, 3),
        [0xFF, 0xFE, ..] => (UTF_16LE, 2),
        [0xFE, 0xFF, ..] => (UTF_16BE, 2),
        _ => (UTF_8, 0),
    };
    (encoding.new_decoder_without_bom_handling(), mark)
}

fn width(text: &str, utf8: bool) -> u64 {
    if utf8 {
        text.len() as u64
    } else {
        2 * text.encode_utf16().count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out one byte at a time, so that every sequence is cut once.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let length = self.0.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }

    fn decode(bytes: &[u8]) -> Result<String, Problem> {
        fn all(mut text: Text<impl Read>) -> Result<String, Problem> {
            let mut all = String::new();
            while text.take(&mut all)? {}
            Ok(all)
        }
        let whole = all(Text::new(bytes));
        let trickled = all(Text::new(Trickle(bytes)));
        assert_eq!(format!("{whole:?}"), format!("{trickled:?}"));
        whole
    }

    fn utf16(text: &str, bytes: impl Fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn utf8_with_and_without_mark() {
        assert_eq!(decode("é😀".as_bytes()).unwrap(), "é😀");
        assert_eq!(decode("\u{feff}é".as_bytes()).unwrap(), "é");
        assert_eq!(decode(b"").unwrap(), "");
        assert_eq!(decode(b"\xEF\xBB\xBF").unwrap(), "");
    }

    #[test]
    fn utf16_in_both_orders() {
        let text = "\u{feff}kind: Pod # é😀\r\n";
        let little = utf16(text, u16::to_le_bytes);
        let big = utf16(text, u16::to_be_bytes);
        assert_eq!(decode(&little).unwrap(), "kind: Pod # é😀\n");
        assert_eq!(decode(&big).unwrap(), "kind: Pod # é😀\n");
    }

    #[test]
    fn any_line_end() {
        assert_eq!(decode(b"a\r\nb\rc\n\r\rd\r").unwrap(), "a\nb\nc\n\n\nd\n");
    }

    #[test]
    fn what_is_no_text_is_refused_with_its_place() {
        let place = |bytes: &[u8]| match decode(bytes).unwrap_err() {
            Problem::Encoding { encoding, offset } => (encoding, offset),
            other => panic!("{other}"),
        };
        assert_eq!(place(b"abc\xFFdef"), ("UTF-8", 3));
        assert_eq!(
            place("ab€".as_bytes().split_last().unwrap().1),
            ("UTF-8", 2)
        );
        assert_eq!(place(b"\xEF\xBB\xBFa\xC3("), ("UTF-8", 4));
        // Half a character, a lone surrogate.
        assert_eq!(place(b"\xFF\xFEa\0b"), ("UTF-16LE", 4));
        assert_eq!(place(b"\xFE\xFF\0a\xD8\0\0b"), ("UTF-16BE", 4));
    }

    #[test]
    fn nul_is_refused_with_its_place() {
        let place = |bytes: &[u8]| match decode(bytes).unwrap_err() {
            Problem::Nul(offset) => offset,
            other => panic!("{other}"),
        };
        assert_eq!(place("\u{feff}é\0".as_bytes()), 5);
        assert_eq!(place(b"k\0i\0"), 1);
        assert_eq!(place(b"\xFF\xFEa\0\0\0"), 4);
    }

    #[test]
    fn a_mark_inside_is_text() {
        assert_eq!(decode("a\u{feff}".as_bytes()).unwrap(), "a\u{feff}");
    }

    #[test]
    fn peeking_takes_nothing() {
        let mut text = Text::new(Trickle(b" \r\n\t{ }"));
        assert_eq!(text.peek().unwrap(), Some('{'));
        let mut all = String::new();
        while text.take(&mut all).unwrap() {}
        assert_eq!(all, " \n\t{ }");
        assert_eq!(Text::new(&b" \n"[..]).peek().unwrap(), None);
    }

    #[test]
    fn long_text_across_many_pieces() {
        let text = "aé😀\r\n".repeat(50_000);
        assert_eq!(decode(text.as_bytes()).unwrap(), text.replace("\r\n", "\n"));
    }
}
