//! Splits documents and lists into objects.

use std::fmt::Write as _;
use std::iter;

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

impl Reading<'_> {
    /// Reads a document: an object or a list, or a sequence of them.
    pub fn root(&mut self, document: Value) {
        let nothing = Identity::default();
        match document {
            Value::Null => {}
            Value::Object(fields) => self.mapping(fields, &nothing),
            Value::Array(items) => self.items("", items.into_iter(), &nothing),
            Value::String(text) => {
                self.outcome.tally.not_objects += 1;
                self.unread(Problem::text(&text));
            }
            _ => self.outcome.tally.not_objects += 1,
        }
    }

    /// Reads the items of this list, or of a sequence, which has no name and no identity.
    fn items(&mut self, name: &str, items: impl Iterator<Item = Value>, list: &Identity) {
        let is_wanted = list.is_list() && self.is_list_wanted(list);
        let length = self.path.len();
        let dot = if length == 0 { "" } else { "." };
        for (number, item) in items.enumerate() {
            // Writing to a String cannot fail.
            let _ = write!(self.path, "{dot}{name}[{number}]");
            match item {
                Value::Object(fields) => self.mapping(fields, list),
                item if is_wanted || has_objects(&item) => self.no_items(list),
                _ => self.outcome.tally.not_objects += 1,
            }
            self.path.truncate(length);
        }
    }

    /// Reads an object or a list, within a list.
    fn mapping(&mut self, mut fields: Map<String, Value>, list: &Identity) {
        let own = Identity::of(&fields);
        // As Go prints an empty list, also under the kind of its items. Unlike a list, an object has a name.
        let is_empty = fields.get("items") == Some(&Value::Null) && !has_name(&fields);
        if is_empty || !is_object(&fields) {
            match fields.remove("items") {
                Some(Value::Array(items)) => return self.list(&fields, items.into_iter()),
                Some(Value::Null) => return self.list(&fields, iter::empty()),
                other => fields.extend(other.map(|other| ("items".to_owned(), other))),
            }
        }
        let is_lost = |kind: &String| own.is_list() && may_be_wanted(kind, self.wanted);
        if own.kind.as_ref().is_some_and(is_lost) && self.is_list_wanted(&own) {
            self.no_items(&own);
        } else if let Some((api_version, kind)) = own.whole()
            && fields.get("items").is_some_and(Value::is_array)
            && (self.wanted)(Some(api_version), kind)
        {
            self.unread(Problem::NotAList(kind.to_owned(), api_version.to_owned()));
        } else {
            self.object(fields, list.of_item(own));
        }
    }

    /// Reads a list.
    pub(super) fn list(&mut self, fields: &Map<String, Value>, items: impl Iterator<Item = Value>) {
        let mut items = items.peekable();
        let list = Identity::of(fields);
        let is_list = list.is_list() && items.peek().is_some();
        if list.whole().is_none() && (is_list || has_both(fields)) {
            // What its items are depends on its version.
            return self.unnamed(list);
        }
        let is_one_page = fields.get("metadata").is_some_and(is_one_page);
        if is_one_page && list.is_list() && self.is_list_wanted(&list) {
            self.unread(Problem::OnePage);
        }
        self.items("items", items, &list);
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
            self.outcome.tally.unused += 1;
            return;
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

    fn no_items(&mut self, list: &Identity) {
        let kind = list.kind.clone();
        self.unread(Problem::NoItems(kind.unwrap_or_else(|| "list".to_owned())));
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

/// Whether a mapping with items is an object all the same, as far as it is known: it has a name, or its kind is no list's. In
/// Kubernetes it is a list, but whoever may write such an object must not replace objects of others.
pub(super) fn is_object(fields: &Map<String, Value>) -> bool {
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

fn has_objects(item: &Value) -> bool {
    let items = item.as_array();
    items.is_some_and(|items| items.iter().any(Value::is_object))
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
