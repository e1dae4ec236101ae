//! Errors in input files, with their position.

use std::path::Path;
use std::{fmt, io};

use serde_saphyr::{MessageFormatter, UserMessageFormatter};

use super::Origin;
use super::names::name_of;
use crate::visible::visible;

/// How much of a text is quoted.
const QUOTED: usize = 80;

/// An error in the input.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The operating system returned an error.
    #[error("cannot be read: {0}; check the path and its permissions")]
    Read(io::Error),
    /// A directory has no files with a supported extension.
    #[error(
        "no *.yaml, *.yml or *.json in it; name its files one by one if they have other extensions"
    )]
    NothingInDirectory,
    /// An archive, and what unpacks it.
    #[error("this is an archive, which is not read; unpack it with {0}, and give what was in it")]
    Archive(&'static str),
    /// Standard input was given more than once.
    #[error("given twice; give `-f -` once")]
    StandardInputTwice,
    /// Bytes that are invalid in the file's encoding, and where, if known.
    #[error(
        "this is not text, or invalid {0}{1}; save it as UTF-8, or as UTF-16 with a byte-order mark"
    )]
    Encoding(&'static str, String),
    /// A NUL byte.
    #[error(
        "a NUL character; this is not text, or UTF-16 without a byte-order mark: save it as UTF-8"
    )]
    Nul,
    /// Neither YAML nor JSON.
    #[error("{0}; correct the file, or collect it again if its end is missing")]
    Syntax(String),
    /// An object of this kind has an invalid field.
    #[error("{kind}: {field}")]
    Field {
        /// The kind.
        kind: String,
        /// The field and the error.
        field: String,
    },
    /// The API server's error in place of objects.
    #[error(
        "the API server refused to return objects: {0}; collect them again with the rights to read them"
    )]
    Refused(String),
    /// A list that is one page of a longer one.
    #[error(
        "this list is one page of a longer one (metadata.continue is set); collect all of it, as kubectl get does"
    )]
    OnePage,
    /// A list in YAML without its kind.
    #[error(
        "this list has no kind, which kubectl prints at its end: it was cut off; collect it again"
    )]
    NoEnd,
    /// The items of a list are not objects.
    #[error("the items of this {0} are not a list of objects; collect it again")]
    NoItems(String),
    /// An object's apiVersion or kind is missing, or is not a name.
    #[error("{0} has no {1} that is a name; collect it again, as with kubectl get -o yaml")]
    Unnamed(String, &'static str),
    /// A text in place of objects: what kubectl prints on an error, or for people.
    #[error("this is a text and no object ({0}); collect it again, as with kubectl get -o yaml")]
    Text(String),
    /// A kind, with its apiVersion, that has items but is not a list.
    #[error("a {0} of {1} has items and is no list; correct its kind, or leave it out")]
    NotAList(String, String),
}

/// Why reading a file ended, with line and column.
pub(super) struct Failure {
    pub problem: Problem,
    pub place: (u64, u64),
}

impl Failure {
    /// Converts a parser error in a document that starts at `first_line`.
    pub fn in_yaml(error: &serde_saphyr::Error, first_line: u64) -> Self {
        let place = error.location();
        let (line, column) = place.map_or((1, 1), |place| (place.line(), place.column()));
        Self {
            problem: Problem::syntax(&UserMessageFormatter.format_message(error)),
            place: (first_line + line - 1, column),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let message = error.to_string();
        let place = format!(" at line {line} column {column}");
        let message = message.strip_suffix(&place).unwrap_or(&message);
        Self {
            problem: Problem::syntax(message),
            place: (line as u64, column as u64),
        }
    }
}

impl Problem {
    /// Creates the error of a text. Quotes its beginning.
    pub(super) fn text(text: &str) -> Self {
        let line = text.lines().next().unwrap_or_default();
        Self::Text(visible(&line.chars().take(QUOTED).collect::<String>()))
    }

    /// Creates a syntax error. Escapes the parser's message, which may quote the input.
    fn syntax(message: &str) -> Self {
        Self::Syntax(visible(message))
    }
}

/// An error in the input, with its position.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: {problem}")]
pub struct ReadError {
    /// The position.
    pub origin: Origin,
    /// The error.
    pub problem: Problem,
}

/// All errors in the input, of which the first [`ReadErrors::KEPT`] are kept.
#[derive(Debug, Default)]
pub struct ReadErrors {
    kept: Vec<ReadError>,
    more: u64,
}

impl ReadErrors {
    /// How many errors are kept.
    pub const KEPT: usize = 20;

    /// Whether there are no errors.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns the first error and the number of others.
    pub fn summary(&self) -> Option<String> {
        let first = self.kept.first()?;
        Some(match self.kept.len() as u64 - 1 + self.more {
            0 => first.to_string(),
            more => format!("{first}; and {more} more"),
        })
    }

    /// Appends other errors.
    pub fn and(mut self, others: Self) -> Self {
        others.kept.into_iter().for_each(|error| self.push(error));
        self.more += others.more;
        self
    }

    pub(super) fn push(&mut self, error: ReadError) {
        if self.kept.len() < Self::KEPT {
            self.kept.push(error);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn in_file(&mut self, path: &Path, problem: Problem) {
        let origin = Origin::whole(name_of(path));
        self.push(ReadError { origin, problem });
    }
}

impl fmt::Display for ReadErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.kept.iter().enumerate() {
            let separator = if number > 0 { "\n" } else { "" };
            write!(f, "{separator}{error}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for ReadErrors {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_written_out() {
        let mut errors = ReadErrors::default();
        errors.in_file(Path::new("a\nb.yaml"), Problem::syntax("é \u{1b}[2J here"));
        assert_eq!(
            errors.to_string(),
            "a\\u{a}b.yaml: é \\u{1b}[2J here; correct the file, or collect it again if its end is missing"
        );
    }

    #[test]
    fn many_errors_are_counted_and_not_kept() {
        let mut errors = ReadErrors::default();
        for _ in 0..23 {
            errors.in_file(Path::new("a"), Problem::Nul);
        }
        assert_eq!(errors.kept.len(), ReadErrors::KEPT);
        assert!(errors.to_string().ends_with("\nand 3 more"), "{errors}");
        assert!(errors.summary().unwrap().ends_with("; and 22 more"));
        let mut one = ReadErrors::default();
        one.in_file(Path::new("b"), Problem::Nul);
        let all = one.and(errors).to_string();
        assert!(
            all.starts_with("b: ") && all.ends_with("\nand 4 more"),
            "{all}"
        );
    }
}
