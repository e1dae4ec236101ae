//! Whatever the bytes are: an answer in time, the same each time, and no panic.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use windows_storage_operator::files;

const CORPUS: [&str; 8] = [
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: &a web\n  labels: {a: b, 'c': \"d\\u00e9\"}\nspec:\n- x: |\n    lit\n     eral\n- y: >-\n    fol\n    ded\n- *a\n",
    "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n- metadata: {name: b}\n- null\nkind: PodList\nmetadata:\n  resourceVersion: ''\n",
    "{\"apiVersion\": \"v1\", \"items\": [{\"kind\": \"Pod\", \"apiVersion\": \"v1\", \"a\": [1, 2.5e3, true, null, \"\\ud83d\\ude00\"]}], \"kind\": \"List\"}\n{\"kind\": \"Node\", \"apiVersion\": \"v1\"}",
    "- &pod {apiVersion: v1, kind: Pod}\n- {<<: *pod, metadata: {name: b}}\n- <<: [*pod, {a: 1}]\n  spec: &spec [*pod, *pod]\n- *spec\n",
    "%YAML 1.1\n%TAG ! tag:example.com,2000:\n---\n? a\n: - b\n- c\n...\n# comment\n--- !!map {a: !!int 12, b: !x y}\n",
    "kind: Pod\napiVersion: v1\na: 0o17\nb: 0x1f\nc: -1_000.5e-3\nd: .inf\ne: 2024-01-01T00:00:00Z\n1: 2\ntrue: false\n",
    "[[[{\"a\": []}]], {\"items\": [{\"items\": [{\"kind\": \"Pod\", \"apiVersion\": \"v1\"}]}]}]",
    "kind: Pod\r\napiVersion: v1\r\nmetadata:\r\n\tname: x\r\n",
];

const DICTIONARY: [&str; 50] = [
    "---\n",
    "...\n",
    "- ",
    ": ",
    "? ",
    "{",
    "}",
    "[",
    "]",
    "[[",
    "{a: ",
    "&a ",
    "*a",
    "<<: *a\n",
    "!!str ",
    "!!int ",
    "!",
    "!<",
    "|",
    "|2-\n",
    ">+\n",
    "\"",
    "'",
    "%TAG ! tag:x,2000:\n",
    "%YAML 1.2\n",
    "#",
    "\n",
    "\r\n",
    "\r",
    "\t",
    "  ",
    "\\x41",
    "\\ud800",
    "\\",
    "\u{feff}",
    "\u{85}",
    "\u{2028}",
    "@",
    "`",
    ",",
    "é",
    "😀",
    "\u{7f}",
    "\0",
    "items:\n",
    "\"items\":[",
    "kind: Pod\n",
    "apiVersion: v1\n",
    "1e999",
    "99999999999999999999",
];

struct Mutator(StdRng);

impl Mutator {
    fn below(&mut self, bound: usize) -> usize {
        self.0.random_range(0..bound.max(1))
    }

    fn pick(&mut self, texts: &[&'static str]) -> &'static str {
        texts[self.below(texts.len())]
    }

    fn input(&mut self) -> Vec<u8> {
        let mut bytes = self.pick(&CORPUS).as_bytes().to_vec();
        match self.below(12) {
            0 => bytes = utf16(&bytes, u16::to_le_bytes),
            1 => bytes = utf16(&bytes, u16::to_be_bytes),
            _ => {}
        }
        for _ in 0..=self.below(6) {
            self.mutate(&mut bytes);
        }
        bytes
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        let end = at + self.below(bytes.len() - at + 1);
        match self.below(9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 => bytes.truncate(at),
            2 => {
                bytes.drain(at..end);
            }
            3 => {
                let copied = bytes[at..end].to_vec();
                let to = self.below(bytes.len() + 1);
                bytes.splice(to..to, copied);
            }
            4 => {
                let other = self.pick(&CORPUS).bytes();
                bytes.splice(at..end, other);
            }
            5 => {
                let count = self.below(400);
                let token = self.pick(&DICTIONARY).repeat(count);
                bytes.splice(at..at, token.into_bytes());
            }
            6 => {
                let depth = self.below(400);
                let (open, close) = [("[", "]"), ("{a: ", "}"), ("{\"a\":", "}")][self.below(3)];
                let nested = format!("{}1{}", open.repeat(depth), close.repeat(depth));
                bytes.splice(at..end, nested.into_bytes());
            }
            _ => {
                let token = self.pick(&DICTIONARY).bytes();
                bytes.splice(at..at, token);
            }
        }
    }
}

fn utf16(text: &[u8], order: fn(u16) -> [u8; 2]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let marked = std::iter::once(0xFEFF).chain(text.encode_utf16());
    marked.flat_map(order).collect()
}

/// What came out of it, in full.
fn outcome(bytes: &[u8]) -> String {
    let mut objects = Vec::new();
    let result = files::read_from(
        "the source",
        bytes,
        &|_, kind| kind != "Node",
        &mut |_| {},
        &mut |object| objects.push(object),
    );
    if let Err(errors) = &result {
        for error in &errors.kept {
            let text = error.to_string();
            assert!(text.starts_with("the source"), "{text}");
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }
    format!("{result:?} {objects:?}")
}

#[test]
fn any_bytes_have_an_answer() {
    let seconds = std::env::var("FUZZ_SECONDS").map_or(3, |text| text.parse().unwrap());
    let seed =
        std::env::var("FUZZ_SEED").map_or_else(|_| rand::random(), |text| text.parse().unwrap());
    println!("FUZZ_SEED={seed}");
    let mut mutator = Mutator(StdRng::seed_from_u64(seed));
    let start = Instant::now();
    let mut runs = BTreeMap::<bool, u64>::new();
    while start.elapsed() < Duration::from_secs(seconds) {
        let bytes = mutator.input();
        let shown = || format!("FUZZ_SEED={seed}: {:?}", String::from_utf8_lossy(&bytes));
        let begin = Instant::now();
        let answers = catch_unwind(AssertUnwindSafe(|| (outcome(&bytes), outcome(&bytes))));
        let Ok((first, second)) = answers else {
            panic!("{}", shown())
        };
        assert_eq!(first, second, "{}", shown());
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "too slow: {}",
            shown()
        );
        *runs.entry(first.starts_with("Ok")).or_default() += 1;
    }
    println!("{runs:?}");
    // If all were alike, the mutations would show nothing.
    assert_eq!(runs.len(), 2, "{runs:?}");
}
