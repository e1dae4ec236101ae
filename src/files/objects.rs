//! Splits documents and lists into objects while YAML or JSON is parsed.

use std::fmt::{self, Write as _};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::error::{Problem, ReadError};
use super::list::{Identity, Items, Mapping};
use super::{MAX_OBJECT, Object, Reading};
use crate::visible::visible;

/// The fields of a list that are kept besides its items.
const HEAD: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// A node of a document, before it is read.
struct Node<'r, 'a> {
    reading: &'r mut Reading<'a>,
    place: Place<'r>,
}

enum Place<'r> {
    /// The root of a document: an object, or a sequence of objects.
    Root,
    /// The items of a mapping. If they are a sequence, the mapping is a list.
    Items(&'r mut Items),
    /// One item of a list or of the root.
    Item(Option<&'r mut Items>),
    /// Any node inside an object.
    Field,
}

/// The result of reading a node.
enum Seen {
    /// A mapping or sequence that was split into objects.
    Objects,
    /// A value that was kept.
    Value(Value),
    /// A value that was dropped.
    Dropped,
}

impl<'a> Reading<'a> {
    /// Reads a document.
    pub fn root<'de, D: Deserializer<'de>>(&mut self, document: D) -> Result<(), D::Error> {
        self.left = Some(MAX_OBJECT);
        let place = Place::Root;
        let reading = &mut *self;
        match (Node { reading, place }).deserialize(document)? {
            Seen::Value(Value::Null) => return Ok(()),
            Seen::Objects => {}
            Seen::Value(_) | Seen::Dropped => self.outcome.tally.not_objects += 1,
        }
        self.outcome.tally.documents += 1;
        Ok(())
    }

    /// Stores the problem and returns an error that stops the parser.
    fn fail<E: Error>(&mut self, problem: Problem) -> E {
        let error = E::custom(&problem);
        self.problem = Some(problem);
        error
    }

    /// Reads a sequence whose nodes may be objects.
    fn sequence<'de, A: SeqAccess<'de>>(
        &mut self,
        name: &str,
        mut sequence: A,
        mut items: Option<&mut Items>,
    ) -> Result<Seen, A::Error> {
        let length = self.path.len();
        for number in 0_u64.. {
            let dot = if length == 0 { "" } else { "." };
            // Writing to a String cannot fail.
            let _ = write!(self.path, "{dot}{name}[{number}]");
            self.left = Some(MAX_OBJECT);
            let place = Place::Item(items.as_deref_mut());
            let reading = &mut *self;
            match (
                sequence.next_element_seed(Node { reading, place })?,
                &mut items,
            ) {
                (None, _) => break,
                (Some(Seen::Objects), _) => {}
                // Whether this is an error depends on the list's kind.
                (_, Some(items)) => {
                    items.misfit.get_or_insert_with(|| self.path.clone());
                }
                (_, None) => self.outcome.tally.not_objects += 1,
            }
            self.path.truncate(length);
        }
        self.path.truncate(length);
        Ok(Seen::Objects)
    }

    /// Reads a mapping. As in Kubernetes, a mapping with a sequence of items is a list.
    fn mapping<'de, A: MapAccess<'de>>(
        &mut self,
        mut mapping: A,
        siblings: Option<&mut Items>,
    ) -> Result<Seen, A::Error> {
        let mut fields = Map::new();
        let mut identity = Identity::default();
        let mut list: Option<Items> = None;
        let mut left = Some(MAX_OBJECT);
        while let Some(key) = mapping.next_key::<String>()? {
            if fields.contains_key(&key) || (key == "items" && list.is_some()) {
                return Err(self.fail(Problem::DuplicateKey(key)));
            }
            // The fields that decide whether the rest is relevant have a limit of their own.
            let is_head = match key.as_str() {
                "apiVersion" | "kind" | "items" => true,
                "metadata" => list.is_some() || identity.is_list(),
                _ => false,
            };
            self.left = if is_head { Some(MAX_OBJECT) } else { left };
            let mut items = (key == "items").then(|| Items::of(identity.clone()));
            let place = items.as_mut().map_or(Place::Field, Place::Items);
            let reading = &mut *self;
            match mapping.next_value_seed(Node { reading, place })? {
                Seen::Objects => {
                    list = items;
                    left = None;
                    fields.retain(|key, _| HEAD.contains(&key.as_str()));
                }
                Seen::Dropped if is_head => return Err(self.fail(Problem::TextTooLong)),
                Seen::Dropped => left = None,
                Seen::Value(value) => {
                    if !is_head {
                        left = self.left;
                    }
                    fields.insert(key, value);
                    if is_head {
                        identity = Identity::of(&fields);
                        left = left.filter(|_| self.is_needed(&identity));
                    }
                }
            }
        }
        let mapping = Mapping {
            path: self.path.clone(),
            fields,
            is_whole: left.is_some(),
        };
        self.end_of_mapping(mapping, list, siblings)
            .map_err(|problem| self.fail(problem))?;
        Ok(Seen::Objects)
    }

    fn end_of_mapping(
        &mut self,
        mapping: Mapping,
        list: Option<Items>,
        siblings: Option<&mut Items>,
    ) -> Result<(), Problem> {
        let fields = &mapping.fields;
        let identity = Identity::of(fields);
        let is_something = |key: &str| fields.get(key).is_some_and(|value| !value.is_null());
        match (&identity.api_version, &identity.kind) {
            (None, Some(_)) if is_something("apiVersion") => {
                return Err(Problem::NotAName("apiVersion"));
            }
            (Some(_), None) if is_something("kind") => return Err(Problem::NotAName("kind")),
            _ => {}
        }
        // Go prints an empty list with null items. Unlike a list, an object has a name.
        let is_empty = fields.get("items") == Some(&Value::Null) && !has_name(fields);
        if identity.is_list() && self.is_list_wanted(&identity) {
            let kind = || identity.kind.clone().unwrap_or_default();
            if list.is_none() && is_something("items") {
                return Err(Problem::NoItems(kind()));
            }
            let is_list = list.is_some() || is_empty;
            if is_list && fields.get("metadata").is_some_and(is_one_page) {
                return Err(Problem::OnePage);
            }
            if let Some(misfit) = list.as_ref().and_then(|list| list.misfit.as_ref()) {
                self.path.clone_from(misfit);
                return Err(Problem::NoItems(kind()));
            }
        }
        match (list, siblings) {
            (Some(items), _) => self.list(Some(items), &identity),
            (None, _) if is_empty => self.list(None, &identity),
            (None, Some(siblings)) if identity.whole().is_none() => {
                if siblings.list.whole().is_some() {
                    let identity = siblings.list.of_item(identity);
                    return self.object(mapping, identity);
                }
                siblings.wait(&mapping).map_err(Problem::Spool)
            }
            _ => self.object(mapping, identity),
        }
    }

    fn list(&mut self, items: Option<Items>, list: &Identity) -> Result<(), Problem> {
        match (&list.api_version, &list.kind) {
            (Some(_), Some(_)) if list.is_list() => {}
            (Some(api_version), Some(kind))
                if items.is_some() && (self.wanted)(Some(api_version), kind) =>
            {
                return Err(Problem::NotAList(kind.clone(), api_version.clone()));
            }
            (Some(_), Some(kind)) => self.outcome.tally.count_unused(kind),
            _ => self.outcome.tally.not_objects += 1,
        }
        let Some(items) = items else {
            return Ok(());
        };
        let path = self.path.clone();
        for item in items.recall().map_err(Problem::Spool)? {
            let item = item.map_err(|error| Problem::Spool(error.into()))?;
            self.path.clone_from(&item.path);
            let identity = list.of_item(Identity::of(&item.fields));
            self.object(item, identity)?;
        }
        self.path = path;
        Ok(())
    }

    fn object(&mut self, mapping: Mapping, identity: Identity) -> Result<(), Problem> {
        let mut fields = mapping.fields;
        let (api_version, kind) = match (identity.api_version, identity.kind) {
            (Some(api_version), Some(kind)) => (api_version, kind),
            (None, Some(kind)) if fields.get("metadata").is_some_and(Value::is_object) => {
                return Err(Problem::NoApiVersion(kind));
            }
            _ => {
                self.outcome.tally.not_objects += 1;
                return Ok(());
            }
        };
        if is_status(&api_version, &kind)
            && let Some(refusal) = refusal(&fields)
        {
            return Err(Problem::Refused(refusal));
        }
        if !(self.wanted)(Some(&api_version), &kind) {
            self.outcome.tally.count_unused(&kind);
            return Ok(());
        }
        if !mapping.is_whole {
            return Err(Problem::ObjectTooLarge(kind, api_version));
        }
        fields.insert("apiVersion".to_owned(), api_version.clone().into());
        fields.insert("kind".to_owned(), kind.clone().into());
        self.outcome.tally.objects += 1;
        let origin = self.origin(None);
        let taken = (self.sink)(Object {
            origin: origin.clone(),
            api_version,
            kind: kind.clone(),
            value: Value::Object(fields),
        });
        if let Err(field) = taken {
            let problem = Problem::Field { kind, field };
            self.outcome.unread.push(ReadError { origin, problem });
        }
        self.report_progress();
        Ok(())
    }

    /// Whether the items of a list may be wanted.
    fn is_list_wanted(&self, list: &Identity) -> bool {
        let item = list.of_item(Identity::default());
        // The items of a plain List may be of any kind.
        item.whole()
            .is_none_or(|(version, kind)| (self.wanted)(Some(version), kind))
    }

    fn is_needed(&self, identity: &Identity) -> bool {
        let is_wanted =
            |(version, kind)| (self.wanted)(Some(version), kind) || is_status(version, kind);
        identity.whole().is_none_or(is_wanted)
    }

    fn field(&mut self) -> Node<'_, 'a> {
        let place = Place::Field;
        Node {
            reading: self,
            place,
        }
    }

    /// Keeps a value if it fits into the remaining memory.
    fn keep(&mut self, bytes: usize, value: impl FnOnce() -> Value) -> Seen {
        self.counts.since_token.set(0);
        // The approximate overhead of a value besides its text.
        self.left = self.left.and_then(|left| left.checked_sub(32 + bytes));
        match self.left {
            Some(_) => Seen::Value(value()),
            None => Seen::Dropped,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_> {
    type Value = Seen;

    fn deserialize<D: Deserializer<'de>>(self, node: D) -> Result<Seen, D::Error> {
        node.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, '_> {
    type Value = Seen;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Seen, E> {
        Ok(self.reading.keep(0, || Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Seen, E> {
        Ok(self.reading.keep(0, || value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Seen, E> {
        Ok(self.reading.keep(0, || value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Seen, E> {
        Ok(self.reading.keep(0, || value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Seen, E> {
        Ok(self.reading.keep(0, || value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Seen, E> {
        Ok(self.reading.keep(value.len(), || value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Seen, A::Error> {
        let reading = self.reading;
        match self.place {
            Place::Root => return reading.sequence("", sequence, None),
            Place::Items(items) => return reading.sequence("items", sequence, Some(items)),
            Place::Item(_) | Place::Field => {}
        }
        let mut values = Vec::new();
        while let Some(seen) = sequence.next_element_seed(reading.field())? {
            if let Seen::Value(value) = seen {
                values.push(value);
            }
        }
        Ok(reading.keep(0, || values.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut mapping: A) -> Result<Seen, A::Error> {
        let reading = self.reading;
        match self.place {
            Place::Root => return reading.mapping(mapping, None),
            Place::Item(siblings) => return reading.mapping(mapping, siblings),
            Place::Items(_) | Place::Field => {}
        }
        let mut fields = Map::new();
        while let Some(key) = mapping.next_key::<String>()? {
            if fields.contains_key(&key) {
                return Err(reading.fail(Problem::DuplicateKey(key)));
            }
            // In memory, an object allocates space for eleven fields at once.
            reading.keep(key.len(), || Value::Null);
            match mapping.next_value_seed(reading.field())? {
                Seen::Value(value) => {
                    fields.insert(key, value);
                }
                _ => fields.clear(),
            }
        }
        Ok(reading.keep(256, || fields.into()))
    }
}

fn has_name(fields: &Map<String, Value>) -> bool {
    let name = fields.get("metadata").and_then(|it| it.get("name"));
    name.is_some_and(|name| !name.is_null())
}

fn is_one_page(metadata: &Value) -> bool {
    let token = metadata.get("continue").and_then(Value::as_str);
    token.is_some_and(|token| !token.is_empty())
}

fn is_status(api_version: &str, kind: &str) -> bool {
    api_version == "v1" && kind == "Status"
}

/// Returns the API server's error message, if the Status is a failure.
fn refusal(status: &Map<String, Value>) -> Option<String> {
    let text = |key: &str| status.get(key).and_then(Value::as_str);
    (text("status") == Some("Failure")).then(|| visible(text("message").unwrap_or("Failure")))
}
