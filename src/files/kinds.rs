//! Finds the kinds that a text names, even if it does not parse. They decide whether a broken file matters.

use super::Wanted;
use super::yaml::documents;

const KEY: &str = "kind";
/// How far an object's own kind is indented at most, in a list as kubectl prints it.
const INDENT: usize = 2;

/// Whether a kind is wanted, a list of one, or one that may contain or replace what is wanted.
pub(super) fn may_be_wanted(kind: &str, wanted: Wanted<'_>) -> bool {
    let holds_wanted = |item: &str| item.is_empty() || wanted(None, item);
    // The API server returns a Status in place of objects.
    kind == "Status" || wanted(None, kind) || kind.strip_suffix("List").is_some_and(holds_wanted)
}

/// Whether the text may hold what is wanted: it names such a kind, of an object or of anything in one, or does not name that
/// of each object and list.
pub(super) fn may_hold_wanted(text: &str, wanted: Wanted<'_>) -> bool {
    let mut documents = documents(text).peekable();
    documents.peek().is_none()
        || documents.any(|document| may_document_hold_wanted(document.text, wanted))
}

fn may_document_hold_wanted(text: &str, wanted: Wanted<'_>) -> bool {
    let (mut names_any, mut names_list) = (false, false);
    for (at, _) in text.match_indices(KEY) {
        match name_after(&text[at + KEY.len()..]) {
            Some("") => {}
            Some(name) if !may_be_wanted(name, wanted) => {
                names_any |= may_be_own(&text[..at]);
                names_list |= name.ends_with("List");
            }
            _ => return true,
        }
    }
    // Where it was cut off, it may have held others: kubectl prints the kind of a list after its items.
    !names_any || text.contains("items") && !names_list
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

/// Whether a key after this text may be an object's own, and not that of its owner, say. In JSON, any may.
fn may_be_own(before: &str) -> bool {
    let before = before.rsplit('\n').next().unwrap_or_default();
    before.len() <= INDENT || before.contains(['"', '{', ','])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_hold_pod(text: &str) -> bool {
        may_hold_wanted(text, &|_, kind| kind == "Pod")
    }

    #[test]
    fn a_kind_is_found_however_it_is_written_and_wherever() {
        for text in [
            "kind: Pod",
            "a: [\nkind : 'Pod'\n",
            "{\"kind\":\"Pod\"",
            "{\"kind\" :\n \"PodList\",",
            "kind: List\n",
            "kind: Status",
            "kinds: kind\nkind: kind\nkind: Pod #",
            "items:\n- {metadata: {name: a}, kind: Pod}\nkind: VolumeList\n",
            "kind: Volume\nmetadata:\n\tkind: Pod\n",
        ] {
            assert!(may_hold_pod(text), "{text}");
        }
    }

    #[test]
    fn other_kinds_are_not_meant() {
        for text in [
            "kind: Volume\nkind: VolumeList\n",
            "items:\n- apiVersion: a/v1\n  kind: Volume\nkind: VolumeList\n",
            "{\n    \"metadata\": {},\n    \"kind\": \"Volume\",\n",
            "kind: Pods\n",
            "kind: PodListList\n",
            // No other document has content, and these are no items of a list.
            "kind: Volume\n---\n",
            "---\nkind: Volume\na: {\n--- # none\n# Source: empty\n",
            "kind: Volume\ndata: |\n-----BEGIN CERTIFICATE-----\n",
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
            "kind: Volume\r\n---\r\nmetadata: {name: a\r\n",
            "items: []\nkind: VolumeList\n---\nitems:\n- kind: Volume\n",
            "kind",
            "kind:",
            "mankind Pod",
            "\\\"kind\\\":\\\"Volume\\\"",
            // An owner's kind is not that of what it owns.
            "metadata:\n  ownerReferences:\n  - apiVersion: v1\n    kind: Volume\n",
            // The name of the last may be cut off.
            "{\"kind\": \"Volume\", \"kind\": \"P",
            "{\"kind\": \"Volume\", \"kind\"",
            "kind: Volume\n---\nkind:\n",
        ] {
            assert!(may_hold_pod(text), "{text}");
        }
    }
}
