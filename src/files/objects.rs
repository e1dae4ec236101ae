//! Splits documents and lists into objects, one item at a time.

use std::fmt::{self, Write as _};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::error::Problem;
use super::kinds::may_be_wanted;
use super::{Object, Reading};
use crate::visible::visible;

/// The longest name that Kubernetes allows.
const MAX_NAME: usize = 253;

/// An object's apiVersion and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Identity {
    api_version: Option<String>,
    kind: Option<String>,
}

impl Identity {
    fn of(fields: &Map<String, Value>) -> Self {
        // Anything else is not a name and would only garble messages.
        let name = |key| {
            let name = fields.get(key)?.as_str()?;
            let fits = (1..=MAX_NAME).contains(&name.len());
            (fits && name.bytes().all(|byte| byte.is_ascii_graphic())).then(|| name.to_owned())
        };
        Self {
            api_version: name("apiVersion"),
            kind: name("kind"),
        }
    }

    fn is_list(&self) -> bool {
        let kind = self.kind.as_ref();
        kind.is_some_and(|kind| kind.ends_with("List"))
    }

    /// Returns apiVersion and kind if both are known.
    fn whole(&self) -> Option<(&str, &str)> {
        Some((self.api_version.as_deref()?, self.kind.as_deref()?))
    }

    /// Returns the identity of an item of this list, filling in what the item itself lacks.
    fn of_item(&self, item: Self) -> Self {
        let kind = self.kind.as_ref();
        let kind = kind.and_then(|kind| kind.strip_suffix("List"));
        match kind {
            Some(kind) if !kind.is_empty() && self.api_version.is_some() => Self {
                api_version: item.api_version.or_else(|| self.api_version.clone()),
                kind: item.kind.or_else(|| Some(kind.to_owned())),
            },
            _ => item,
        }
    }
}

/// The items of a list that are not read yet, by number: those without a kind, until the kind of the list is known.
/// `kubectl` prints it after the items.
type Waiting = Vec<(usize, Value)>;

/// A node of a document, before it is read.
struct Node<'r, 'a> {
    reading: &'r mut Reading<'a>,
    place: Place,
}

enum Place {
    /// The root of a document: an object, or a sequence of objects.
    Root,
    /// The items of this list, which is known as far as it was read.
    Items(Identity),
    /// Any node below.
    Inner,
}

/// The result of reading a node.
enum Seen {
    /// The items of a list, but for these.
    Items(Waiting),
    /// A whole value that was split into objects.
    Objects,
    /// Any other value.
    Value(Value),
}

