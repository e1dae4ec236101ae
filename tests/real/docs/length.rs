//! Keeps the documentation short enough to be read.

use std::path::{Path, PathBuf};

use crate::docs::links::files;

/// Maximum number of words of the README and all pages in `docs/`, as `wc -w` counts them.
const MOST_WORDS: usize = 22_000;

#[test]
fn the_readme_and_all_pages_are_short_enough_to_be_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = ["README.md", "docs/*.md"].map(|pattern| files(root, pattern));
    let words = |page: &PathBuf| {
        let text = std::fs::read_to_string(page).unwrap();
        text.split_whitespace().count()
    };
    let all: usize = pages.iter().flatten().map(words).sum();
    assert!(
        all > 0 && all <= MOST_WORDS,
        "{all} words, of at most {MOST_WORDS}"
    );
}
