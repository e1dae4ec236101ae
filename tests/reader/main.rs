//! The memory use of the file reader does not grow with its input.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Read;
use std::process::{Command, Stdio};

use windows_storage_operator::files::{self, Tally};

const MIB: u64 = 1024 * 1024;

/// Limit for memory besides one object: text in pieces, and buffered output to disk.
const BOUND: u64 = 5 * MIB;

/// Limit for a YAML document, whose text is kept while it is read.
const BOUND_OF_DOCUMENT: u64 = 3 * YAML;

/// Limit for one object: up to 16 MiB of it are kept, and its allocations take twice that.
const BOUND_OF_OBJECT: u64 = 40 * MIB;

/// Size of the YAML input. A debug build takes a second for 5 MiB.
const YAML: u64 = 12 * MIB;

/// An endless list, cut after a number of items.
struct List {
    head: &'static str,
    item: String,
    tail: &'static str,
    items: u64,
    /// The rest of the current part that is still to be read.
    part: Vec<u8>,
    stage: u64,
}

impl List {
    fn new(bytes: u64, head: &'static str, item: &str, tail: &'static str) -> Self {
        let item = item.replace("FILL", &"a text of some length ".repeat(40));
        Self {
            head,
            items: bytes / item.len() as u64,
            item,
            tail,
            part: Vec::new(),
            stage: 0,
        }
    }
}

impl Read for List {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.part.is_empty() {
            let part = match self.stage {
                0 => self.head,
                stage if stage <= self.items => &self.item,
                stage if stage == self.items + 1 => self.tail,
                _ => return Ok(0),
            };
            self.part.extend_from_slice(part.as_bytes());
            self.stage += 1;
        }
        let length = buffer.len().min(self.part.len());
        buffer[..length].copy_from_slice(&self.part[..length]);
        self.part.drain(..length);
        Ok(length)
    }
}

/// Returns the peak memory of this process, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib: u64 = line
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kib * 1024
}

fn read(input: impl Read) -> (Tally, u64) {
    let before = peak();
    let outcome = files::read_from(
        "input",
        input,
        &|_, kind| kind == "Pod",
        &mut |_| {},
        &mut |object| {
            assert_eq!(object.kind, "Pod");
            Ok(())
        },
    );
    assert!(outcome.unread.is_empty() && outcome.left_out.is_empty());
    (outcome.tally, peak() - before)
}

const YAML_ITEM: &str = "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n    annotations:\n      a: FILL\n      b: 'FILL'\n      c: |\n        FILL\n  spec: {containers: [{name: a}]}\n";

const JSON_ITEM: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","annotations":{"a":"FILL","b":"FILL"}}},"#;

struct Case {
    name: &'static str,
    list: List,
    objects: u64,
    unused: Option<(&'static str, u64)>,
    bound: u64,
}

fn cases() -> Vec<Case> {
    let case = |name, list: List, bound| Case {
        name,
        objects: list.items,
        list,
        unused: None,
        bound,
    };
    let yaml = List::new(YAML, "apiVersion: v1\nitems:\n", YAML_ITEM, "kind: List\n");
    let json = |name, item: &str| {
        // The comma after the last item requires one more.
        let tail = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"z"}}],"kind":"PodList"}"#;
        let head = r#"{"apiVersion":"v1","items":["#;
        let case = case(name, List::new(24 * MIB, head, item, tail), BOUND);
        Case {
            objects: case.objects + 1,
            ..case
        }
    };
    let unused = json("not wanted", &JSON_ITEM.replace("Pod", "Secret"));
    // Only its end shows that the object is not wanted.
    let tail = r#"null],"kind":"ConfigMap","apiVersion":"v1"}"#;
    let large = List::new(64 * MIB, r#"{"data":["#, JSON_ITEM, tail);
    vec![
        case("YAML", yaml, BOUND_OF_DOCUMENT),
        json("JSON", JSON_ITEM),
        json(
            "typed JSON",
            &JSON_ITEM.replace(r#""apiVersion":"v1","kind":"Pod","#, ""),
        ),
        Case {
            unused: Some(("Secret", unused.objects - 1)),
            objects: 1,
            ..unused
        },
        Case {
            objects: 0,
            unused: Some(("ConfigMap", 1)),
            ..case("one large object", large, BOUND_OF_OBJECT)
        },
    ]
}

/// Runs each case in its own process, because other tests would count as well.
#[test]
fn memory_does_not_grow_with_the_input() {
    let children: Vec<_> = cases()
        .iter()
        .map(|case| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "one_case", "--ignored", "--nocapture"])
                .env("READER_CASE", case.name)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{stdout}{stderr}");
        assert!(stdout.contains("peak grew by"), "{stdout}{stderr}");
        print!("{stdout}");
    }
}

#[test]
#[ignore = "the test above starts it for each case"]
fn one_case() {
    let name = std::env::var("READER_CASE").unwrap();
    let Case {
        list,
        objects,
        unused,
        bound,
        ..
    } = cases().into_iter().find(|case| case.name == name).unwrap();
    let (tally, growth) = read(list);
    println!(
        "{name}: {} MiB read, peak grew by {} KiB",
        tally.bytes / MIB,
        growth / 1024
    );
    assert_eq!(tally.objects, objects);
    let first = tally.unused.first_key_value();
    assert_eq!(first.map(|(kind, count)| (kind.as_str(), *count)), unused);
    assert!(growth < bound, "{growth} bytes more");
}
