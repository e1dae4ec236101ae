//! Runs the texts of `cases.txt` and checks the objects and counts, or the error, of each.

use std::fmt::Write as _;

use super::*;

/// Returns what is read from a text: one object per line, then the counts or the error.
fn outcome(text: &str, wanted: Wanted<'_>) -> String {
    let mut objects = Vec::new();
    let outcome = read_from("in", text.as_bytes(), wanted, &mut |_| {}, &mut |object| {
        objects.push(object);
        Ok(())
    });
    let mut shown = String::new();
    for Object {
        origin,
        api_version,
        kind,
        value,
        ..
    } in &objects
    {
        let _ = writeln!(shown, "{origin}: {api_version} {kind} {value}");
    }
    for (what, errors) in [("unread", outcome.unread), ("left out", outcome.left_out)] {
        if !errors.is_empty() {
            let _ = writeln!(shown, "{what}: {errors}");
        }
    }
    let Tally {
        documents,
        objects,
        not_objects,
        unused,
        ..
    } = outcome.tally;
    let _ = writeln!(
        shown,
        "{documents} documents, {objects} objects, {not_objects} not objects, unused {unused:?}"
    );
    shown
}

#[test]
fn each_text_becomes_what_the_snapshot_says_whether_all_is_wanted_or_pods_alone() {
    let mut shown = String::new();
    for case in include_str!("cases.txt").split("### ").skip(1) {
        let (name, text) = case.split_once('\n').unwrap();
        let (of_all, of_pods) = (outcome(text, &all), outcome(text, &pods));
        let _ = write!(shown, "### {name}\n{of_all}");
        if of_pods != of_all {
            let _ = write!(shown, "--- pods alone\n{of_pods}");
        }
    }
    insta::assert_snapshot!("cases", shown);
}

#[test]
fn an_object_with_items_that_is_not_wanted_is_counted_as_one() {
    let text = "items: [{a: b}]\nkind: Pod\napiVersion: v1\n";
    let tally = read_text_as(text, &|_, _| false).1.unwrap();
    assert_eq!((tally.unused["Pod"], tally.not_objects), (1, 0));
}
