//! Splits YAML into documents, and parses one. serde-saphyr's own iterator over documents gives no lines.

use serde_saphyr::{Deserializer, Error, Options};

use super::error::Failure;

/// The maximum nesting of mappings and sequences, the same as `serde_json`'s.
pub(super) const MAX_DEPTH: usize = 127;

/// How many bytes of text aliases may add to a document.
const MAX_REPEATED: usize = 64 * 1024 * 1024;

/// A document, from its marker on.
pub(super) struct Document<'a> {
    text: &'a str,
    /// The line of the text where it begins, from 1.
    first_line: u64,
}

/// Splits text at the lines that start and end documents, and leaves out those without content. Any line that looks like a
/// marker counts as one, even inside a block scalar.
pub(super) fn documents(text: &str) -> impl Iterator<Item = Document<'_>> {
    let (mut found, mut start, mut first_line, mut has_content) = (Vec::new(), 0, 1, false);
    let mut end = 0;
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        if is_marker(line, "---") && has_content || is_marker(line, "...") {
            let end = if is_marker(line, "...") {
                end + line.len()
            } else {
                end
            };
            let document = Document {
                text: &text[start..end],
                first_line,
            };
            found.extend(has_content.then_some(document));
            (start, first_line, has_content) = (end, number, false);
            first_line += u64::from(is_marker(line, "..."));
        }
        // Directives and comments belong to the document that follows.
        let is_empty = line.trim().is_empty() || line.starts_with(['#', '%']);
        has_content |= !is_empty && !is_marker(line, "...");
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
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\n']))
}

impl<'a> Document<'a> {
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
    pub fn parse(
        &self,
        take: impl FnOnce(Deserializer<'a, '_>) -> Result<(), Error>,
    ) -> Result<(), Failure> {
        let options = options(self.text.len());
        serde_saphyr::with_deserializer_from_str_with_options(self.text, options, take)
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
