//! Whether a page is well-formed and runs nothing. Not a parser for any HTML: it knows what ours may hold, and takes all
//! else for a fault.

/// Elements that have no end.
const VOID: [&str; 8] = ["area", "br", "col", "hr", "img", "input", "link", "meta"];
/// Their content is no markup.
const RAW: &str = "style";

/// Panics where the page is not as it should be.
pub fn check(page: &str) {
    let mut rest = page;
    let mut open: Vec<&str> = Vec::new();
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        assert!(!text.contains('>'), "a bare > in {text:?}");
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('!') {
            assert!(after.starts_with("DOCTYPE html>"), "{:?}", start(after));
            rest = &after["DOCTYPE html>".len()..];
            continue;
        }
        let end = tag_end(rest);
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "of {open:?}");
            continue;
        }
        let name = tag.split([' ', '\n']).next().unwrap_or_default();
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        assert!(is_name, "{tag:?} is no tag");
        let runs = ["script", "iframe", "object", "embed", "base", "form", "svg"];
        assert!(!runs.contains(&name), "the page has {tag:?}");
        check_attributes(&tag[name.len()..]);
        if VOID.contains(&name) {
            continue;
        }
        open.push(name);
        if name == RAW {
            let close = rest.find("</style>");
            rest = &rest[close.unwrap_or_else(|| panic!("{tag:?} has no end"))..];
        }
    }
    assert!(open.is_empty(), "not ended: {open:?}");
}

/// Where the tag ends: not within quotes.
fn tag_end(text: &str) -> usize {
    let mut is_quoted = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'<' if !is_quoted => panic!("a bare < before {:?}", start(text)),
            b'>' if !is_quoted => return at,
            _ => {}
        }
    }
    panic!("no end of {:?}", start(text));
}

fn check_attributes(text: &str) {
    // Every second part is what is in quotes.
    for outside in text.split('"').step_by(2) {
        let name = outside.trim().trim_end_matches('=');
        assert!(!name.starts_with("on"), "the page runs {name:?}");
        assert!(
            name.chars()
                .all(|char| char.is_ascii_alphanumeric() || " -".contains(char)),
            "attributes {text:?}"
        );
    }
}

fn start(text: &str) -> String {
    text.chars().take(80).collect()
}
