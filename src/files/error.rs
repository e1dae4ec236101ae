//! What can be wrong with the input, and where.

use std::fmt;
use std::sync::Arc;

use super::{MAX_DEPTH, MAX_OBJECT};
use crate::visible::visible;

const MIB: usize = 1024 * 1024;

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The operating system says no.
    #[error("cannot be read: {0}; check the path and its permissions")]
    Read(std::io::Error),
    /// A directory holds nothing that is read.
    #[error(
        "no *.yaml, *.yml or *.json in it; name its files one by one if they are called otherwise"
    )]
    NothingInDirectory,
    /// Standard input can be read once.
    #[error("given twice; give `-f -` once")]
    StandardInputTwice,
    /// Bytes that are no text.
    #[error(
        "no valid {encoding} at byte {offset}; save it as UTF-8, or as UTF-16 with a byte-order mark"
    )]
    Encoding {
        /// The encoding that the file claims to have.
        encoding: &'static str,
        /// Where, counted from 0.
        offset: u64,
    },
    /// A NUL byte.
    #[error(
        "a NUL character at byte {0}; this is no text, or UTF-16 without a byte-order mark: save it as UTF-8"
    )]
    Nul(u64),
    /// Neither YAML nor JSON.
    #[error("{0}; correct the file")]
    Syntax(String),
    /// Nested too deeply.
    #[error(
        "nested deeper than {MAX_DEPTH} levels; no Kubernetes object is, look for a lost bracket or a loop"
    )]
    TooDeep,
    /// One token that is too long to keep.
    #[error(
        "a single text of more than {limit} MiB, which no Kubernetes object has; look for a lost quote, or take the file out",
        limit = MAX_OBJECT / MIB
    )]
    TextTooLong,
    /// One object that is too large to keep.
    #[error(
        "this {kind} of {api_version} is larger than {limit} MiB, and no API server stores objects that large; take it out",
        limit = MAX_OBJECT / MIB
    )]
    ObjectTooLarge {
        /// Its apiVersion.
        api_version: String,
        /// Its kind.
        kind: String,
    },
    /// What the API server said in place of objects.
    #[error(
        "the API server refused to give objects: {0}; take them anew with the rights to read them"
    )]
    Refused(String),
    /// A list that is a part of a longer one.
    #[error(
        "this list is one page of a longer one (metadata.continue is set); take all of it, as kubectl get does"
    )]
    OnePage,
    /// The items of a list are none.
    #[error("the items of this {0} are no list of objects; take it anew")]
    NoItems(String),
    /// An object does not say of which apiVersion it is.
    #[error("an object of kind {0} without an apiVersion; add it")]
    NoApiVersion(String),
    /// A kind or apiVersion that is no name.
    #[error("the {0} must be a name; correct it")]
    NotAName(&'static str),
    /// A kind that is no list has items.
    #[error("a {kind} of {api_version} has no items; correct its kind")]
    NotAList {
        /// Its apiVersion.
        api_version: String,
        /// Its kind.
        kind: String,
    },
    /// One mapping has a key twice.
    #[error("the key {0:?} is there twice; remove one")]
    DuplicateKey(String),
    /// A key that is a mapping or sequence.
    #[error("a key must be text, not a mapping or a sequence; correct the file")]
    KeyNotText,
    /// What is merged is no mapping.
    #[error("the key << merges mappings only; correct its value, or quote the key")]
    MergeNotMapping,
    /// A scalar that is not what its tag says, or a number out of range.
    #[error("{text:?} is no {wanted}; correct it, or quote it if it is text")]
    Scalar {
        /// The text, shortened.
        text: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// Anchors and aliases blow up.
    #[error("aliases expand to too much text; write the file without them")]
    Aliases,
    /// An alias inside of the node that it names.
    #[error("an alias stands inside of what it names; write the file without it")]
    AliasInItself,
    /// Items of a list that waits for its kind cannot be kept.
    #[error(
        "no room to keep the items of a list until its kind is known: {0}; set TMPDIR to a folder with room"
    )]
    Spool(std::io::Error),
}

impl Problem {
    /// A parser's message. It may quote the input, which must not reach a terminal as it is.
    pub(super) fn syntax(message: &str) -> Self {
        Self::Syntax(visible(message))
    }
}

/// A place in a text, for people: both count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub line: u64,
    pub column: u64,
}

/// What is wrong with one source, and where.
#[derive(Debug, thiserror::Error)]
pub struct ReadError {
    pub(super) source_name: Arc<str>,
    pub(super) document: Option<u64>,
    pub(super) path: String,
    pub(super) mark: Option<Mark>,
    /// What is wrong.
    pub problem: Problem,
}

impl ReadError {
    pub(super) fn whole(source_name: impl Into<Arc<str>>, problem: Problem) -> Self {
        Self {
            source_name: source_name.into(),
            document: None,
            path: String::new(),
            mark: None,
            problem,
        }
    }

    /// The file or directory, or `standard input`.
    #[must_use]
    pub fn source_name(&self) -> &str {
        &self.source_name
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source_name)?;
        if let Some(document) = self.document {
            write!(f, ", document {document}")?;
        }
        if !self.path.is_empty() {
            write!(f, ", {}", self.path)?;
        }
        if let Some(Mark { line, column }) = self.mark {
            write!(f, ", line {line} column {column}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// Everything that is wrong with the input: one entry a file, the first [`ReadErrors::KEPT`] of them.
#[derive(Debug, Default)]
pub struct ReadErrors {
    /// The first ones.
    pub kept: Vec<ReadError>,
    /// How many more there are.
    pub more: u64,
}

impl ReadErrors {
    /// How many are kept.
    pub const KEPT: usize = 20;

    pub(super) fn push(&mut self, error: ReadError) {
        if self.kept.len() < Self::KEPT {
            self.kept.push(error);
        } else {
            self.more += 1;
        }
    }
}

impl fmt::Display for ReadErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.kept.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for ReadErrors {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_file_document_item_and_place() {
        let error = ReadError {
            source_name: "pods.yaml".into(),
            document: Some(2),
            path: "items[17]".to_owned(),
            mark: Some(Mark {
                line: 14,
                column: 3,
            }),
            problem: Problem::DuplicateKey("name".to_owned()),
        };
        assert_eq!(
            error.to_string(),
            "pods.yaml, document 2, items[17], line 14 column 3: the key \"name\" is there twice; remove one"
        );
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown_and_not_sent() {
        let error = ReadError::whole(visible("a\nb.yaml"), Problem::syntax("é \u{1b}[2J here"));
        assert_eq!(
            error.to_string(),
            "a\\u{a}b.yaml: é \\u{1b}[2J here; correct the file"
        );
    }

    #[test]
    fn many_errors_are_counted_and_not_kept() {
        let mut errors = ReadErrors::default();
        for number in 0..23 {
            errors.push(ReadError::whole(
                number.to_string(),
                Problem::NothingInDirectory,
            ));
        }
        assert_eq!(errors.kept.len(), ReadErrors::KEPT);
        assert!(errors.to_string().ends_with("\nand 3 more"), "{errors}");
    }
}
