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
    let secret = &JSON_ITEM.replace("Pod", "Secret");
    let untyped = &JSON_ITEM.replace(r#""apiVersion":"v1","kind":"Pod","#, "");
    // Only its end shows that the object is not wanted.
    let map = r#"null],"kind":"ConfigMap","apiVersion":"v1"}"#;
    let yaml_head = "apiVersion: v1\nitems:\n";
    // Size, beginning, item and end; the objects of the end and of each item; what is counted as unused; bound.
    for (size, [head, item, tail], [last, each], unused, bound) in [
        (
            YAML,
            [yaml_head, YAML_ITEM, "kind: List\n"],
            [0, 1],
            None,
            BOUND_OF_DOCUMENT,
        ),
        (
            24 * MIB,
            [JSON_HEAD, JSON_ITEM, JSON_TAIL],
            [1, 1],
            None,
            BOUND,
        ),
        (
            24 * MIB,
            [JSON_HEAD, untyped, JSON_TAIL],
            [1, 1],
            None,
            BOUND,
        ),
        (
            24 * MIB,
            [JSON_HEAD, secret, JSON_TAIL],
            [1, 0],
            Some("Secret"),
            BOUND,
        ),
        (
            64 * MIB,
            [r#"{"data":["#, JSON_ITEM, map],
            [0, 0],
            Some("ConfigMap"),
            BOUND_OF_OBJECT,
        ),
    ] {
        let item = item.replace("FILL", &"a text of some length ".repeat(40));
        let count = size / item.len();
        let input = [head, &item.repeat(count), tail].concat();
        let mut outcome = None;
        // What the reader allocates in this thread, in which it does all of its work.
        let allocated = allocation_counter::measure(|| {
            outcome = Some(files::read_from(
                "input",
                input.as_bytes(),
                &|_, kind| kind == "Pod",
                &mut |_| {},
                &mut |object| {
                    assert_eq!(object.kind, "Pod");
                    Ok(())
                },
            ));
        });
        let outcome = outcome.unwrap();
        assert!(outcome.unread.is_empty() && outcome.left_out.is_empty());
        assert_eq!(outcome.tally.objects, (last + each * count) as u64);
        let found = outcome.tally.unused.first_key_value();
        let found = found.map(|(kind, count)| (kind.as_str(), *count));
        let expected =
            unused.map(|kind| (kind, if kind == "ConfigMap" { 1 } else { count as u64 }));
        assert_eq!(found, expected);
        let most = usize::try_from(allocated.bytes_max).unwrap();
        println!("{} MiB read, {} KiB allocated", size / MIB, most / 1024);
        assert!(most < bound, "{most} bytes for {head} {tail}");
    }
}
