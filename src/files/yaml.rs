//! Splits YAML into documents, and parses one. serde-saphyr's own iterator over documents gives no lines.

use serde_json::Value;
use serde_saphyr::Options;

use super::error::Failure;

/// The maximum nesting of mappings and sequences, the same as `serde_json`'s.
pub(super) const MAX_DEPTH: usize = 127;

/// How many bytes of text aliases may add to a document.
const MAX_REPEATED: usize = 64 * 1024 * 1024;

/// A document, from its marker on.
pub(super) struct Document<'a> {
    pub text: &'a str,
    /// The line of the text where it begins, from 1.
    first_line: u64,
}

/// Splits text at the lines that start and end documents, and leaves out those without content. Any line that looks like a
/// marker counts as one, even inside a block scalar.
pub(super) fn documents(text: &str) -> impl Iterator<Item = Document<'_>> {
    let (mut found, mut start, mut first_line, mut has_content) = (Vec::new(), 0, 1, false);
    let mut end = 0;
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        let is_end = is_marker(line, "...");
        if is_end || is_marker(line, "---") {
            let end = end + if is_end { line.len() } else { 0 };
            let document = Document {
                text: &text[start..end],
                first_line,
            };
            found.extend(has_content.then_some(document));
            (start, first_line, has_content) = (end, number + u64::from(is_end), false);
        }
        has_content |= is_content(line) && !is_end;
        end += line.len();
    }
    let document = Document {
        text: &text[start..],
        first_line,
    };
    found.extend(has_content.then_some(document));
    found.into_iter()
}

fn is_marker(line: &str, marker: &str) -> bool {
    let rest = line.strip_prefix(marker);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Whether a line is more than a marker, directive or comment.
fn is_content(line: &str) -> bool {
    let rest = line.strip_prefix("---").unwrap_or(line).trim();
    !(rest.is_empty() || rest.starts_with(['#', '%']))
}

impl Document<'_> {
    /// Returns the first line that is not a marker, directive or comment.
    pub fn content_line(&self) -> u64 {
        let before = self.text.lines().position(is_content).unwrap_or_default();
        self.first_line + before as u64
    }

    /// Parses the document.
    pub fn parse(&self) -> Result<Value, Failure> {
        serde_saphyr::from_str_with_options(self.text, options(self.text.len()))
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
            max_total_scalar_bytes: length + MAX_REPEATED,
            max_recorded_anchor_bytes: MAX_REPEATED / 4,
            enforce_alias_anchor_ratio: false,
        },
        emit_comments: false,
        legacy_octal_numbers: true,
        ignore_binary_tag_for_string: true,
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    }
}
