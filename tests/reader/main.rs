//! The memory of the file reader is a few times the size of its largest file.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use windows_storage_operator::files;

const MIB: usize = 1024 * 1024;
/// Size of the YAML input. A debug build takes a second for 5 MiB.
const YAML: usize = 12 * MIB;
const JSON: usize = 24 * MIB;
/// How many times its own size a file takes: its text, and one object at a time.
const TEXT: usize = 2;
/// The same if only its end says what its items are: 200 MB take less than 2 GB.
const WHOLE: usize = 10;

const YAML_ITEM: &str = "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n    annotations:\n      a: FILL\n      b: 'FILL'\n      c: |\n        FILL\n  spec: {containers: [{name: a}]}\n";
const JSON_ITEM: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","annotations":{"a":"FILL","b":"FILL"}}},"#;
/// The comma after the last item requires one more.
const JSON_TAIL: &str =
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"z"}}],"kind":"PodList"}"#;
const JSON_HEAD: &str = r#"{"apiVersion":"v1","items":["#;

#[test]
fn memory_is_a_few_times_the_size_of_the_file() {
    let secret = JSON_ITEM.replace("Pod", "Secret");
    let untyped = JSON_ITEM.replace(r#""apiVersion":"v1","kind":"Pod","#, "");
    // Only its end shows that the object is not wanted.
    let map = r#"null],"kind":"ConfigMap","apiVersion":"v1"}"#;
    let pods = |item| [JSON_HEAD, item, JSON_TAIL];
    let yaml = ["apiVersion: v1\nitems:\n", YAML_ITEM, "kind: List\n"];
    // Each in a thread of its own, because it takes long and what is allocated is counted by thread.
    std::thread::scope(|scope| {
        scope.spawn(|| assert_bounded(YAML, yaml, [0, 1], "", TEXT));
        scope.spawn(|| assert_bounded(JSON, pods(JSON_ITEM), [1, 1], "", TEXT));
        scope.spawn(|| assert_bounded(JSON, pods(&untyped), [1, 1], "", WHOLE));
        scope.spawn(|| assert_bounded(JSON, pods(&secret), [1, 0], "Secret", TEXT));
        let large = [r#"{"data":["#, JSON_ITEM, map];
        scope.spawn(move || assert_bounded(JSON, large, [0, 0], "ConfigMap", WHOLE));
    });
}

/// Reads a beginning, items up to this size and an end; expects as many objects for the end and for each item, and that
/// of no other kind than `unused` something is counted.
fn assert_bounded(
    size: usize,
    [head, item, tail]: [&str; 3],
    [last, each]: [usize; 2],
    unused: &str,
    times: usize,
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
    println!("{} MiB read, {} MiB allocated", size / MIB, most / MIB);
    assert!(most < times * size, "{most} bytes for {head} {tail}");
}
