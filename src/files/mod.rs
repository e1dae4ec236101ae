//! Kubernetes objects out of files, one at a time: whatever `kubectl get -o yaml|json` or a must-gather prints, of any
//! size in little memory.
//!
//! `sources` finds the files, `encoding` makes text of them, `yaml` and `json` make events of the text,
//! `compose` makes values of the events, and `objects` knows documents and lists.

mod characters;
mod compose;
mod encoding;
mod error;
mod events;
mod json;
mod objects;
mod progress;
mod scalars;
mod siblings;
mod sources;
#[cfg(test)]
mod tests;
mod yaml;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

pub use error::{Problem, ReadError, ReadErrors};
pub use objects::Origin;
pub use progress::Progress;
pub use sources::Source;

use compose::Stream;
use encoding::Text;
use events::Events;
use json::Json;
use objects::Documents;
use progress::Pulse;
use sources::{Format, STANDARD_INPUT};
use yaml::{Limits, Yaml};

/// What is kept of one object, in bytes, each value with a few for itself. An API server takes 3 MiB at the most.
const MAX_OBJECT: usize = 16 * 1024 * 1024;

/// How deeply mappings and sequences may be nested in a document.
const MAX_DEPTH: usize = 120;

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
    pub value: serde_json::Value,
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
        if let Some(count) = self.unused.get_mut(kind) {
            *count += 1;
        } else {
            let known = self.unused.len() < MAX_KINDS;
            let kind = if known { kind } else { "other kinds" };
            *self.unused.entry(kind.to_owned()).or_default() += 1;
        }
    }
}

/// Reads all sources and hands each object of a wanted apiVersion and kind to `sink`.
///
/// One error ends the reading of its file; the other files are read all the same, so that all errors are known at once.
/// What `sink` got counts for nothing then.
pub fn read(
    sources: &[Source],
    wanted: &dyn Fn(&str, &str) -> bool,
    progress: &mut dyn FnMut(&Progress<'_>),
    sink: &mut dyn FnMut(Object),
) -> Result<Tally, ReadErrors> {
    let mut errors = ReadErrors::default();
    let found = sources::find(sources, &mut errors);
    let mut reading = Reading {
        wanted,
        sink,
        pulse: Pulse::new(found.len() as u64, progress),
        tally: Tally::default(),
        errors,
        max_object: MAX_OBJECT,
    };
    for source in found {
        match source {
            Source::StandardInput => reading.one(STANDARD_INPUT, None, std::io::stdin().lock()),
            Source::Path(path) => {
                let name = crate::visible::visible(&path.to_string_lossy());
                match File::open(&path) {
                    Ok(file) => reading.one(&name, sources::format_of(&path), file),
                    Err(error) => {
                        let error = ReadError::whole(name, Problem::Read(error));
                        reading.errors.push(error);
                    }
                }
            }
        }
    }
    reading.finish()
}

/// Reads one source, as [`read`] reads standard input.
pub fn read_from(
    name: &str,
    input: impl Read,
    wanted: &dyn Fn(&str, &str) -> bool,
    progress: &mut dyn FnMut(&Progress<'_>),
    sink: &mut dyn FnMut(Object),
) -> Result<Tally, ReadErrors> {
    read_within(MAX_OBJECT, name, input, wanted, progress, sink)
}

fn read_within(
    max_object: usize,
    name: &str,
    input: impl Read,
    wanted: &dyn Fn(&str, &str) -> bool,
    progress: &mut dyn FnMut(&Progress<'_>),
    sink: &mut dyn FnMut(Object),
) -> Result<Tally, ReadErrors> {
    let mut reading = Reading {
        wanted,
        sink,
        pulse: Pulse::new(1, progress),
        tally: Tally::default(),
        errors: ReadErrors::default(),
        max_object,
    };
    reading.one(name, None, input);
    reading.finish()
}

struct Reading<'a> {
    wanted: &'a dyn Fn(&str, &str) -> bool,
    sink: &'a mut dyn FnMut(Object),
    pulse: Pulse<'a>,
    tally: Tally,
    errors: ReadErrors,
    max_object: usize,
}

impl Reading<'_> {
    fn one(&mut self, name: &str, format: Option<Format>, input: impl Read) {
        self.pulse.start(name);
        let mut text = Text::new(input);
        let bytes = text.bytes_read();
        let format = match format {
            Some(format) => Ok(format),
            None => text.peek().map(|first| match first {
                Some('{' | '[') => Format::Json,
                _ => Format::Yaml,
            }),
        };
        match format {
            Ok(format) => self.documents(name, format, text),
            Err(problem) => self.errors.push(ReadError::whole(name, problem)),
        }
        self.tally.files += 1;
        self.tally.bytes += bytes.get();
        self.pulse.done(bytes.get());
    }

    fn documents(&mut self, name: &str, format: Format, text: Text<impl Read>) {
        let bytes = text.bytes_read();
        let events: Box<dyn Events + '_> = match format {
            Format::Yaml => Box::new(Yaml::new(
                text,
                Limits {
                    text: self.max_object,
                    anchored: self.max_object,
                    aliased: 4 * self.max_object,
                },
            )),
            Format::Json => Box::new(Json::new(text, self.max_object)),
        };
        let mut documents = Documents {
            source_name: Arc::from(name),
            stream: Stream::new(events, bytes, &mut self.pulse),
            wanted: self.wanted,
            sink: &mut *self.sink,
            tally: &mut self.tally,
            document: 0,
            path: String::new(),
            max_object: self.max_object,
        };
        let Err(stop) = documents.read() else {
            return;
        };
        let Documents {
            source_name,
            document,
            path,
            ..
        } = documents;
        self.errors.push(match stop.mark {
            Some(mark) => ReadError {
                source_name,
                document: Some(document.max(1)),
                path,
                mark: Some(mark),
                problem: stop.problem,
            },
            // What names a byte was found ahead of what is read.
            None => ReadError::whole(source_name, stop.problem),
        });
    }

    fn finish(self) -> Result<Tally, ReadErrors> {
        if self.errors.kept.is_empty() {
            Ok(self.tally)
        } else {
            Err(self.errors)
        }
    }
}
