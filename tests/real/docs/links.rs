//! Everything that the pages refer to exists.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the files of the tree that match, including untracked ones.
pub fn files(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            pattern,
        ])
        .current_dir(root)
        .output()
        .unwrap();
    String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .map(|line| root.join(line))
        .collect()
}

#[test]
fn the_readme_names_the_two_commands_and_every_target_it_uses_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let makefile = std::fs::read_to_string(root.join("Makefile")).unwrap();
    assert!(readme.contains("make run") && readme.contains("make test"));
    for part in readme
        .split('`')
        .filter_map(|code| code.strip_prefix("make "))
    {
        let target: String = part
            .chars()
            .take_while(|c| c.is_ascii_lowercase() || *c == '-')
            .collect();
        assert!(
            makefile.contains(&format!("\n{target}:")),
            "README names make {target}, the Makefile does not"
        );
    }
}

#[test]
fn make_run_is_about_another_cluster_only_where_the_command_line_says_so() {
    let makes = |arguments: &[&str]| {
        let mut make = Command::new("make");
        // Prints only the recipe of the target itself and does not run it.
        make.args(["--dry-run", "--no-print-directory", "--old-file=setup"]);
        make.args([
            "--old-file=parts",
            "--old-file=payload",
            "--old-file=build",
            "run",
        ]);
        make.args(arguments)
            .env("KUBECONFIG", "/production")
            .env_remove("MAKEFLAGS")
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        String::from_utf8(make.output().unwrap().stdout).unwrap()
    };
    assert!(makes(&[]).contains("-p testbed -- run"), "{}", makes(&[]));
    let given = makes(&["KUBECONFIG=/mine"]);
    assert!(given.contains("KUBECONFIG='/mine'"), "{given}");
}

#[test]
fn the_page_of_findings_has_every_code_and_its_meaning() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/findings.md")).unwrap();
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let expected: Vec<String> = windows_storage_operator::assess::codes::CODES
        .iter()
        .map(|(code, meaning)| format!("| `{code}` | {meaning} |"))
        .collect();
    assert_eq!(rows, expected);
}

#[test]
fn every_test_that_a_table_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources: String = files(root, "*.rs")
        .into_iter()
        .map(|file| std::fs::read_to_string(file).unwrap_or_default())
        .collect();
    let text = std::fs::read_to_string(root.join("docs/contributing/testing.md")).unwrap();
    let (mut named, mut names_tests) = (0, false);
    for row in text.lines() {
        let last = row.trim_end_matches(['|', ' ']).rsplit('|').next();
        let shown_by = last.unwrap_or_default();
        if shown_by.trim() == "shown by" || !row.starts_with('|') {
            names_tests = row.starts_with('|');
            continue;
        }
        for test in shown_by.split('`').skip(1).step_by(2) {
            if names_tests {
                named += 1;
                let declared = format!("fn {test}(");
                assert!(
                    sources.contains(&declared),
                    "there is no test {test}: {row}"
                );
            }
        }
    }
    assert!(named > 40, "only {named} tests were found");
}

/// The page names these tests in comments for its authors, by attacker: `<!-- shown by: … -->`.
#[test]
fn every_test_that_shows_what_the_page_on_security_says_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/security.md")).unwrap();
    let (_, rest) = page.split_once("<!-- shown by:").unwrap();
    let (names, _) = rest.split_once("-->").unwrap();
    let names = names.split_whitespace();
    let tests: Vec<&str> = names.filter(|name| !name.ends_with(':')).collect();
    let sources: String = files(root, "*.rs")
        .into_iter()
        .map(|file| std::fs::read_to_string(file).unwrap_or_default())
        .collect();
    for test in &tests {
        let declared = format!("fn {test}(");
        assert!(sources.contains(&declared), "there is no test {test}");
    }
    assert!(tests.len() > 40, "only {} tests were found", tests.len());
}
