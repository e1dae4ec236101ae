//! A source with something that does not fit into a bundle is refused, not ignored.

use crate::project::{copy, newest, replace, table};

/// Returns the error after `from` was replaced with `to` in `file`.
fn refusal(file: &str, from: &str, to: &str) -> String {
    let copy = copy();
    bundler::render(copy.path(), &newest()).unwrap();
    replace(copy.path(), file, from, to);
    let error = bundler::render(copy.path(), &newest()).unwrap_err();
    format!("{error:#}")
}

#[test]
fn what_has_no_place_in_the_bundle_is_refused() {
    for [file, from, to, complaint] in table(include_str!("refusals.yaml")) {
        let refusal = refusal(&file, &from, &to);
        assert!(refusal.contains(&complaint), "{file}: {refusal}");
        let names_file = refusal.starts_with(&file) || file.starts_with("crds/");
        assert!(names_file, "{file}: {refusal}");
    }
}
