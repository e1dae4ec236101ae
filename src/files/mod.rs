//! Reads Kubernetes objects from files, one at a time, as `kubectl get -o yaml|json` or a must-gather prints them.
//!
//! `sources` finds the files, `text` makes UTF-8 of them, `yaml` splits YAML into documents, `objects` takes the objects
//! and lists in a document apart, and `list` keeps items until their list says what they are. JSON is read item by item,
//! in little memory whatever its size; of YAML one document is in memory as text. `kinds` says whether a file that does
//! not parse may hold something of use, and `outline` below which field its lines stand.

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

/// What is kept of one object, in bytes, each value with a few for itself. An API server takes 3 MiB at the most.
const MAX_OBJECT: usize = 16 * 1024 * 1024;

/// The text of one document of YAML, in bytes.
const MAX_DOCUMENT: usize = 512 * 1024 * 1024;

/// How deeply mappings and sequences may be nested; the bound of `serde_json`.
const MAX_DEPTH: usize = 127;

/// What bounds the number of kinds that are counted one by one.
const MAX_KINDS: usize = 10_000;

/// An object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Where it came from.
    pub origin: Origin,
    /// Its apiVersion, which an item of a typed list may have from the list.
    pub api_version: String,
    /// Its kind, likewise.
    pub kind: String,
    /// All of it, apiVersion and kind included.
    pub value: Value,
}

/// A place in a file, for messages: `pods.yaml, document 2, line 14`, or `pods.yaml, document 1, items[17]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    source_name: Arc<str>,
    /// Where in it; empty if it is the file as a whole.
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

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Files, standard input included.
    pub files: u64,
    /// Documents that are not empty.
    pub documents: u64,
    /// Objects handed over.
    pub objects: u64,
    /// Objects that nobody wants, by kind.
    pub unused: BTreeMap<String, u64>,
    /// Documents and items that are no Kubernetes objects.
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

/// How far reading has come, for people who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file or the kind that is being read.
    pub what: &'a str,
    /// How many files or kinds are done.
    pub done: u64,
    /// How many there are.
    pub of: u64,
    /// Objects that were read.
    pub objects: u64,
    /// Bytes that were read, where that is known.
    pub bytes: Option<u64>,
}

/// Whether objects of that apiVersion and kind are wanted; without an apiVersion, whether those of any are.
pub type Wanted<'a> = &'a dyn Fn(Option<&str>, &str) -> bool;

/// What takes an object, or says which field of it is wrong.
pub type Sink<'a> = &'a mut dyn FnMut(Object) -> Result<(), String>;

/// What was read, and what was not.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was read.
    pub tally: Tally,
    /// Paths that cannot be read.
    pub absent: ReadErrors,
    /// Parts of files that cannot be read, and objects with a field that is wrong.
    pub unread: ReadErrors,
    /// Files of which a part does not parse, and which name no kind that is wanted.
    pub left_out: ReadErrors,
}

/// Reads all sources and hands each object of a wanted apiVersion and kind to `sink`.
///
/// What is wrong in a file ends the reading of that file, but for a wrong field of an object; all else is read all the
/// same, so that all errors are known at once.
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

/// Reads one source, as [`read`] reads standard input.
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

/// All that is known while files are read.
struct Reading<'a> {
    wanted: Wanted<'a>,
    sink: Sink<'a>,
    progress: &'a mut dyn FnMut(Progress<'_>),
    files: u64,
    outcome: Outcome,
    source_name: Arc<str>,
    counts: Rc<Counts>,
    /// The document, from 1, and the line where it starts.
    document: u64,
    line: u64,
    /// Which item of it.
    path: String,
    /// How many bytes may still be kept of the object; nothing if it is too large, or not wanted.
    left: Option<usize>,
    /// What ended the reading of the file, if it was not the parser.
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
            // What names no line was found ahead of what is read.
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

    /// Any number of values, one after the other.
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

    /// Where that line and column is, or the document or item that is read.
    fn origin(&self, place: Option<(u64, u64)>) -> Origin {
        let item = match self.path.as_str() {
            "" => String::new(),
            path => format!(", {path}"),
        };
        let place = match place {
            Some((line, column)) => format!(", line {line} column {column}"),
            None if item.is_empty() => format!(", line {}", self.line),
            // An item is found by its number, and the line of its document says nothing.
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
