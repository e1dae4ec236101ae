mod bounds;
mod lists;
mod values;

use std::path::PathBuf;

use super::*;

/// Stands for `MAX_OBJECT`, so that tests are quick.
const SMALL: usize = 256 * 1024;

fn all(_: &str, _: &str) -> bool {
    true
}

fn pods(api_version: &str, kind: &str) -> bool {
    (api_version, kind) == ("v1", "Pod")
}

fn read_text_as(
    text: impl AsRef<[u8]>,
    wanted: &dyn Fn(&str, &str) -> bool,
) -> (Vec<Object>, Result<Tally, ReadErrors>) {
    let mut objects = Vec::new();
    let tally = read_within(
        SMALL,
        "in",
        text.as_ref(),
        wanted,
        &mut |_| {},
        &mut |object| objects.push(object),
    );
    (objects, tally)
}

fn good(text: impl AsRef<[u8]>) -> (Vec<Object>, Tally) {
    let (objects, tally) = read_text_as(text, &all);
    (objects, tally.unwrap())
}

/// The objects in short: origin, kind and name.
fn names(objects: &[Object]) -> Vec<String> {
    objects
        .iter()
        .map(|object| {
            let name = object.value["metadata"]["name"].as_str().unwrap_or("-");
            let Object {
                origin,
                api_version,
                kind,
                ..
            } = object;
            format!("{origin}: {api_version} {kind} {name}")
        })
        .collect()
}

fn bad(text: impl AsRef<[u8]>) -> String {
    read_text_as(text, &all).1.unwrap_err().to_string()
}

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n";

#[test]
fn errors_name_the_item() {
    let text = format!("{POD}---\nitems:\n- a: b\n- c: d: e\n");
    assert!(
        bad(text).starts_with(
            "in, document 2, items[1], line 7 column 7: mapping values are not allowed"
        )
    );
    assert!(bad("a: b\n\u{1}").starts_with("in, document 1, line 2 column 1: "));
    assert!(bad(b"a: \xFF\n").starts_with("in: no valid UTF-8 at byte 3; "));
    assert!(bad("a: 'b").starts_with("in, document 1, line "));
    assert!(bad("k\0i\0n\0d\0").starts_with("in: a NUL character at byte 1"));
    assert!(bad("a: !!int x").contains("is no whole number"));
    assert!(bad("{\"a\": 1e999}").contains("is no number"));
}

#[test]
fn reading_goes_on_with_the_next_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.yaml"), "a: b: c").unwrap();
    std::fs::write(path("b.json"), "{").unwrap();
    std::fs::write(path("c.yml"), POD).unwrap();
    std::fs::write(path("d.json"), POD).unwrap();
    std::fs::write(path("e.yaml"), "").unwrap();
    let mut objects = Vec::new();
    let mut seen = Vec::new();
    let errors = read(
        &[
            Source::Path(folder.path().to_owned()),
            Source::Path(PathBuf::from("/absent")),
        ],
        &all,
        &mut |progress| seen.push((progress.files_done, progress.files, progress.objects)),
        &mut |object| objects.push(object),
    )
    .unwrap_err();
    assert_eq!(objects.len(), 1);
    let sources: Vec<_> = errors.kept.iter().map(ReadError::source_name).collect();
    let expected = ["a.yaml", "b.json", "d.json"].map(|name| path(name).display().to_string());
    assert_eq!(sources[0], "/absent");
    assert_eq!(sources[1..], expected);
    assert_eq!(seen.first(), Some(&(0, 5, 0)));
    assert_eq!(seen.last(), Some(&(5, 5, 1)));
}

#[test]
fn progress_is_reported_once_a_mebibyte() {
    let text = format!("{POD}---\n").repeat(50_000);
    let mut seen = Vec::new();
    let tally = read_from(
        "in",
        text.as_bytes(),
        &all,
        &mut |progress| seen.push((progress.bytes, progress.objects)),
        &mut |_| {},
    )
    .unwrap();
    assert_eq!(tally.objects, 50_000);
    assert_eq!(tally.bytes, text.len() as u64);
    let expected = text.len() / (1024 * 1024) + 2;
    assert!(
        seen.len().abs_diff(expected) <= 1,
        "{} {expected}",
        seen.len()
    );
    assert!(seen.is_sorted());
    assert_eq!(seen.last(), Some(&(text.len() as u64, 50_000)));
}