impl Reading<'_> {
    /// Reads a document.
    pub fn root<'de, D: Deserializer<'de>>(&mut self, document: D) -> Result<(), D::Error> {
        match self.node(Place::Root).deserialize(document)? {
            Seen::Value(Value::Null) => return Ok(()),
            Seen::Value(value) => {
                self.outcome.tally.not_objects += 1;
                if let Some(text) = value.as_str() {
                    self.unread(Problem::text(text));
                }
            }
            Seen::Objects | Seen::Items(_) => {}
        }
        self.outcome.tally.documents += 1;
        Ok(())
    }

    /// Does something at a place in the document.
    fn at<T>(&mut self, name: &str, number: usize, act: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        let dot = if length == 0 || name.is_empty() {
            ""
        } else {
            "."
        };
        // Writing to a String cannot fail.
        let _ = write!(self.path, "{dot}{name}[{number}]");
        let result = act(self);
        self.path.truncate(length);
        result
    }

    /// Reads an item. Returns it if it can be read only when the kind of the list is known, or is no object.
    fn item(&mut self, number: usize, item: Value, list: &Identity) -> Option<Value> {
        let fields = match item {
            Value::Object(fields) => fields,
            other => return Some(other),
        };
        let identity = Identity::of(&fields);
        let is_list = matches!(fields.get("items"), Some(Value::Array(_)));
        if list.whole().is_none() && identity.whole().is_none() && !is_list {
            return Some(Value::Object(fields));
        }
        self.at("items", number, |reading| reading.value(fields, list));
        None
    }

    /// Reads an object or a list that is whole, within a list.
    fn value(&mut self, mut fields: Map<String, Value>, list: &Identity) {
        match fields.remove("items") {
            Some(Value::Array(items)) if !is_object(&fields) => {
                let own = Identity::of(&fields);
                let mut waiting = Waiting::new();
                for (number, item) in items.into_iter().enumerate() {
                    waiting.extend(self.item(number, item, &own).map(|item| (number, item)));
                }
                self.list(&fields, waiting);
            }
            other => {
                fields.extend(other.map(|other| ("items".to_owned(), other)));
                self.mapping(fields, list);
            }
        }
    }

    /// Reads a mapping that is no list with items.
    fn mapping(&mut self, fields: Map<String, Value>, list: &Identity) {
        let own = Identity::of(&fields);
        // Go prints an empty list with null items. Unlike a list, an object has a name.
        let is_empty = fields.get("items") == Some(&Value::Null) && !has_name(&fields);
        if is_empty {
            match own.whole() {
                Some((_, kind)) if !own.is_list() => self.outcome.tally.count_unused(kind),
                _ => self.list(&fields, Waiting::new()),
            }
        } else if let Some(kind) = own.kind.as_ref().filter(|_| own.is_list())
            && may_be_wanted(kind, self.wanted)
            && self.is_list_wanted(&own)
        {
            self.unread(Problem::NoItems(kind.clone()));
        } else if let Some((api_version, kind)) = own.whole()
            && fields.get("items").is_some_and(Value::is_array)
            && (self.wanted)(Some(api_version), kind)
        {
            let problem = Problem::NotAList(kind.to_owned(), api_version.to_owned());
            self.unread(problem);
        } else {
            self.object(fields, list.of_item(own));
        }
    }

    /// Ends a list of which all items are read but for these.
    fn list(&mut self, fields: &Map<String, Value>, waiting: Waiting) {
        let list = Identity::of(fields);
        if list.whole().is_none() {
            let mut items = waiting.iter();
            let is_list = list.is_list() && items.any(|(_, item)| item.is_object());
            if is_list || has_both(fields) {
                // What its items are depends on its version.
                return self.unnamed(list);
            }
            self.outcome.tally.not_objects += 1;
        }
        let is_wanted = list.is_list() && self.is_list_wanted(&list);
        if is_wanted && fields.get("metadata").is_some_and(is_one_page) {
            self.unread(Problem::OnePage);
        }
        for (number, item) in waiting {
            self.at("items", number, |reading| match item {
                Value::Object(fields) => {
                    let identity = list.of_item(Identity::of(&fields));
                    reading.object(fields, identity);
                }
                _ if is_wanted => {
                    let kind = list.kind.clone().unwrap_or_default();
                    reading.unread(Problem::NoItems(kind));
                }
                _ => reading.outcome.tally.not_objects += 1,
            });
        }
    }

    fn object(&mut self, mut fields: Map<String, Value>, identity: Identity) {
        let (api_version, kind) = match (identity.api_version, identity.kind) {
            (Some(api_version), Some(kind)) => (api_version, kind),
            (api_version, kind) => return self.no_object(&fields, Identity { api_version, kind }),
        };
        if (&*api_version, &*kind) == ("v1", "Status")
            && let Some(refusal) = refusal(&fields)
        {
            return self.unread(Problem::Refused(refusal));
        }
        if !(self.wanted)(Some(&api_version), &kind) {
            return self.outcome.tally.count_unused(&kind);
        }
        fields.insert("apiVersion".to_owned(), api_version.clone().into());
        fields.insert("kind".to_owned(), kind.clone().into());
        self.outcome.tally.objects += 1;
        let origin = self.origin(None);
        let taken = (self.sink)(Object {
            origin,
            api_version,
            kind: kind.clone(),
            value: Value::Object(fields),
        });
        if let Err(field) = taken {
            self.unread(Problem::Field { kind, field });
        }
        self.report_progress();
    }

    /// Counts a mapping that is no object, and tells if it is one but for its apiVersion or kind, or holds one.
    fn no_object(&mut self, fields: &Map<String, Value>, identity: Identity) {
        let mut content = ["spec", "status"].into_iter();
        let is_object = has_both(fields)
            || match &identity.kind {
                Some(_) => fields.get("metadata").is_some_and(Value::is_object),
                None => has_name(fields) && content.any(|key| is_something(fields, key)),
            };
        if is_object {
            return self.unnamed(identity);
        }
        let mut inner = fields.values().filter_map(Value::as_object);
        let holds_wanted = inner.any(|inner| {
            let kind = Identity::of(inner).kind;
            has_both(inner) && kind.is_none_or(|kind| may_be_wanted(&kind, self.wanted))
        });
        if holds_wanted {
            let problem = Problem::Unnamed("a mapping with an object in it".to_owned(), "kind");
            return self.unread(problem);
        }
        self.outcome.tally.not_objects += 1;
        // What kubectl prints on an error is YAML.
        if let Some(error) = fields.get("error").and_then(Value::as_str)
            && fields.len() == 1
        {
            self.unread(Problem::text(error));
        }
    }

    /// Tells that an apiVersion or a kind is missing, or is not a name. Without its kind, an object may be wanted.
    fn unnamed(&mut self, Identity { kind, .. }: Identity) {
        let is_wanted = (kind.as_ref()).is_none_or(|kind| may_be_wanted(kind, self.wanted));
        let problem = match kind {
            Some(kind) => Problem::Unnamed(format!("an object of kind {kind}"), "apiVersion"),
            None => Problem::Unnamed("an object".to_owned(), "kind"),
        };
        self.tell(is_wanted, problem);
    }

    pub(super) fn unread(&mut self, problem: Problem) {
        self.tell(true, problem);
    }

    /// Whether the items of a list may be wanted.
    fn is_list_wanted(&self, list: &Identity) -> bool {
        let item = list.of_item(Identity::default());
        // The items of a plain List may be of any kind.
        item.whole()
            .is_none_or(|(version, kind)| (self.wanted)(Some(version), kind))
    }
}

