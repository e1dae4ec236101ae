//! Finds the kinds that a text names, even if it does not parse. They decide whether a broken file matters.

use super::Wanted;

const KEY: &str = "kind";

/// A line above that the current one may be nested in.
struct Field {
    column: usize,
    below: Below,
}

/// What may be nested in a field.
#[derive(Clone, Copy, PartialEq)]
enum Below {
    /// Objects.
    Items,
    /// Parts of the field's own value.
    Parts,
    /// Unknown, because nothing should be nested here.
    Unclear,
}

/// Whether a kind is wanted, a list of one, or one that may contain or replace what is wanted.
pub(super) fn may_be_wanted(kind: &str, wanted: Wanted<'_>) -> bool {
    let holds_wanted = |item: &str| item.is_empty() || wanted(None, item);
    // The API server returns a Status in place of objects.
    kind == "Status" || wanted(None, kind) || kind.strip_suffix("List").is_some_and(holds_wanted)
}

/// The kinds of a document that its text shows.
#[derive(Default)]
struct Shown {
    has_items: bool,
    names_any: bool,
    names_list: bool,
}

impl Shown {
    /// Whether the document may hold other objects than those whose kinds it shows, as where it was cut off: kubectl prints the
    /// kind of a list after its items.
    fn may_hold_more(&self) -> bool {
        !self.names_any || self.has_items && !self.names_list
    }
}

/// Whether the text may hold what is wanted: it names such a kind, or does not name that of each object and list. Kinds inside
/// an object's field, such as `ownerReferences`, do not count.
pub(super) fn may_hold_wanted(text: &str, wanted: Wanted<'_>) -> bool {
    let (mut fields, mut start, mut shown) = (Vec::new(), 0, Shown::default());
    let (mut has_content, mut is_named) = (false, false);
    for line in text.split_inclusive(['\n', '\r']) {
        let content = line.trim_ascii();
        if line.starts_with("---") && (content == "---" || line[3..].starts_with([' ', '\t'])) {
            if has_content && shown.may_hold_more() {
                return true;
            }
            is_named |= has_content;
            (shown, has_content) = (Shown::default(), false);
        } else {
            has_content |= !(content.is_empty() || content.starts_with(['#', '%']));
        }
        let mut keys = line.match_indices("items");
        shown.has_items |= keys.any(|(at, items)| {
            let is_whole = !line[..at].ends_with(|before: char| before.is_ascii_alphanumeric());
            let after = line[at + items.len()..].trim_start_matches([' ', '"', '\'']);
            is_whole && after.starts_with(':') && !is_part_of_field(&fields, &line[..at])
        });
        for (at, _) in line.match_indices(KEY) {
            if is_part_of_field(&fields, &line[..at]) {
                continue;
            }
            match name_after(&text[start + at + KEY.len()..]) {
                Some("") => {}
                Some(name) if !may_be_wanted(name, wanted) => {
                    shown.names_any = true;
                    shown.names_list |= name.ends_with("List");
                }
                _ => return true,
            }
        }
        enter(&mut fields, line.trim_ascii_end());
        start += line.len();
    }
    shown.may_hold_more() && (has_content || !is_named)
}

/// Returns the name after a key, in YAML or JSON; nothing if the text ends first. Empty if there is none.
fn name_after(key: &str) -> Option<&str> {
    let blank = |letter| " \t\r\n\"'".contains(letter);
    let key = key.trim_start_matches(blank);
    if !key.is_empty() && !key.starts_with(':') {
        return Some("");
    }
    let value = key.strip_prefix(':')?.trim_start_matches(blank);
    let end = value.find(|letter: char| !letter.is_ascii_alphanumeric())?;
    Some(&value[..end])
}

/// Whether a key after this beginning of a line is certainly part of a field: it is the first in its line, and all
/// enclosing fields can have nested content. Inside braces, nothing is certain.
fn is_part_of_field(fields: &[Field], before: &str) -> bool {
    let (start, _, text) = parts(before);
    let above = &fields[..enclosing(fields, start)];
    let last = above.last();
    let is_clear = above.iter().all(|field| field.below != Below::Unclear);
    text.is_empty() && is_clear && last.is_some_and(|field| field.below == Below::Parts)
}

fn enter(fields: &mut Vec<Field>, line: &str) {
    let (start, column, text) = parts(line);
    if start == 0 && text.starts_with("---") {
        fields.clear();
    } else if !text.is_empty() && !text.starts_with('#') {
        fields.truncate(enclosing(fields, start));
        let below = below(text);
        fields.push(Field { column, below });
    }
}

/// Returns how many of the fields enclose a line. Items in the same column as their field count as its siblings; for the
/// items of a list, the result is the same.
fn enclosing(fields: &[Field], start: usize) -> usize {
    fields.partition_point(|field| field.column < start)
}

/// Splits a line: the column of the first dash, or of the text if there is none; the column of the text; the text.
fn parts(line: &str) -> (usize, usize, &str) {
    let mut text = line.trim_start_matches(' ');
    let start = line.len() - text.len();
    while let Some(item) = text.strip_prefix("- ") {
        text = item.trim_ascii_start();
    }
    if text == "-" {
        text = "";
    }
    (start, line.len() - text.len(), text)
}

