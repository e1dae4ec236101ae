//! Reads Kubernetes objects from files, as written by `kubectl get -o yaml|json` or a must-gather.
//!
//! `sources` finds the files, `archive` names those that are to be unpacked, `yaml` splits YAML into documents, and `objects` splits documents and lists into objects, one
//! item at a time: in memory are the text of one file and one object, or all items of a list whose kind comes last. `kinds` decides whether a file that does not parse
//! may contain relevant objects.

mod archive;
mod error;
mod kinds;
mod names;
mod objects;
mod sources;
#[cfg(test)]
mod tests;
mod yaml;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use encoding_rs::{Encoding, UTF_8};
use serde_json::Value;

pub use error::{Problem, ReadError, ReadErrors};
pub use sources::Source;

use error::Failure;
use names::{Format, STANDARD_INPUT};

/// An object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The object's position in the input.
    pub origin: Origin,
    /// The object's apiVersion, which may come from its list.
    pub api_version: String,
    /// The object's kind, which may come from its list.
    pub kind: String,
    /// The whole object, including apiVersion and kind.
    pub value: Value,
}

/// A place in a file, for messages: `pods.yaml, document 2, line 14`, or `pods.yaml, document 1, items[17]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    source_name: Arc<str>,
    /// The position in the source; empty for the whole file.
    place: String,
}

impl Origin {
    fn whole(source_name: impl Into<Arc<str>>) -> Self {
        let (source_name, place) = (source_name.into(), String::new());
        Self { source_name, place }
    }

    /// The file, or `standard input`.
    pub fn source_name(&self) -> &str {
        &self.source_name
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.source_name, self.place)
    }
}

/// Counts of what was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Files, including standard input.
    pub files: u64,
    /// Documents that are not empty.
    pub documents: u64,
    /// Objects passed to the sink.
    pub objects: u64,
    /// Objects that are not wanted, by kind.
    pub unused: BTreeMap<String, u64>,
    /// Documents and items that are not Kubernetes objects.
    pub not_objects: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Tally {
    fn count_unused(&mut self, kind: &str) {
        *self.unused.entry(kind.to_owned()).or_default() += 1;
    }
}

/// The progress of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file or the kind that is being read.
    pub what: &'a str,
    /// How many files or kinds have been read.
    pub done: u64,
    /// How many files or kinds there are.
    pub of: u64,
    /// Objects read.
    pub objects: u64,
    /// Bytes of the files that have been read, if known.
    pub bytes: Option<u64>,
}

/// Whether objects of an apiVersion and kind are wanted. Without an apiVersion: whether any apiVersion of the kind is.
pub type Wanted<'a> = &'a dyn Fn(Option<&str>, &str) -> bool;

/// Receives an object. Returns which field of the object is invalid, if any.
pub type Sink<'a> = &'a mut dyn FnMut(Object) -> Result<(), String>;

/// The result of reading.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Counts of what was read.
    pub tally: Tally,
    /// Paths that cannot be read.
    pub absent: ReadErrors,
    /// Parts of files that cannot be parsed, and objects with an invalid field.
    pub unread: ReadErrors,
    /// Files that do not parse completely and name only kinds that are not wanted.
    pub left_out: ReadErrors,
}

/// Reads all sources and passes each object of a wanted apiVersion and kind to `sink`.
///
/// A text that does not parse ends the reading of its file. Whatever else is wrong is told, and reading goes on.
pub fn read(
    sources: &[Source],
    wanted: Wanted<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
    sink: Sink<'_>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let found = sources::find(sources, &mut outcome);
    let mut reading = Reading::new(found.len(), wanted, progress, sink);
    reading.outcome = outcome;
    for source in found {
        match source {
            Source::StandardInput => reading.file(STANDARD_INPUT, None, io::stdin().lock()),
            Source::Path(path) => match File::open(&path) {
                Ok(file) => reading.file(&names::name_of(&path), names::format_of(&path), file),
                Err(error) => (reading.outcome.absent).in_file(&path, Problem::Read(error)),
            },
        }
    }
    reading.outcome
}

/// Reads one source, like [`read`] reads standard input.
pub fn read_from(
    name: &str,
    input: impl Read,
    wanted: Wanted<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
    sink: Sink<'_>,
) -> Outcome {
    let mut reading = Reading::new(1, wanted, progress, sink);
    reading.file(name, None, input);
    reading.outcome
}

struct Reading<'a> {
    wanted: Wanted<'a>,
    sink: Sink<'a>,
    progress: &'a mut dyn FnMut(Progress<'_>),
    files: u64,
    outcome: Outcome,
    source_name: Arc<str>,
    /// The number of the document, from 1; `line` is the line where it starts.
    document: u64,
    line: u64,
    /// The path of the item in the document.
    path: String,
    /// Whether the document is a list that lacks its kind.
    is_without_end: bool,
}