impl<'a> Reading<'a> {
    fn node(&mut self, place: Place) -> Node<'_, 'a> {
        let reading = self;
        Node { reading, place }
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
        Ok(Seen::Value(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Seen, E> {
        Ok(Seen::Value(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Seen, E> {
        Ok(Seen::Value(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Seen, E> {
        Ok(Seen::Value(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Seen, E> {
        Ok(Seen::Value(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Seen, E> {
        Ok(Seen::Value(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Seen, A::Error> {
        let (reading, mut waiting, mut values) = (self.reading, Waiting::new(), Vec::new());
        let mut number = 0;
        while let Some(item) = sequence.next_element_seed(reading.node(Place::Inner))? {
            let Seen::Value(item) = item else { continue };
            match (&self.place, item) {
                (Place::Inner, item) => values.push(item),
                (Place::Items(list), item) => {
                    let left = reading.item(number, item, list);
                    waiting.extend(left.map(|item| (number, item)));
                }
                (Place::Root, Value::Object(fields)) => reading.at("", number, |reading| {
                    reading.value(fields, &Identity::default());
                }),
                (Place::Root, Value::Array(inner)) if inner.iter().any(Value::is_object) => {
                    reading.unread(Problem::NoItems("list".to_owned()));
                }
                (Place::Root, _) => reading.outcome.tally.not_objects += 1,
            }
            number += 1;
        }
        Ok(match self.place {
            Place::Root => Seen::Objects,
            Place::Items(_) => Seen::Items(waiting),
            Place::Inner => Seen::Value(values.into()),
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut mapping: A) -> Result<Seen, A::Error> {
        let (reading, mut fields, mut items) = (self.reading, Map::new(), None);
        let before = reading.outcome.tally.objects;
        while let Some(key) = mapping.next_key::<String>()? {
            // serde_json would take the last, Go's decoder merges both.
            if fields.contains_key(&key) || key == "items" && items.is_some() {
                return Err(A::Error::custom(format_args!(
                    "the key {key:?} occurs twice"
                )));
            }
            let place = match self.place {
                Place::Root if key == "items" && !is_object(&fields) => {
                    Place::Items(Identity::of(&fields))
                }
                _ => Place::Inner,
            };
            match mapping.next_value_seed(reading.node(place))? {
                Seen::Items(waiting) => items = Some(waiting),
                Seen::Value(value) => drop(fields.insert(key, value)),
                Seen::Objects => {}
            }
        }
        match (self.place, items) {
            (Place::Root, Some(waiting)) => {
                // Where its end is missing, the rest may parse: kubectl prints the kind last.
                let has = |key| fields.contains_key(key);
                reading.is_without_end = has("apiVersion") && !has("kind");
                if !is_object(&fields) {
                    reading.list(&fields, waiting);
                } else if reading.outcome.tally.objects > before {
                    // Its kind comes after its items, which were taken for objects.
                    let Identity { api_version, kind } = Identity::of(&fields);
                    let kind = kind.unwrap_or_else(|| "thing".to_owned());
                    let version = api_version.unwrap_or_else(|| "no apiVersion".to_owned());
                    reading.unread(Problem::NotAList(kind, version));
                } else {
                    fields.insert("items".to_owned(), Value::Array(Vec::new()));
                    reading.mapping(fields, &Identity::default());
                }
            }
            (Place::Root, None) => reading.mapping(fields, &Identity::default()),
            _ => return Ok(Seen::Value(fields.into())),
        }
        Ok(Seen::Objects)
    }
}

/// Whether a mapping with items is an object all the same, as far as it is known: it has a name, or its kind is no list's. In
/// Kubernetes it is a list, but whoever may write such an object must not replace objects of others.
fn is_object(fields: &Map<String, Value>) -> bool {
    let own = Identity::of(fields);
    let (is_named, is_other) = (has_name(fields), own.kind.is_some() && !own.is_list());
    // The API server's own lists: no custom resource is of this version.
    let is_core = own.api_version.as_deref() == Some("v1");
    is_other || is_named && !is_core
}

fn is_something(fields: &Map<String, Value>, key: &str) -> bool {
    fields.get(key).is_some_and(|value| !value.is_null())
}

/// Whether there is an apiVersion and a kind, even if they are not names.
fn has_both(fields: &Map<String, Value>) -> bool {
    is_something(fields, "apiVersion") && is_something(fields, "kind")
}

fn has_name(fields: &Map<String, Value>) -> bool {
    let name = fields.get("metadata").and_then(|it| it.get("name"));
    name.is_some_and(|name| !name.is_null())
}

fn is_one_page(metadata: &Value) -> bool {
    let token = metadata.get("continue").and_then(Value::as_str);
    token.is_some_and(|token| !token.is_empty())
}

/// Returns the API server's error message, if the Status is a failure.
fn refusal(status: &Map<String, Value>) -> Option<String> {
    let text = |key: &str| status.get(key).and_then(Value::as_str);
    (text("status") == Some("Failure")).then(|| visible(text("message").unwrap_or("Failure")))
}
