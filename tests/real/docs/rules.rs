//! Every code block is run by a test, or says why it cannot be; and what the pages name is there.

use std::process::Command;

use pulldown_cmark::{Event, Options, Parser};

use crate::docs::blocks::{Block, Page, pages};
use crate::docs::pages::PAGES;
use crate::docs::{exists, read};

/// Allowed languages. `sh` and `console` run in a shell, `bat` on a Windows node; `text` is for output and file
/// content, never for commands.
const LANGUAGES: [&str; 7] = ["sh", "console", "bat", "yaml", "json", "text", "mermaid"];
/// First words of lines that are commands.
const COMMANDS: &str = "kubectl oc make windows-storage-operator cargo curl git skopeo \
    buildah podman docker kind sc.exe pv-migrate helm";
/// A shorter reason explains nothing.
const LEAST_REASON: usize = 10;

/// Returns what is wrong with a block.
fn fault(block: &Block, is_followed: bool, exists: &dyn Fn(&str) -> bool) -> Option<String> {
    if let Some(reason) = block.mark("not run").filter(|it| it.len() < LEAST_REASON) {
        return Some(format!("no reason why it is not run: {reason:?}"));
    }
    if let Some(test) = block.mark("run by").filter(|test| !exists(test)) {
        return Some(format!("there is no {test}"));
    }
    if !LANGUAGES.contains(&block.language.as_str()) {
        return Some(format!("a block of {:?}", block.language));
    }
    if block.is_let_alone() {
        return None;
    }
    if block.is_typed() && !is_followed {
        let fault = "neither run nor marked with a reason, as <!-- not run: REASON -->";
        return Some(fault.to_owned());
    }
    let typed = |line: &&str| {
        let line = line.trim().trim_start_matches("$ ");
        let first = line.split_whitespace().next();
        first.is_some_and(|first| COMMANDS.split(' ').any(|command| command == first))
    };
    let line = block.code.lines().find(typed)?;
    (block.language == "text").then(|| format!("a command in a block that is not run: {line}"))
}

#[test]
fn every_block_of_every_page_is_run_or_says_why_not() {
    let exists = exists();
    let (mut found, mut run) = (Vec::new(), 0);
    for Page {
        path,
        blocks,
        run_by,
        ..
    } in pages()
    {
        if let Some(test) = run_by.as_ref().filter(|test| !exists(test)) {
            found.push(format!("{path}: there is no {test}"));
        }
        let is_followed = run_by.is_some() || PAGES.iter().any(|(followed, _)| *followed == path);
        for block in blocks {
            run += usize::from(block.is_typed() && !block.is_let_alone());
            let fault = fault(&block, is_followed, &exists);
            found.extend(fault.map(|fault| format!("{}: {fault}", block.place)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(run > 40, "only {run} blocks are run");
}

#[test]
fn targets_and_flags_in_the_prose_exist() {
    let exists = exists();
    let mut missing = Vec::new();
    let mut seen = 0;
    for page in pages() {
        let code = Parser::new_ext(&page.text, Options::ENABLE_TABLES);
        let code = code.filter_map(|event| match event {
            Event::Code(code) => Some(code.into_string()),
            _ => None,
        });
        for code in code {
            let mut words = code.split_whitespace();
            let is_there = match words.next() {
                Some("make") => {
                    let target = words.next().unwrap_or_default();
                    let is_target = target.chars().all(|c| c.is_ascii_lowercase() || c == '-');
                    !is_target || target.is_empty() || exists(&format!("make {target}"))
                }
                Some("windows-storage-operator") => is_taken(&words.collect::<Vec<_>>()),
                _ => continue,
            };
            seen += 1;
            if !is_there {
                missing.push(format!("{}: {code}", page.path));
            }
        }
    }
    assert!(missing.is_empty(), "not there: {}", missing.join("\n"));
    assert!(seen > 40, "only {seen} were found");
}

/// Returns whether the program has this command with these flags, according to its own help.
fn is_taken(arguments: &[&str]) -> bool {
    let command = arguments.first().filter(|word| !word.starts_with('-'));
    let mut help = Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"));
    let help = help.args(command).arg("--help").output().unwrap();
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    let words = text.split(|c: char| c.is_whitespace() || ",[]=".contains(c));
    let mut flags = arguments
        .iter()
        .filter(|word| word.starts_with('-') && **word != "-")
        .map(|flag| flag.split('=').next().unwrap_or_default());
    help.status.success() && flags.all(|flag| words.clone().any(|word| word == flag))
}

/// The tests that show what becomes of each fault.
const FAULTS: &str = include_str!("faults.txt");
/// The tests that show what docs/security.md says of each attacker.
const THREATS: &str = include_str!("threats.txt");

#[test]
fn every_test_that_shows_a_fact_or_what_becomes_of_a_fault_or_a_threat_exists() {
    let exists = exists();
    let facts = read("agent/tests/facts.md");
    let facts = facts.split('`').skip(1).step_by(2);
    let facts = facts.filter_map(|code| Some(code.rsplit_once("::")?.1));
    let facts = facts.collect::<Vec<_>>().join(" ");
    for list in [FAULTS, THREATS, &facts] {
        let is_name = |word: &&str| word.contains('_');
        let tests: Vec<&str> = list.split_whitespace().filter(is_name).collect();
        assert!(tests.len() > 40, "{tests:?}");
        for test in tests {
            assert!(exists(test), "there is no test {test}");
        }
    }
}
