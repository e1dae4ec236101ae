//! Documents, lists and the objects in them.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::compose::{Allowance, Fields, Stream, at};
use super::error::{Mark, Problem};
use super::events::{Event, Stop};
use super::siblings::{Identity, Siblings, Waiting};
use super::{Object, Tally, scalars};
use crate::visible::visible;

/// Kubernetes allows no longer names.
const MAX_NAME: usize = 253;

/// The value if it can be an apiVersion or a kind. What it cannot be would only garble messages.
fn name(value: &Value) -> Option<String> {
    let name = value.as_str()?;
    let fits = (1..=MAX_NAME).contains(&name.len());
    (fits && name.bytes().all(|byte| byte.is_ascii_graphic())).then(|| name.to_owned())
}

/// Where an object came from, for messages: `pods.yaml, document 2, items[17]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    source_name: Arc<str>,
    document: u64,
    path: String,
    line: u64,
}

impl Origin {
    /// The file, or `standard input`.
    #[must_use]
    pub fn source_name(&self) -> &str {
        &self.source_name
    }

    /// The line on which the object starts, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {}", self.source_name, self.document)?;
        if !self.path.is_empty() {
            write!(f, ", {}", self.path)?;
        }
        Ok(())
    }
}

/// One source while it is read.
pub(super) struct Documents<'a, 'p> {
    pub source_name: Arc<str>,
    pub stream: Stream<'a, 'p>,
    pub wanted: &'a dyn Fn(&str, &str) -> bool,
    pub sink: &'a mut dyn FnMut(Object),
    pub tally: &'a mut Tally,
    /// The number of the document, from 1.
    pub document: u64,
    /// Which item of it.
    pub path: String,
    /// What is kept of one object, in bytes.
    pub max_object: usize,
}

impl Documents<'_, '_> {
    /// Reads to the end. After an error `document` and `path` say where it stopped.
    pub fn read(&mut self) -> Result<(), Stop> {
        loop {
            match self.stream.next()? {
                (Event::DocumentStart, _) => {
                    self.document += 1;
                    self.path.clear();
                    self.root()?;
                }
                (Event::End, _) => return Ok(()),
                _ => {}
            }
        }
    }

    fn root(&mut self) -> Result<(), Stop> {
        let (event, mark) = self.stream.next()?;
        if let Event::Scalar(scalar) = &event
            && scalars::is_nothing(scalar)
        {
            return Ok(());
        }
        self.tally.documents += 1;
        match event {
            Event::SeqStart => self.sequence("", None),
            event => self.node(&event, mark, None),
        }
    }

    /// The nodes of a sequence, each of which may be an object.
    fn sequence(&mut self, name: &str, mut siblings: Option<&mut Siblings>) -> Result<(), Stop> {
        let length = self.path.len();
        for number in 0_u64.. {
            let (event, mark) = self.stream.next()?;
            if event == Event::SeqEnd {
                break;
            }
            let dot = if length == 0 { "" } else { "." };
            // Writing to a String does not fail.
            let _ = write!(self.path, "{dot}{name}[{number}]");
            self.node(&event, mark, siblings.as_deref_mut())?;
            self.path.truncate(length);
        }
        Ok(())
    }

    fn node(
        &mut self,
        first: &Event,
        mark: Mark,
        siblings: Option<&mut Siblings>,
    ) -> Result<(), Stop> {
        if *first == Event::MapStart {
            return self.mapping(mark, siblings);
        }
        match siblings {
            // Whether that is a fault depends on what the list is of.
            Some(siblings) => {
                siblings
                    .misfit
                    .get_or_insert_with(|| (self.path.clone(), mark));
            }
            None => self.tally.not_objects += 1,
        }
        self.stream.skip(first)
    }

