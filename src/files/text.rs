//! Decodes bytes to text: UTF-8, or UTF-16 with a byte-order mark, with any line ends.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8};

use super::MAX_OBJECT;
use super::error::Problem;

const CHUNK: usize = 64 * 1024;

/// Counts of a source.
#[derive(Default)]
pub(super) struct Counts {
    /// Bytes read from the source.
    pub bytes: Cell<u64>,
    /// Bytes of text since the last line or token. The parser resets it to 0.
    pub since_token: Cell<usize>,
}

/// The text of a source as UTF-8, with LF line ends. Each of its errors wraps a [`Problem`].
pub(super) struct Text<R> {
    input: R,
    raw: Vec<u8>,
    /// Known once the first bytes have been read.
    decoder: Option<Decoder>,
    ready: String,
    /// How much of `ready` has been consumed.
    taken: usize,
    is_after_cr: bool,
    counts: Rc<Counts>,
}

impl<R: Read> Text<R> {
    pub fn new(input: R, counts: Rc<Counts>) -> Self {
        Self {
            input,
            raw: Vec::new(),
            decoder: None,
            ready: String::new(),
            taken: 0,
            is_after_cr: false,
            counts,
        }
    }

    /// Returns the first non-blank character without consuming it; `None` if the first chunk is blank.
    pub fn peek(&mut self) -> Result<Option<char>, Problem> {
        self.fill()?;
        Ok(self.ready.trim_start().chars().next())
    }

    /// Decodes the next chunk.
    fn fill(&mut self) -> Result<(), Problem> {
        self.raw.clear();
        let mut piece = self.input.by_ref().take(CHUNK as u64);
        let length = piece.read_to_end(&mut self.raw).map_err(Problem::Read)?;
        let before = self.counts.bytes.get();
        self.counts.bytes.set(before + length as u64);
        let mut bytes = &self.raw[..];
        let mut mark = 0;
        let decoder = self.decoder.get_or_insert_with(|| {
            let (encoding, length) = Encoding::for_bom(bytes).unwrap_or((UTF_8, 0));
            mark = length;
            encoding.new_decoder_without_bom_handling()
        });
        bytes = &bytes[mark..];
        self.ready.clear();
        self.taken = 0;
        // At most three bytes of UTF-8 per two of UTF-16, plus what the decoder kept from the previous chunk.
        self.ready.reserve(2 * CHUNK);
        let is_last = length < CHUNK;
        let (result, read) =
            decoder.decode_to_string_without_replacement(bytes, &mut self.ready, is_last);
        if let DecoderResult::Malformed(length, after) = result {
            let offset = before + (mark + read) as u64 - u64::from(length) - u64::from(after);
            return Err(Problem::Encoding(decoder.encoding().name(), offset));
        }
        if self.ready.contains('\0') {
            return Err(Problem::Nul);
        }
        if self.is_after_cr && self.ready.starts_with('\n') {
            self.taken = 1;
        }
        self.is_after_cr = self.ready.ends_with('\r');
        if self.ready.contains('\r') {
            let unified = self.ready[self.taken..].replace("\r\n", "\n");
            self.ready = unified.replace('\r', "\n");
            self.taken = 0;
        }
        Ok(())
    }
}

impl<R: Read> Read for Text<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.ready.len() {
            if self.decoder.is_some() && self.raw.len() < CHUNK {
                return Ok(0);
            }
            self.fill().map_err(io::Error::other)?;
        }
        let length = (&self.ready.as_bytes()[self.taken..]).read(buffer)?;
        self.taken += length;
        let since_token = self.counts.since_token.get() + length;
        self.counts.since_token.set(since_token);
        if since_token > MAX_OBJECT {
            return Err(io::Error::other(Problem::TextTooLong));
        }
        Ok(length)
    }
}
