//! What is in a folder that was to be empty.

use std::ffi::OsString;
use std::fmt::Write;

use crate::visible::visible;

/// The end of the name of a folder that is being filled.
pub const PARTIAL: &str = ".partial";

/// What is in a folder. What begins with a dot is easily overlooked, and some of it is ours.
#[must_use]
pub fn in_words(mut names: Vec<OsString>) -> String {
    const NAMED: usize = 3;
    names.sort();
    let more = names.len().saturating_sub(NAMED);
    let first = names.iter().take(NAMED).map(|name| {
        let name = name.to_string_lossy();
        let shown = visible(&name);
        if name.starts_with('.') && name.ends_with(PARTIAL) {
            format!(
                "{shown} (left by a must-gather that was killed; unless one is still writing it, it may be removed)"
            )
        } else {
            shown
        }
    });
    let mut words = first.collect::<Vec<_>>().join(", ");
    if more > 0 {
        // Writing to a String does not fail.
        let _ = write!(words, " and {more} more");
    }
    words
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::gather::folder::Folder;

    #[test]
    fn what_a_killed_run_has_left_is_named() {
        let mounted = tempfile::tempdir().unwrap();
        let killed = Folder::create(mounted.path()).unwrap();
        fs::write(killed.path().join("a"), b"x").unwrap();
        let left = killed.path().file_name().unwrap();
        let left = left.to_str().unwrap();
        let error = Folder::create(mounted.path()).unwrap_err().to_string();
        assert!(
            error.contains(left) && error.contains("that was killed"),
            "{error}"
        );
        drop(killed);
        for name in ["d", "c", "b\n", "a"] {
            fs::write(mounted.path().join(name), b"x").unwrap();
        }
        let error = Folder::create(mounted.path()).unwrap_err().to_string();
        assert!(
            error.contains("it has a, b\\u{a}, c and 1 more;"),
            "{error}"
        );
    }
}