    /// As in Kubernetes itself, whatever has a sequence of items is a list.
    fn mapping(&mut self, mark: Mark, siblings: Option<&mut Siblings>) -> Result<(), Stop> {
        let mut allowance = Allowance::within(self.max_object);
        let mut fields = Fields::new();
        let mut identity = Identity::default();
        let mut list = None;
        let mut doubts = Doubts::default();
        while let Some((key, at_key)) = self.stream.key()? {
            let (event, at_value) = self.stream.next()?;
            let told = match key.text.as_str() {
                "apiVersion" => Some(&mut identity.api_version),
                "kind" => Some(&mut identity.kind),
                _ => None,
            };
            if let Some(told) = told {
                if told.is_some() {
                    return Err(at(at_key)(Problem::DuplicateKey(key.text)));
                }
                *told = self.name(event, at_value, &mut doubts, &key.text)?;
                if !self.is_needed(&identity) {
                    fields.drop_all();
                }
            } else if key.text == "items"
                && identity.is_list()
                && is_something(&event)
                && event != Event::SeqStart
            {
                doubts.no_items = Some(at_key);
                self.stream.skip(&event)?;
            } else if key.text == "items" && event == Event::SeqStart {
                if list.is_some() || fields.has(&key.text) {
                    return Err(at(at_key)(Problem::DuplicateKey(key.text)));
                }
                if fields.get("metadata").is_some_and(is_one_page) {
                    doubts.one_page = Some(at_key);
                }
                fields.drop_all();
                let mut items = Siblings::of(identity.clone());
                self.sequence(&key.text, Some(&mut items))?;
                list = Some(items);
            } else if key.text == "metadata" && (list.is_some() || identity.is_list()) {
                let metadata = self.compose(event, at_value)?;
                if metadata.as_ref().is_some_and(is_one_page) {
                    doubts.one_page = Some(at_key);
                }
            } else if fields.are_kept() {
                self.stream
                    .field(&mut fields, key, at_key, event, at_value, &mut allowance)?;
            } else {
                self.stream.skip(&event)?;
            }
        }
        let fields = fields.finish();
        if let (Some((what, place)), true) = (doubts.no_name, identity.says_something()) {
            return Err(at(place)(Problem::NotAName(what)));
        }
        match list {
            Some(items) => self.list(items, &identity, &doubts, mark),
            None if identity.is_list() && self.is_list_wanted(&identity) => {
                let items = fields.as_ref().and_then(|fields| fields.get("items"));
                let misplaced = items.is_some_and(|items| !items.is_null());
                match doubts.no_items {
                    Some(place) => Err(no_items(&identity, place)),
                    None if misplaced => Err(no_items(&identity, mark)),
                    None => self.object(fields, identity, mark, siblings),
                }
            }
            None => self.object(fields, identity, mark, siblings),
        }
    }

    /// The text that apiVersion or kind may have.
    fn name(
        &mut self,
        first: Event,
        mark: Mark,
        doubts: &mut Doubts,
        key: &str,
    ) -> Result<Option<String>, Stop> {
        let value = self.compose(first, mark)?;
        let told = value.as_ref().and_then(name);
        if told.is_none() && value.is_some_and(|value| !value.is_null()) {
            let key = if key == "kind" { "kind" } else { "apiVersion" };
            doubts.no_name = Some((key, mark));
        }
        Ok(told)
    }

    fn compose(&mut self, first: Event, mark: Mark) -> Result<Option<Value>, Stop> {
        let mut allowance = Allowance::within(self.max_object);
        self.stream.compose(first, mark, &mut allowance)
    }

    /// Whether the items of a list may be of use.
    fn is_list_wanted(&self, list: &Identity) -> bool {
        match list.of_items() {
            Some(Identity {
                api_version: Some(api_version),
                kind: Some(kind),
            }) => (self.wanted)(&api_version, &kind),
            // A List of all sorts.
            _ => true,
        }
    }

    fn is_needed(&self, identity: &Identity) -> bool {
        match (&identity.api_version, &identity.kind) {
            (Some(api_version), Some(kind)) => {
                (self.wanted)(api_version, kind) || is_status(api_version, kind)
            }
            _ => true,
        }
    }

