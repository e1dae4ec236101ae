//! Finds the kinds that a file's text names, even if it does not parse. They decide whether a broken file matters.

use std::io::{self, Read};

use memchr::memmem::find;

use super::Wanted;
use super::outline::Outline;

const KEY: &[u8] = b"kind";
/// Enough for the key, the separator and any name.
const LONGEST: usize = 512;

/// Passes a file's bytes to the parser and watches for kinds.
pub(super) struct Watched<'a, R> {
    input: R,
    wanted: Wanted<'a>,
    /// The text that was read but not searched yet.
    rest: Vec<u8>,
    /// The outline at the start of `rest`.
    outline: Outline,
    names_wanted: bool,
}

impl<'a, R: Read> Watched<'a, R> {
    pub fn new(input: R, wanted: Wanted<'a>) -> Self {
        Self {
            input,
            wanted,
            rest: Vec::new(),
            outline: Outline::default(),
            names_wanted: false,
        }
    }

    /// Reads the remaining input. Returns whether the text names a wanted kind, a list of one, or a kind that may contain
    /// or replace one. Also true if the input cannot be read. Kinds inside an object's field, such as `ownerReferences`, do
    /// not count.
    pub fn names_wanted(mut self) -> bool {
        let read = io::copy(&mut self, &mut io::sink());
        self.look(b"\n");
        self.names_wanted || read.is_err()
    }

    fn look(&mut self, piece: &[u8]) {
        if self.names_wanted {
            return;
        }
        if piece.contains(&0) {
            // UTF-16 without its NUL bytes leaves the letters.
            self.rest.extend(piece.iter().filter(|byte| **byte != 0));
        } else {
            self.rest.extend(piece);
        }
        let mut from = 0;
        while let Some(at) = find(&self.rest[from..], KEY) {
            self.outline.pass(&self.rest[from..from + at]);
            from += at;
            let after = &self.rest[from + KEY.len()..];
            match name_after(after) {
                Some(name) => {
                    self.names_wanted |= self.is_wanted(name) && !self.outline.is_part_of_field();
                }
                None if after.len() < LONGEST => break,
                None => {}
            }
            self.outline.pass(KEY);
            from += KEY.len();
        }
        let undecided = find(&self.rest[from..], KEY).map(|at| from + at);
        let tail = self.rest.len().saturating_sub(KEY.len() - 1);
        let to = undecided.unwrap_or(tail.max(from));
        self.outline.pass(&self.rest[from..to]);
        self.rest.drain(..to);
    }

    fn is_wanted(&self, name: &[u8]) -> bool {
        let Ok(name) = str::from_utf8(name) else {
            return false;
        };
        let of_items = name.strip_suffix("List");
        let holds_wanted = |kind: &str| kind.is_empty() || (self.wanted)(None, kind);
        // The API server returns a Status in place of objects.
        name == "Status" || (self.wanted)(None, name) || of_items.is_some_and(holds_wanted)
    }
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        self.look(&buffer[..length]);
        Ok(length)
    }
}

/// Returns the name after a key, in YAML or JSON. Empty if there is none; `None` if it may continue beyond the text.
fn name_after(key: &[u8]) -> Option<&[u8]> {
    let blank = |byte: &u8| b" \t\r\n\"'".contains(byte);
    let colon = key.iter().position(|byte| !blank(byte))?;
    if key[colon] != b':' {
        return Some(&[]);
    }
    let value = &key[colon + 1..];
    let value = &value[value.iter().position(|byte| !blank(byte))?..];
    let end = value
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric())?;
    Some(&value[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_pod(text: &[u8]) -> bool {
        Watched::new(text, &|_, kind| kind == "Pod").names_wanted()
    }

    #[test]
    fn a_kind_is_found_however_it_is_written_and_wherever_the_text_is_cut() {
        for text in [
            "kind: Pod",
            "a: [\nkind : 'Pod'\n",
            "{\"kind\":\"Pod\"",
            "{\"kind\" :\n \"PodList\",",
            "kind: List\n",
            "kind: Status",
            "kinds: kind\nkind: kind\nkind: Pod #",
        ] {
            assert!(names_pod(text.as_bytes()), "{text}");
            let utf_16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            assert!(names_pod(&utf_16), "{text}");
            for cut in 1..text.len() {
                let (one, other) = text.as_bytes().split_at(cut);
                let both = one.chain(other);
                let watched = Watched::new(both, &|_, kind| kind == "Pod");
                assert!(watched.names_wanted(), "{text} at {cut}");
            }
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
";

    #[test]
    fn a_kind_below_a_field_of_an_object_is_not_its_own() {
        for text in [NESTED, &NESTED.replace('\n', "\r\n")] {
            for cut in 0..text.len() {
                let (one, other) = text.as_bytes().split_at(cut);
                let watched = Watched::new(one.chain(other), &|_, kind| kind == "Pod");
                assert!(!watched.names_wanted(), "{text} at {cut}");
            }
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
            assert!(names_pod(text.as_bytes()), "{text}");
        }
        let long = "a".repeat(LONGEST - 1);
        let blank = " ".repeat(LONGEST);
        for text in [
            format!("{long}a:\n  kind: Pod\n"),
            format!("{long}: b\n  kind: Pod\n"),
            format!("metadata:\n{blank}name: a, kind: Pod\n"),
        ] {
            assert!(names_pod(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn other_kinds_and_other_words_are_none() {
        for text in [
            "",
            "kind",
            "kind:",
            "kind: Volume\nkind: VolumeList\n",
            "kind: Pods",
            "kind: PodListList\n",
            "mankind Pod",
            "\\\"kind\\\":\\\"Pod\\\"",
        ] {
            assert!(!names_pod(text.as_bytes()), "{text}");
        }
        let far = format!("kind:{}Pod", " ".repeat(100_000));
        assert!(!names_pod(far.as_bytes()));
    }
}