/// Returns what is nested below this text: `Parts` only if it is a field without an inline value.
fn below(text: &str) -> Below {
    let (name, value) = text.split_at(text.rfind(':').unwrap_or_default());
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_./:".contains(letter);
    let block = value.strip_prefix(": |").or(value.strip_prefix(": >"));
    let is_block = block.is_some_and(|how| how.chars().all(|it| "+-123456789".contains(it)));
    match name {
        "" => Below::Unclear,
        _ if !(name.chars().all(is_name) && (is_block || value == ":")) => Below::Unclear,
        "items" => Below::Items,
        _ => Below::Parts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_hold_pod(text: &str) -> bool {
        may_hold_wanted(text, &|_, kind| kind == "Pod")
    }

    #[test]
    fn a_kind_is_found_however_it_is_written() {
        for text in [
            "kind: Pod",
            "a: [\nkind : 'Pod'\n",
            "{\"kind\":\"Pod\"",
            "{\"kind\" :\n \"PodList\",",
            "kind: List\n",
            "kind: Status",
            "kinds: kind\nkind: kind\nkind: Pod #",
        ] {
            assert!(may_hold_pod(text), "{text}");
        }
    }

    /// Objects of Longhorn, one of which has an owner reference, and an Event.
    const NESTED: &str = "\
apiVersion: longhorn.io/v1beta2
items:
- apiVersion: longhorn.io/v1beta2
  kind: Volume
  metadata:
    ownerReferences:
    - apiVersion: v1
      kind: Pod
      name: a
    - kind: Pod
    labels:
      a: b
  note: |-
    kind: Pod
  status:

# Who uses it.
    usedBy:
      -
        kind: Pod
      - reason: a
        kind: Pod
- involvedObject:
    kind : Pod
  kind: Event
- claimRef:
      apiVersion: v1
      kind: Pod
kind: VolumeList
---
metadata:
  kind: Pod
kind: Volume
";

    #[test]
    fn a_kind_below_a_field_of_an_object_is_not_its_own() {
        for text in [NESTED, &NESTED.replace('\n', "\r\n")] {
            assert!(!may_hold_pod(text), "{text}");
        }
    }

    #[test]
    fn a_kind_that_may_be_an_objects_own_is_found_in_whatever_is_around_it() {
        for text in [
            // Objects and items, at any indentation.
            "metadata:\n  name: a\nkind: Pod\n",
            "  metadata:\n    name: a\n  kind: Pod\n",
            "items:\n- metadata:\n    name: a\n  kind: Pod\n",
            "items:\n  -   metadata:\n        name: a\n      kind: Pod\n",
            "items:\n-\n  metadata:\n  kind: Pod\n",
            "items:\n- items:\n  - kind: Pod\n",
            "- metadata:\n    name: a\n  kind: Pod\n",
            "---\n- metadata:\n  kind: Pod\n",
            "metadata:\n--- # the next\n  kind: Pod\n",
            // The first lines are missing, or a value leaves no room for nested fields.
            "      name: a\n  kind: Pod\n",
            "name: a\n- kind: Pod\n",
            "metadata: {}\n  kind: Pod\n",
            "metadata: ***HIDDEN***:\n  kind: Pod\n",
            "'metadata':\n  kind: Pod\n",
            "\tmetadata:\n\tkind: Pod\n",
            // Braces and quotes in all layouts.
            "items:\n- {metadata: {name: a}, kind: Pod}\n",
            "items: [{metadata: {},\n  kind: Pod}]\n",
            "{items: [\n {\n  metadata:\n   {},\n   kind: Pod\n",
            "{\nmetadata:\n  {},\n    kind: Pod\n}",
            "{\"metadata\":{\n  \"name\":\"a\"},\n    \"kind\":\"Pod\"}",
            "{\n    \"metadata\": {\n        \"name\": \"a\"\n    },\n    \"kind\": \"Pod\"\n}",
            "metadata:\n  \"kind\": Pod\n",
            "metadata:\n  name: a, kind: Pod\n",
        ] {
            assert!(may_hold_pod(text), "{text}");
        }
    }

    #[test]
    fn other_kinds_are_not_meant() {
        for text in [
            "kind: Volume\nkind: VolumeList\n",
            "kind: Pods\n",
            "kind: PodListList\n",
            // No other document has content, and these are no items of a list.
            "kind: Volume\n---\n",
            "---\nkind: Volume\na: {\n--- # none\n  # Source: empty\n",
            "kind: Volume\ndata: |\n-----BEGIN CERTIFICATE-----\n",
            "kind: Volume\nspec:\n  configMap:\n    items:\n    - key: a\n",
            "a: [\nkind: Volume\nkinds: Pod\nmankind Pod",
        ] {
            assert!(!may_hold_pod(text), "{text}");
        }
    }

    #[test]
    fn a_text_that_names_no_kind_may_hold_any() {
        for text in [
            "",
            // The kind of a list comes last; the next document has none.
            "apiVersion: v1\nitems:\n- kind: Volume\n  metadata: \"a\n",
            "{\"items\":[{\"kind\":\"Volume\"},{\"ki",
            "---\nkind: Volume\n---\nmetadata: {name: a\n",
            "items: []\nkind: VolumeList\n---\nitems:\n- kind: Volume\n",
            "kind",
            "kind:",
            "mankind Pod",
            "\\\"kind\\\":\\\"Volume\\\"",
            "metadata:\n  ownerReferences:\n  - kind: Volume\n",
            // The name of the last may be cut off.
            "{\"kind\": \"Volume\", \"kind\": \"P",
            "{\"kind\": \"Volume\", \"kind\"",
            "kind: Volume\n---\nkind:\n",
        ] {
            assert!(may_hold_pod(text), "{text}");
        }
    }
}