    fn list(
        &mut self,
        items: Siblings,
        list: &Identity,
        doubts: &Doubts,
        mark: Mark,
    ) -> Result<(), Stop> {
        if list.is_list() && self.is_list_wanted(list) {
            if let Some(place) = doubts.one_page {
                return Err(at(place)(Problem::OnePage));
            }
            if let Some((path, place)) = &items.misfit {
                self.path.clone_from(path);
                return Err(no_items(list, *place));
            }
        }
        match (&list.api_version, &list.kind) {
            (Some(_), Some(kind)) if kind.ends_with("List") => {}
            (Some(api_version), Some(kind)) => {
                if (self.wanted)(api_version, kind) {
                    return Err(at(mark)(Problem::NotAList {
                        api_version: api_version.clone(),
                        kind: kind.clone(),
                    }));
                }
                self.tally.count_unused(kind);
            }
            _ => self.tally.not_objects += 1,
        }
        let Some(told) = list.of_items() else {
            self.tally.not_objects += items.waiting;
            return Ok(());
        };
        let path = std::mem::take(&mut self.path);
        for item in items.recall()? {
            let Waiting {
                path,
                line,
                column,
                api_version,
                kind,
                fields,
            } = item?;
            self.path = path;
            let identity = Identity { api_version, kind }.or(&told);
            self.object(fields, identity, Mark { line, column }, None)?;
        }
        self.path = path;
        Ok(())
    }

    fn object(
        &mut self,
        fields: Option<Map<String, Value>>,
        mut identity: Identity,
        mark: Mark,
        siblings: Option<&mut Siblings>,
    ) -> Result<(), Stop> {
        // A merge key may have brought them.
        if let Some(fields) = &fields {
            let merged = |key| fields.get(key).and_then(name);
            identity = identity.or(&Identity {
                api_version: merged("apiVersion"),
                kind: merged("kind"),
            });
        }
        if let Some(siblings) = siblings
            && !identity.is_whole()
        {
            if siblings.list.is_whole() {
                identity = identity.or(&siblings.list.of_items().unwrap_or_default());
            } else {
                let Mark { line, column } = mark;
                let Identity { api_version, kind } = identity;
                return Ok(siblings.wait(&Waiting {
                    path: self.path.clone(),
                    line,
                    column,
                    api_version,
                    kind,
                    fields,
                })?);
            }
        }
        let has_metadata =
            |fields: &Map<String, Value>| fields.get("metadata").is_some_and(Value::is_object);
        let (api_version, kind) = match (identity.api_version, identity.kind) {
            (Some(api_version), Some(kind)) => (api_version, kind),
            (None, Some(kind)) if fields.as_ref().is_some_and(has_metadata) => {
                return Err(at(mark)(Problem::NoApiVersion(kind)));
            }
            _ => {
                self.tally.not_objects += 1;
                return Ok(());
            }
        };
        if let Some(refusal) = fields
            .as_ref()
            .filter(|_| is_status(&api_version, &kind))
            .and_then(refusal)
        {
            return Err(at(mark)(Problem::Refused(refusal)));
        }
        if !(self.wanted)(&api_version, &kind) {
            self.tally.count_unused(&kind);
            return Ok(());
        }
        let Some(mut fields) = fields else {
            return Err(at(mark)(Problem::ObjectTooLarge { api_version, kind }));
        };
        fields.insert("apiVersion".to_owned(), api_version.clone().into());
        fields.insert("kind".to_owned(), kind.clone().into());
        self.tally.objects += 1;
        self.stream.pulse.objects += 1;
        (self.sink)(Object {
            origin: Origin {
                source_name: Arc::clone(&self.source_name),
                document: self.document,
                path: self.path.clone(),
                line: mark.line,
            },
            api_version,
            kind,
            value: Value::Object(fields),
        });
        Ok(())
    }
}

/// What looks wrong, and is if the object turns out to be of use.
#[derive(Default)]
struct Doubts {
    one_page: Option<Mark>,
    no_items: Option<Mark>,
    no_name: Option<(&'static str, Mark)>,
}

fn is_one_page(metadata: &Value) -> bool {
    let token = metadata.get("continue").and_then(Value::as_str);
    token.is_some_and(|token| !token.is_empty())
}

fn is_something(event: &Event) -> bool {
    !matches!(event, Event::Scalar(scalar) if scalars::is_nothing(scalar))
}

fn no_items(list: &Identity, place: Mark) -> Stop {
    at(place)(Problem::NoItems(list.kind.clone().unwrap_or_default()))
}

fn is_status(api_version: &str, kind: &str) -> bool {
    api_version == "v1" && kind == "Status"
}

/// What the API server says when it does not give what it was asked for.
fn refusal(status: &Map<String, Value>) -> Option<String> {
    let text = |key: &str| status.get(key).and_then(Value::as_str);
    (text("status") == Some("Failure")).then(|| visible(text("message").unwrap_or("Failure")))
}
