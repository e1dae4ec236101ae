//! Every code block is run by a test, or says why it cannot be.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::docs::blocks::{Block, Mark, Page, pages};
use crate::docs::links::files;
use crate::docs::pages::PAGES;

/// Allowed languages. `sh` and `console` run in a shell, `bat` on a Windows node; `text` is for output and file
/// content, never for commands.
const LANGUAGES: [&str; 7] = ["sh", "console", "bat", "yaml", "json", "text", "mermaid"];
/// First words of lines that are commands.
const COMMANDS: &str = "kubectl oc make windows-storage-operator cargo curl git skopeo \
    buildah podman docker kind sc.exe pv-migrate helm";
/// A shorter reason explains nothing.
const LEAST_REASON: usize = 10;

/// Returns what is wrong with the blocks of a page.
fn faults(page: &Page, is_followed: bool, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut faults = Vec::new();
    if let Some(test) = &page.run_by
        && !exists(test)
    {
        faults.push(format!("{}: there is no {test}", page.path));
    }
    for block in &page.blocks {
        let found = fault(block, is_followed || page.run_by.is_some(), exists);
        faults.extend(found.map(|fault| format!("{}: {fault}", block.place)));
    }
    faults
}

fn fault(block: &Block, is_followed: bool, exists: &dyn Fn(&str) -> bool) -> Option<String> {
    for mark in &block.marks {
        match mark {
            Mark::NotRun(reason) if reason.len() < LEAST_REASON => {
                return Some(format!("no reason why it is not run: {reason:?}"));
            }
            Mark::RunBy(test) if !exists(test) => return Some(format!("there is no {test}")),
            _ => {}
        }
    }
    if !LANGUAGES.contains(&block.language.as_str()) {
        return Some(format!("a block of {:?}", block.language));
    }
    if block.is_let_alone() {
        return None;
    }
    if block.is_typed() && !is_followed {
        return Some(
            "neither run nor marked with a reason, as <!-- not run: REASON -->".to_owned(),
        );
    }
    let typed = |line: &&str| {
        let line = line.trim().trim_start_matches("$ ");
        let first = line.split_whitespace().next();
        first.is_some_and(|first| COMMANDS.split(' ').any(|command| command == first))
    };
    match block.code.lines().find(typed) {
        Some(line) if block.language == "text" => {
            Some(format!("a command in a block that is not run: {line}"))
        }
        _ => None,
    }
}

/// Returns a predicate: whether a test of this name, or a target such as `make image-check`, exists.
fn exists(root: &Path) -> impl Fn(&str) -> bool {
    let makefile = fs::read_to_string(root.join("Makefile")).unwrap();
    let sources: String = files(root, "*.rs")
        .into_iter()
        .map(|file| fs::read_to_string(file).unwrap_or_default())
        .collect();
    move |name| match name.strip_prefix("make ") {
        Some(target) => makefile.contains(&format!("\n{target}:")),
        None => sources.contains(&format!("fn {name}(")),
    }
}

#[test]
fn every_block_of_every_page_is_run_or_says_why_not() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let exists = exists(root);
    let pages = pages();
    let found: Vec<String> = pages
        .iter()
        .flat_map(|page| {
            let is_followed = PAGES.iter().any(|(path, _)| *path == page.path);
            faults(page, is_followed, &exists)
        })
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    let count = |of: &dyn Fn(&Block) -> bool| {
        let blocks = pages.iter().flat_map(|page| &page.blocks);
        blocks.filter(|block| of(block)).count()
    };
    let run = count(&|block| block.is_typed() && !block.is_let_alone());
    assert!(run > 40, "only {run} blocks are run");
}

#[test]
fn every_page_that_is_followed_has_something_to_type() {
    let pages = pages();
    for (path, _) in PAGES {
        let page = pages.iter().find(|page| page.path == *path);
        let blocks = page.map_or(&[][..], |page| &page.blocks);
        assert!(
            blocks
                .iter()
                .any(|block| block.is_typed() && !block.is_let_alone()),
            "{path} is not there, or has nothing to type"
        );
    }
}

#[test]
fn a_block_that_is_neither_run_nor_marked_is_found() {
    let of = |text: &str, is_followed: bool| {
        let page = Page::read("page.md", text.to_owned());
        faults(&page, is_followed, &|name| name == "a_test")
    };
    for (text, is_followed) in [
        ("```sh\nls\n```", true),
        (
            "<!-- not run: needs OpenShift -->\n```sh\noc whoami\n```",
            false,
        ),
        ("<!-- run by: a_test -->\n\n    make image\n", false),
        ("<!-- page run by: a_test -->\n\ntext\n\n    ls\n", false),
        ("```text\nsome output\n```", false),
        ("```yaml\na: 1\n```", false),
    ] {
        assert!(of(text, is_followed).is_empty(), "{text}");
    }
    for (text, is_followed) in [
        ("```sh\nls\n```", false),
        ("    ls\n", false),
        ("```console\n$ ls\n```", false),
        ("```bat\ndir\n```", false),
        ("```text\nkubectl get pods\n```", true),
        ("```text\n  $ oc whoami\n```", true),
        ("```ruby\nputs 1\n```", true),
        ("<!-- not run: no -->\n```sh\nls\n```", true),
        ("<!-- run by: another -->\n```sh\nls\n```", true),
        ("<!-- page run by: another -->\n\n    ls\n", true),
    ] {
        assert!(!of(text, is_followed).is_empty(), "{text}");
    }
}

/// Returns the inline code of a page, outside its blocks.
fn inline_code(page: &Page) -> Vec<String> {
    let parser =
        pulldown_cmark::Parser::new_ext(&page.text, pulldown_cmark::Options::ENABLE_TABLES);
    let code = parser.filter_map(|event| match event {
        pulldown_cmark::Event::Code(code) => Some(code.into_string()),
        _ => None,
    });
    code.collect()
}

#[test]
fn targets_and_flags_in_the_prose_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let exists = exists(root);
    let mut missing = Vec::new();
    let mut seen = 0;
    for page in pages() {
        for code in inline_code(&page) {
            let mut words = code.split_whitespace();
            match words.next() {
                Some("make") => {
                    let target = words.next().unwrap_or_default();
                    let is_target = target.chars().all(|c| c.is_ascii_lowercase() || c == '-');
                    seen += 1;
                    if is_target && !target.is_empty() && !exists(&format!("make {target}")) {
                        missing.push(format!("{}: {code}", page.path));
                    }
                }
                Some("windows-storage-operator") => {
                    let arguments: Vec<&str> = words.collect();
                    seen += 1;
                    if !is_taken(&arguments) {
                        missing.push(format!("{}: {code}", page.path));
                    }
                }
                _ => {}
            }
        }
    }
    assert!(missing.is_empty(), "not there: {}", missing.join("\n"));
    assert!(seen > 40, "only {seen} were found");
}

/// Returns whether the program has this command with these flags, according to its own help.
fn is_taken(arguments: &[&str]) -> bool {
    let command = arguments.first().filter(|word| !word.starts_with('-'));
    let help = Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"))
        .args(command)
        .arg("--help")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || ",[]=".contains(c))
        .collect();
    let mut flags = arguments
        .iter()
        .filter(|word| word.starts_with('-') && **word != "-");
    help.status.success()
        && flags.all(|flag| words.contains(&flag.split('=').next().unwrap_or_default()))
}
