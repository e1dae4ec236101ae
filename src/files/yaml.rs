//! Parses YAML document by document.

use std::io::BufRead;
use std::rc::Rc;

use serde_saphyr::{Deserializer, Error, Options};

use super::error::{Failure, Problem};
use super::text::Counts;
use super::{MAX_DEPTH, MAX_DOCUMENT, MAX_OBJECT};

/// Splits text at the lines that start and end documents. Any line that looks like a marker counts as one, even inside a
/// block scalar.
pub(super) struct Documents<R> {
    input: R,
    counts: Rc<Counts>,
    /// The number of lines read.
    lines: u64,
    /// The first line of the next document.
    start: String,
}

impl<R: BufRead> Documents<R> {
    pub fn new(input: R, counts: Rc<Counts>) -> Self {
        Self {
            input,
            counts,
            lines: 0,
            start: String::new(),
        }
    }

    /// Returns the next document, or `None` at the end.
    pub fn next(&mut self) -> Result<Option<Document>, Failure> {
        let mut text = std::mem::take(&mut self.start);
        let mut has_content = !text.is_empty();
        let first_line = self.lines + u64::from(!has_content);
        loop {
            let length = text.len();
            self.counts.since_token.set(0);
            let is_end = self.input.read_line(&mut text)? == 0;
            self.lines += u64::from(!is_end);
            let line = &text[length..];
            let starts_next = has_content && is_marker(line, "---");
            if starts_next {
                self.start = text.split_off(length);
            } else if text.len() > MAX_DOCUMENT {
                return Err(Problem::DocumentTooLong.into());
            } else if !is_end && !is_marker(line, "...") {
                // Directives and comments belong to the document that follows.
                has_content |= !(line.trim().is_empty() || line.starts_with(['#', '%']));
                continue;
            }
            return Ok(has_content.then_some(Document { text, first_line }));
        }
    }
}

fn is_marker(line: &str, marker: &str) -> bool {
    let rest = line.strip_prefix(marker);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\n']))
}

pub(super) struct Document {
    text: String,
    first_line: u64,
}

impl Document {
    /// Returns the first line that is not a marker, directive or comment.
    pub fn content_line(&self) -> u64 {
        let is_content = |line: &str| {
            let line = line.trim();
            !(line.is_empty() || line == "---" || line.starts_with(['#', '%']))
        };
        let before = self.text.lines().position(is_content).unwrap_or_default();
        self.first_line + before as u64
    }

    /// Passes a parser of the document to `take`.
    pub fn parse<'de>(
        &'de self,
        take: impl FnOnce(Deserializer<'de, '_>) -> Result<(), Error>,
    ) -> Result<(), Failure> {
        let options = options(self.text.len());
        serde_saphyr::with_deserializer_from_str_with_options(&self.text, options, take)
            .map_err(|error| Failure::in_yaml(&error, self.first_line))
    }
}

/// Returns the parser options: scalars as `kubectl` reads them, and limits on anchors and aliases.
fn options(length: usize) -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            // Text repeated by aliases counts too.
            max_total_scalar_bytes: length + 4 * MAX_OBJECT,
            max_recorded_anchor_bytes: MAX_OBJECT,
            enforce_alias_anchor_ratio: false,
        },
        emit_comments: false,
        legacy_octal_numbers: true,
        ignore_binary_tag_for_string: true,
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    }
}
