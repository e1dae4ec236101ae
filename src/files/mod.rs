//! Reads Kubernetes objects from files, as written by `kubectl get -o yaml|json` or a must-gather.
//!
//! `sources` finds the files, `archive` names those that are to be unpacked, `yaml` splits YAML into documents, and `objects`
//! splits documents and lists into objects. In memory are the text of one file, and one document of YAML or one item of a list
//! in JSON. `kinds` decides whether a file that does not parse may contain relevant objects.

mod archive;
mod error;
mod kinds;
mod objects;
mod sources;
#[cfg(test)]
mod tests;
mod yaml;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use encoding_rs::{Encoding, UTF_8};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub use error::{Problem, ReadError, ReadErrors};

use error::Failure;
use sources::Format;

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
    /// Objects passed to the sink.
    pub objects: u64,
    /// Objects of kinds that are not wanted.
    pub unused: u64,
    /// Documents and items that are not Kubernetes objects.
    pub not_objects: u64,
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

/// Reads all files and folders, of which `-` is standard input, and passes each object of a wanted apiVersion and kind to `sink`.
///
/// A text that does not parse ends the reading of its file. Whatever else is wrong is told, and reading goes on.
pub fn read(
    paths: &[PathBuf],
    wanted: Wanted<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
    sink: Sink<'_>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let found = sources::find(paths, &mut outcome);
    let mut reading = Reading::new(found.len(), wanted, progress, sink);
    reading.outcome = outcome;
    for path in found {
        let name = sources::name_of(&path);
        if sources::is_standard_input(&path) {
            reading.file(&name, None, io::stdin().lock());
            continue;
        }
        match File::open(&path) {
            Ok(file) => reading.file(&name, sources::format_of(&path), file),
            Err(error) => (reading.outcome.absent).in_file(&path, Problem::Read(error)),
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
            let line = more.line() as u64;
            self.begin_document(line);
            let document = Box::<RawValue>::deserialize(&mut json)?;
            (self.json_document(document.get())).map_err(|error| Failure::in_json(error, line))?;
        }
        Ok(())
    }

    /// Reads a list item by item: as a whole it takes up to fifteen times the memory of its text.
    fn json_document(&mut self, document: &str) -> Result<(), serde_json::Error> {
        let Some((head, items)) = split_list(document) else {
            self.root(serde_json::from_str(document)?);
            return Ok(());
        };
        let mut failed = false;
        let items = items.into_iter().map_while(|item| {
            let item = serde_json::from_str(item.get());
            failed = item.is_err();
            item.ok()
        });
        self.list(&head, items);
        if failed {
            // Says where in the document.
            serde_json::from_str::<Value>(document)?;
        }
        Ok(())
    }

    fn yaml(&mut self, text: &str) -> Result<(), Failure> {
        for document in yaml::documents(text) {
            self.begin_document(document.content_line());
            let value = document.parse()?;
            // Where its end is missing, the rest may parse: kubectl prints the kind of a list last.
            let is_list = value["items"].is_array() && value.get("apiVersion").is_some();
            let is_cut_off = is_list && value.get("kind").is_none();
            self.root(value);
            if is_cut_off {
                self.unread(Problem::NoEnd);
            }
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
        });
    }
}

/// Splits a list in JSON into its items and all else; nothing if it is no list.
fn split_list(document: &str) -> Option<(Map<String, Value>, Vec<&RawValue>)> {
    let mut fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(document).ok()?;
    let items = serde_json::from_str(fields.remove("items")?.get()).ok()?;
    let parsed = fields.into_iter().map(|(name, value)| {
        let value = serde_json::from_str(value.get()).ok()?;
        Some((name.into_owned(), value))
    });
    let head: Map<String, Value> = parsed.collect::<Option<_>>()?;
    (!objects::is_object(&head)).then_some((head, items))
}

/// Reads a file unless it is an archive, which may be larger than what fits into memory.
fn content(name: &str, mut input: impl Read) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let mut beginning = input.by_ref().take(archive::BEGINNING);
    let read = beginning.read_to_end(&mut bytes);
    read.map_err(Problem::Read)?;
    if archive::is_one(name, &bytes) {
        return Err(Problem::Archive);
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
