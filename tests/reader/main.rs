//! The memory use of the file reader does not grow with its input.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use windows_storage_operator::files;

const MIB: usize = 1024 * 1024;
/// Size of the YAML input. A debug build takes a second for 5 MiB.
const YAML: usize = 12 * MIB;
/// Limit for memory besides one object: text in pieces, and buffered output to disk.
const BOUND: usize = 5 * MIB;
/// Limit for a YAML document, whose text is kept while it is read.
const BOUND_OF_DOCUMENT: usize = 3 * YAML;
/// Limit for one object: up to 16 MiB of it are kept, and its allocations take twice that.
const BOUND_OF_OBJECT: usize = 40 * MIB;

const YAML_ITEM: &str = "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n    annotations:\n      a: FILL\n      b: 'FILL'\n      c: |\n        FILL\n  spec: {containers: [{name: a}]}\n";
const JSON_ITEM: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","annotations":{"a":"FILL","b":"FILL"}}},"#;
/// The comma after the last item requires one more.
const JSON_TAIL: &str =
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"z"}}],"kind":"PodList"}"#;
const JSON_HEAD: &str = r#"{"apiVersion":"v1","items":["#;

#[test]
fn memory_does_not_grow_with_the_input() {
    let secret = JSON_ITEM.replace("Pod", "Secret");
    let untyped = JSON_ITEM.replace(r#""apiVersion":"v1","kind":"Pod","#, "");
    // Only its end shows that the object is not wanted.
    let map = r#"null],"kind":"ConfigMap","apiVersion":"v1"}"#;
    let pods = |item| [JSON_HEAD, item, JSON_TAIL];
    let yaml = ["apiVersion: v1\nitems:\n", YAML_ITEM, "kind: List\n"];
    // Each in a thread of its own, because it takes long and what is allocated is counted by thread.
    std::thread::scope(|scope| {
        scope.spawn(|| assert_bounded(YAML, yaml, [0, 1], "", BOUND_OF_DOCUMENT));
        for item in [JSON_ITEM, &untyped] {
            scope.spawn(move || assert_bounded(24 * MIB, pods(item), [1, 1], "", BOUND));
        }
        scope.spawn(|| assert_bounded(24 * MIB, pods(&secret), [1, 0], "Secret", BOUND));
        let large = [r#"{"data":["#, JSON_ITEM, map];
        scope.spawn(move || assert_bounded(64 * MIB, large, [0, 0], "ConfigMap", BOUND_OF_OBJECT));
    });
}

/// Reads a beginning, items up to this size and an end; expects as many objects for the end and for each item, and that
/// of no other kind than `unused` something is counted.
fn assert_bounded(
    size: usize,
    [head, item, tail]: [&str; 3],
    [last, each]: [usize; 2],
    unused: &str,
    bound: usize,
) {
    let item = item.replace("FILL", &"a text of some length ".repeat(40));
    let count = size / item.len();
    let input = [head, &item.repeat(count), tail].concat();
    let mut outcome = None;
    let allocated = allocation_counter::measure(|| {
        let is_pod = |_: Option<&str>, kind: &str| kind == "Pod";
        let bytes = input.as_bytes();
        let read = files::read_from("input", bytes, &is_pod, &mut |_| {}, &mut |object| {
            assert_eq!(object.kind, "Pod");
            Ok(())
        });
        outcome = Some(read);
    });
    let outcome = outcome.unwrap();
    assert!(outcome.unread.is_empty() && outcome.left_out.is_empty());
    assert_eq!(outcome.tally.objects, (last + each * count) as u64);
    let found = outcome.tally.unused.first_key_value();
    let found = found.map_or(("", 0), |(kind, count)| (kind, *count));
    let counts = [("", 0), ("Secret", count as u64), ("ConfigMap", 1)];
    assert!(found.0 == unused && counts.contains(&found), "{found:?}");
    let most = usize::try_from(allocated.bytes_max).unwrap();
    println!("{} MiB read, {} KiB allocated", size / MIB, most / 1024);
    assert!(most < bound, "{most} bytes for {head} {tail}");
}
