mod bounds;
mod cases;

use std::path::PathBuf;

use super::*;

fn all(_: Option<&str>, _: &str) -> bool {
    true
}

fn pods(api_version: Option<&str>, kind: &str) -> bool {
    api_version.is_none_or(|version| version == "v1") && kind == "Pod"
}

/// Returns the counts, or all errors if there are any.
fn whole(outcome: Outcome) -> Result<Tally, ReadErrors> {
    let errors = outcome.absent.and(outcome.unread).and(outcome.left_out);
    if errors.is_empty() {
        Ok(outcome.tally)
    } else {
        Err(errors)
    }
}

fn read_text_as(
    text: impl AsRef<[u8]>,
    wanted: Wanted<'_>,
) -> (Vec<Object>, Result<Tally, ReadErrors>) {
    let mut objects = Vec::new();
    let outcome = read_from("in", text.as_ref(), wanted, &mut |_| {}, &mut |object| {
        objects.push(object);
        Ok(())
    });
    (objects, whole(outcome))
}

fn good(text: impl AsRef<[u8]>) -> (Vec<Object>, Tally) {
    let (objects, tally) = read_text_as(text, &all);
    (objects, tally.unwrap())
}

fn bad(text: impl AsRef<[u8]>) -> String {
    read_text_as(text, &all).1.unwrap_err().to_string()
}

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n";

#[test]
fn reading_goes_on_with_the_next_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.yaml"), "kind: Other\na: b: c").unwrap();
    std::fs::write(path("b.json"), "{\"kind\": \"Other\"").unwrap();
    std::fs::write(path("c.yml"), POD).unwrap();
    std::fs::write(path("d.json"), POD).unwrap();
    std::fs::write(path("e.yaml"), "").unwrap();
    let mut objects = Vec::new();
    let mut seen = Vec::new();
    let outcome = read(
        &[
            Source::Path(folder.path().to_owned()),
            Source::Path(PathBuf::from("/absent")),
        ],
        &pods,
        &mut |progress| seen.push((progress.done, progress.of, progress.objects)),
        &mut |object| {
            objects.push(object);
            Ok(())
        },
    );
    assert_eq!(objects.len(), 1);
    let one = |errors: ReadErrors| errors.summary().unwrap();
    assert!(one(outcome.absent).starts_with("/absent: "));
    // The other broken files name only kinds that are not wanted.
    assert!(one(outcome.unread).starts_with(path("d.json").to_str().unwrap()));
    let left_out = outcome.left_out.to_string();
    let expected = [path("a.yaml"), path("b.json")];
    assert_eq!(left_out.lines().count(), expected.len(), "{left_out}");
    for (line, path) in left_out.lines().zip(expected) {
        assert!(line.starts_with(path.to_str().unwrap()), "{line}");
    }
    assert_eq!(seen.first(), Some(&(0, 5, 0)));
    assert_eq!(seen.last(), Some(&(5, 5, 1)));
}

#[test]
fn a_list_without_its_kind_is_not_held_against_the_next_file() {
    let folder = tempfile::tempdir().unwrap();
    let list = r#"{"apiVersion": "v1", "items": [{"apiVersion": "v1", "kind": "Pod"}]}"#;
    std::fs::write(folder.path().join("a.json"), list).unwrap();
    std::fs::write(folder.path().join("b.yaml"), POD).unwrap();
    let sources = [Source::Path(folder.path().to_owned())];
    let outcome = read(&sources, &all, &mut |_| {}, &mut |_| Ok(()));
    assert_eq!(whole(outcome).unwrap().objects, 2);
}

#[test]
fn progress_counts_files_bytes_and_objects() {
    let text = format!("{POD}---\n").repeat(50);
    let mut seen = Vec::new();
    let outcome = read_from(
        "in",
        text.as_bytes(),
        &all,
        &mut |progress| seen.push((progress.done, progress.bytes.unwrap(), progress.objects)),
        &mut |_| Ok(()),
    );
    let tally = whole(outcome).unwrap();
    let bytes = text.len() as u64;
    assert_eq!((tally.objects, tally.bytes), (50, bytes));
    assert!(seen.is_sorted());
    assert_eq!(seen.first(), Some(&(0, 0, 0)));
    assert_eq!(seen.last(), Some(&(1, bytes, 50)));
}

#[test]
fn a_wrong_field_ends_nothing_and_is_told_with_its_object() {
    let text = format!("{POD}---\nitems: [{{kind: Pod, apiVersion: v1}}]\n---\na: 'b");
    let outcome = read_from("in", text.as_bytes(), &all, &mut |_| {}, &mut |object| {
        Err(format!("{} is wrong", object.value["metadata"]["name"]))
    });
    assert_eq!(
        outcome.unread.to_string(),
        "in, document 1, line 1: Pod: \"a\" is wrong\n\
         in, document 2, items[0]: Pod: null is wrong\n\
         in, document 3, line 7 column 4: unclosed quote; correct the file, or collect it again if its end is missing"
    );
}
