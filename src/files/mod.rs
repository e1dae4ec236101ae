//! Reads Kubernetes objects one at a time from files, as written by `kubectl get -o yaml|json` or a must-gather.
//!
//! `sources` finds the files, `text` converts them to UTF-8, `yaml` splits YAML into documents, `objects` splits documents
//! and lists into objects, and `list` buffers items until their list's kind is known. JSON is read item by item, in little
//! memory whatever its size; for YAML, the text of one document is in memory. `kinds` decides whether a file that does not
//! parse may contain relevant objects, and `outline` finds the field that a line belongs to.

mod error;
mod kinds;
mod list;
mod objects;
mod outline;
mod sources;
#[cfg(test)]
mod tests;
mod text;
mod yaml;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;

pub use error::{Problem, ReadError, ReadErrors};
pub use sources::Source;

use error::Failure;
use kinds::Watched;
use sources::{Format, STANDARD_INPUT};
use text::{Counts, Text};

/// The memory limit of one object in bytes, including a small overhead per value. An API server accepts at most 3 MiB.
const MAX_OBJECT: usize = 16 * 1024 * 1024;

/// The longest YAML document in bytes.
const MAX_DOCUMENT: usize = 512 * 1024 * 1024;

/// The maximum nesting of mappings and sequences, the same as `serde_json`'s.
const MAX_DEPTH: usize = 127;

/// How many kinds are counted separately.
const MAX_KINDS: usize = 10_000;

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
    #[must_use]
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
        let known = self.unused.len() < MAX_KINDS || self.unused.contains_key(kind);
        let kind = if known { kind } else { "other kinds" };
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
    /// Bytes read, if known.
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
    /// Files that do not parse completely and name no wanted kind.
    pub left_out: ReadErrors,
}

/// Reads all sources and passes each object of a wanted apiVersion and kind to `sink`.
///
/// An error ends the reading of its file, except for an invalid field of an object. Other files are still read, so that all
/// errors are reported at once.
pub fn read(
    sources: &[Source],
    wanted: Wanted<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
    sink: Sink<'_>,
) -> Outcome {
    let mut absent = ReadErrors::default();
    let found = sources::find(sources, &mut absent);
    let mut reading = Reading::new(found.len(), wanted, progress, sink);
    reading.outcome.absent = absent;
    for source in found {
        match source {
            Source::StandardInput => reading.file(STANDARD_INPUT, None, io::stdin().lock()),
            Source::Path(path) => match File::open(&path) {
                Ok(file) => reading.file(&sources::name_of(&path), sources::format_of(&path), file),
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
    counts: Rc<Counts>,
    /// The number of the document, from 1; `line` is the line where it starts.
    document: u64,
    line: u64,
    /// The path of the item in the document.
    path: String,
    /// The remaining memory for the object in bytes; `None` if it is too large or not wanted.
    left: Option<usize>,
    /// The error that ended the reading of the file, unless the parser found it.
    problem: Option<Problem>,
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
            counts: Rc::default(),
            document: 0,
            line: 0,
            path: String::new(),
            left: None,
            problem: None,
        }
    }

    fn file(&mut self, name: &str, format: Option<Format>, input: impl Read) {
        self.source_name = Arc::from(name);
        self.counts = Rc::default();
        self.document = 0;
        self.report_progress();
        let mut input = Watched::new(input, self.wanted);
        let text = Text::new(&mut input, Rc::clone(&self.counts));
        if let Err(failure) = self.documents(format, text) {
            // An error without a line was found ahead of the parser's position.
            let origin = match failure.place {
                Some(place) => self.origin(Some(place)),
                None => Origin::whole(name),
            };
            let problem = self.problem.take().unwrap_or(failure.problem);
            let names_wanted = input.names_wanted();
            let errors = match problem {
                Problem::Read(_) => &mut self.outcome.absent,
                _ if names_wanted => &mut self.outcome.unread,
                _ => &mut self.outcome.left_out,
            };
            errors.push(ReadError { origin, problem });
        }
        self.outcome.tally.files += 1;
        self.outcome.tally.bytes += self.counts.bytes.take();
        self.report_progress();
    }

    fn documents(
        &mut self,
        format: Option<Format>,
        mut text: Text<impl Read>,
    ) -> Result<(), Failure> {
        let format = match format {
            Some(format) => format,
            None if matches!(text.peek()?, Some('{' | '[')) => Format::Json,
            None => Format::Yaml,
        };
        match format {
            Format::Json => self.json(BufReader::new(text)),
            Format::Yaml => self.yaml(BufReader::new(text)),
        }
    }

    /// Reads any number of consecutive values.
    fn json(&mut self, text: impl Read) -> Result<(), Failure> {
        let mut json = serde_json::Deserializer::from_reader(text);
        while let Err(more) = json.end() {
            if more.is_io() {
                return Err(more.into());
            }
            self.begin_document(more.line() as u64);
            self.root(&mut json)?;
        }
        Ok(())
    }

    fn yaml(&mut self, text: impl BufRead) -> Result<(), Failure> {
        let mut documents = yaml::Documents::new(text, Rc::clone(&self.counts));
        while let Some(document) = documents.next()? {
            self.begin_document(document.content_line());
            document.parse(|yaml| self.root(yaml))?;
        }
        Ok(())
    }

    fn begin_document(&mut self, line: u64) {
        self.document += 1;
        self.line = line;
        self.path.clear();
    }

    /// Returns the origin of a line and column, or of the current document or item.
    fn origin(&self, place: Option<(u64, u64)>) -> Origin {
        let item = match self.path.as_str() {
            "" => String::new(),
            path => format!(", {path}"),
        };
        let place = match place {
            Some((line, column)) => format!(", line {line} column {column}"),
            None if item.is_empty() => format!(", line {}", self.line),
            // An item is found by its number; the line of its document does not help.
            None => String::new(),
        };
        Origin {
            source_name: Arc::clone(&self.source_name),
            place: format!(", document {}{item}{place}", self.document),
        }
    }

    fn report_progress(&mut self) {
        (self.progress)(Progress {
            what: &self.source_name,
            done: self.outcome.tally.files,
            of: self.files,
            objects: self.outcome.tally.objects,
            bytes: Some(self.outcome.tally.bytes + self.counts.bytes.get()),
        });
    }
}
