//! Whether a page has no other markup than its own: all else is text, or a fault.

/// The elements of the page.
const TAGS: &str = "!DOCTYPE a body code details div footer h1 h2 h3 h4 head header html li main meta nav p section span \
    summary table tbody td th thead title tr ul";

/// Panics where the page is not as it should be.
pub fn check(page: &str) {
    let (head, rest) = page.split_once("<style>").unwrap();
    let (_, body) = rest.split_once("</style>").unwrap();
    for part in format!("{head}{body}").split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap();
        assert!(!text.contains('>'), "a bare > in {text:?}");
        let name = tag.trim_start_matches('/').split(' ').next().unwrap();
        assert!(TAGS.split(' ').any(|known| known == name), "{tag:?}");
        let leads_out = name == "a" && tag != "/a" && !tag.starts_with("a href=\"#");
        assert!(!leads_out && tag.matches("href=").count() <= 1, "{tag:?}");
        // Every second part is what is in quotes.
        for outside in tag.split('"').step_by(2) {
            assert!(!outside.contains(" on"), "the page runs {tag:?}");
            let is_fit = |char: char| char.is_ascii_alphanumeric() || " -=/!".contains(char);
            assert!(outside.chars().all(is_fit), "attributes of {tag:?}");
        }
    }
}