impl<'a> Reading<'a> {
    fn new(
        files: usize,
        wanted: Wanted<'a>,
        progress: &'a mut dyn FnMut(Progress<'_>),
        sink: Sink<'a>,
    ) -> Self {
        Self {
            wanted,
            sink,
            progress,
            files: files as u64,
            outcome: Outcome::default(),
            source_name: Arc::default(),
            document: 0,
            line: 0,
            path: String::new(),
            is_without_end: false,
        }
    }

    fn file(&mut self, name: &str, format: Option<Format>, input: impl Read) {
        self.source_name = Arc::from(name);
        self.document = 0;
        self.report_progress();
        match content(name, input) {
            Ok(bytes) => self.bytes(name, format, bytes),
            Err(problem @ Problem::Read(_)) => {
                let origin = Origin::whole(name);
                self.outcome.absent.push(ReadError { origin, problem });
            }
            Err(problem) => self.push(true, Origin::whole(name), problem),
        }
        self.outcome.tally.files += 1;
        self.report_progress();
    }

    fn bytes(&mut self, name: &str, format: Option<Format>, bytes: Vec<u8>) {
        self.outcome.tally.bytes += bytes.len() as u64;
        match decoded(bytes) {
            Ok(text) => {
                if let Err(Failure { problem, place }) = self.documents(format, &text) {
                    let (wanted, origin) = (self.wanted, self.origin(Some(place)));
                    self.push(kinds::may_hold_wanted(&text, wanted), origin, problem);
                }
            }
            Err((problem, letters)) => {
                let is_wanted = kinds::may_hold_wanted(&letters, self.wanted);
                self.push(is_wanted, Origin::whole(name), problem);
            }
        }
    }

    fn documents(&mut self, format: Option<Format>, text: &str) -> Result<(), Failure> {
        let is_json = text.trim_start().starts_with(['{', '[']);
        match format {
            Some(Format::Json) => self.json(text),
            None if is_json => self.json(text),
            Some(Format::Yaml) | None => self.yaml(text),
        }
    }

    /// Reads any number of consecutive values.
    fn json(&mut self, text: &str) -> Result<(), Failure> {
        // Of a text, each error counts the lines from its beginning; a reader counts as it goes.
        let mut json = serde_json::Deserializer::from_reader(text.as_bytes());
        while let Err(more) = json.end() {
            self.begin_document(more.line() as u64);
            self.root(&mut json)?;
        }
        Ok(())
    }

    fn yaml(&mut self, text: &str) -> Result<(), Failure> {
        for document in yaml::documents(text) {
            self.begin_document(document.content_line());
            document.parse(|yaml| self.root(yaml))?;
            if self.is_without_end {
                self.unread(Problem::NoEnd);
            }
        }
        Ok(())
    }

    fn begin_document(&mut self, line: u64) {
        self.document += 1;
        self.line = line;
        self.path.clear();
        self.is_without_end = false;
    }

    /// Returns the origin of a line and column, or of the current document or item.
    fn origin(&self, place: Option<(u64, u64)>) -> Origin {
        let place = match (place, self.path.as_str()) {
            (Some((line, column)), _) => format!("line {line} column {column}"),
            (None, "") => format!("line {}", self.line),
            // An item is found by its number; the line of its document does not help.
            (None, path) => path.to_owned(),
        };
        Origin {
            source_name: Arc::clone(&self.source_name),
            place: format!(", document {}, {place}", self.document),
        }
    }

    /// Tells a problem of the current document or item.
    fn tell(&mut self, is_wanted: bool, problem: Problem) {
        self.push(is_wanted, self.origin(None), problem);
    }

    fn push(&mut self, is_wanted: bool, origin: Origin, problem: Problem) {
        let errors = if is_wanted {
            &mut self.outcome.unread
        } else {
            &mut self.outcome.left_out
        };
        errors.push(ReadError { origin, problem });
    }

    fn report_progress(&mut self) {
        (self.progress)(Progress {
            what: &self.source_name,
            done: self.outcome.tally.files,
            of: self.files,
            objects: self.outcome.tally.objects,
            bytes: Some(self.outcome.tally.bytes),
        });
    }
}

/// Reads a file unless it is an archive, which may be larger than what fits into memory.
fn content(name: &str, mut input: impl Read) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let mut beginning = input.by_ref().take(archive::BEGINNING);
    let read = beginning.read_to_end(&mut bytes);
    read.map_err(Problem::Read)?;
    if let Some(problem) = archive::of_content(name, &bytes) {
        return Err(problem);
    }
    let read = input.read_to_end(&mut bytes);
    read.map_err(Problem::Read)?;
    Ok(bytes)
}

/// Decodes UTF-8, or UTF-16 with a byte-order mark, with any line ends. The error comes with the letters of the text.
fn decoded(bytes: Vec<u8>) -> Result<String, (Problem, String)> {
    let (encoding, mark) = Encoding::for_bom(&bytes).unwrap_or((UTF_8, 0));
    let text = if encoding == UTF_8 && mark == 0 {
        String::from_utf8(bytes).map_err(|error| {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = valid.split(|byte| *byte == b'\n').count();
            (format!(" in line {line}"), error.into_bytes())
        })
    } else {
        let text = encoding.decode_without_bom_handling_and_without_replacement(&bytes[mark..]);
        text.map(String::from).ok_or((String::new(), bytes))
    };
    let text = match text {
        Ok(text) if text.contains('\0') => Err((Problem::Nul, text.into_bytes())),
        Ok(text) => Ok(text),
        Err((place, bytes)) => Err((Problem::Encoding(encoding.name(), place), bytes)),
    };
    match text {
        Ok(text) if text.contains('\r') => Ok(text.replace("\r\n", "\n").replace('\r', "\n")),
        Ok(text) => Ok(text),
        Err((problem, mut bytes)) => {
            // UTF-16 without its NUL bytes leaves the letters.
            bytes.retain(|byte| *byte != 0);
            Err((problem, String::from_utf8_lossy(&bytes).into_owned()))
        }
    }
}
