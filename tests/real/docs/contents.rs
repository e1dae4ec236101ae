//! The pages agree with the code.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use protocol::paths::{
    AGENT_EXE, AGENT_LOG_DIR, AGENT_PREVIOUS, AGENT_RETIRED, BOOTSTRAP_DIR, CSI_PROXY_EXE,
    CSI_PROXY_LOG_DIR, CSI_PROXY_PREVIOUS, STATE_DIR,
};
use pulldown_cmark::{Event, Options, Parser, Tag};
use windows_storage_operator::assess::codes::CODES;
use windows_storage_operator::assess::drivers::WINDOWS_DRIVERS;
use windows_storage_operator::assess::plugins::{PLUGINS, by_name};
use windows_storage_operator::assess::report::Reason as VerdictReason;
use windows_storage_operator::assess::versions::Distribution;
use windows_storage_operator::node::Reason;
use windows_storage_operator::services::CSI_PROXY_PIPES;

use crate::docs::{files, read, root};

/// OpenShift 4.N is Kubernetes 1.(N + 13).
const OPENSHIFT_OFFSET: u64 = 13;
/// Maximum number of words of the README and all pages in `docs/`, as `wc -w` counts them.
const MOST_WORDS: usize = 22_000;

/// Returns whether a page has a heading that GitHub gives this anchor.
fn has_anchor(page: &str, anchor: &str) -> bool {
    let of_heading = |line: &str| -> String {
        let heading = line.trim_start_matches('#').trim().replace(' ', "-");
        let kept = heading.chars();
        let kept = kept.filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_');
        kept.collect::<String>().to_lowercase()
    };
    let mut headings = page.lines().filter(|line| line.starts_with('#'));
    headings.any(|line| of_heading(line) == anchor)
}

#[test]
fn every_local_link_leads_to_a_file_and_every_anchor_to_a_heading() {
    let (mut dead, mut anchors) = (Vec::new(), 0);
    for file in files("*.md") {
        for event in Parser::new_ext(&read(&file), Options::ENABLE_TABLES) {
            let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event
            else {
                continue;
            };
            if dest_url.contains("://") || dest_url.starts_with("mailto:") {
                continue;
            }
            let (page, anchor) = dest_url.split_once('#').unwrap_or((&dest_url, ""));
            let page = match page {
                "" => root().join(&file),
                page => root().join(&file).parent().unwrap().join(page),
            };
            anchors += usize::from(!anchor.is_empty());
            let text = fs::read_to_string(&page).unwrap_or_default();
            if !page.exists() || !anchor.is_empty() && !has_anchor(&text, anchor) {
                dead.push(format!("{}: {dest_url}", file.display()));
            }
        }
    }
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
    assert!(anchors > 20, "only {anchors} anchors were found");
}

#[test]
fn every_page_is_in_the_index_and_all_are_short_enough_to_be_read() {
    let (index, mut words) = (read("docs/README.md"), 0);
    for file in [files("README.md"), files("docs/*.md")].concat() {
        words += read(&file).split_whitespace().count();
        if let Ok(name) = file.strip_prefix("docs") {
            let is_named = index.contains(&format!("]({})", name.display()));
            assert!(
                is_named || name == "README.md",
                "{} is not named",
                name.display()
            );
        }
    }
    assert!((1..=MOST_WORDS).contains(&words), "{words} words");
    assert!(read("README.md").contains("](docs/README.md)"));
}

#[test]
fn the_page_of_findings_has_every_code_with_its_meaning_and_its_paragraph() {
    let page = read("docs/findings.md");
    let codes = CODES.iter();
    let expected: Vec<_> = codes
        .map(|(code, meaning)| format!("| `{code}` | {meaning} |"))
        .collect();
    assert_eq!(rows("docs/findings.md", "| `"), expected);
    for (code, _) in CODES {
        assert!(
            has_anchor(&page, &code.to_lowercase()),
            "no paragraph {code}"
        );
    }
}

/// Returns the words that a source file uses as reasons and types of conditions: literals that consist only of letters,
/// outside its tests.
fn reasons(source: &str) -> BTreeSet<String> {
    let source = read(source);
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let is_word = |text: &&str| {
        text.len() > 3
            && text.starts_with(|first: char| first.is_ascii_uppercase())
            && text.chars().all(|letter| letter.is_ascii_alphabetic())
            && text.chars().any(|letter| letter.is_ascii_lowercase())
            && !["True", "False", "Unknown", "Managed"].contains(text)
    };
    let literals = code.split('"').skip(1).step_by(2);
    literals.filter(is_word).map(str::to_owned).collect()
}

/// Returns the reasons that the tables of a page explain: the words in their columns of that name.
fn explained(page: &str) -> BTreeSet<String> {
    let cells = |row: &str| -> Vec<String> { row.split(" | ").map(str::to_owned).collect() };
    let mut found = BTreeSet::new();
    for table in page.split("\n\n").filter(|part| part.starts_with("| ")) {
        let heads = cells(table.lines().next().unwrap_or_default());
        let is_reason = |head: &String| head.trim_start_matches("| ").starts_with("reason");
        let Some(column) = heads.iter().position(is_reason) else {
            continue;
        };
        for row in table.lines().skip(2).map(cells) {
            let words = row[column].split('`').skip(1).step_by(2);
            found.extend(words.map(str::to_owned));
        }
    }
    found
}

#[test]
fn every_reason_of_a_condition_is_explained_and_no_other() {
    let page = read("docs/troubleshooting.md");
    let pages = [page.clone(), read("docs/check.md")].concat();
    let mut all = BTreeSet::from(Reason::ALL.map(|reason| reason.as_str().to_owned()));
    all.extend(VerdictReason::ALL.map(|reason| reason.as_str().to_owned()));
    for source in [
        "src/gate/error.rs",
        "src/gate/report.rs",
        "src/status/cluster.rs",
        "src/status/csi_proxy.rs",
        "src/status/node.rs",
        "src/status/removal.rs",
        "src/status/rollout.rs",
    ] {
        all.append(&mut reasons(source));
    }
    // Names of kinds and types are not reasons.
    all.retain(|reason| !["OperatorCondition", "String"].contains(&&**reason));
    for reason in &all {
        let is_explained = pages.contains(&format!("`{reason}`"));
        assert!(is_explained, "neither page explains {reason}");
    }
    assert!(all.len() > 60, "only {} reasons were found", all.len());
    let explained = explained(&page);
    let gone: Vec<&String> = explained.difference(&all).collect();
    assert!(gone.is_empty(), "no condition has these: {gone:?}");
    assert!(explained.len() > 50, "{explained:?}");
}

fn version(minor: u64) -> String {
    match minor.checked_sub(OPENSHIFT_OFFSET) {
        Some(openshift) => format!("1.{minor} (4.{openshift})"),
        None => format!("1.{minor}"),
    }
}

/// Returns the rows of a table whose first cell is code.
fn rows(page: &str, beginning: &str) -> Vec<String> {
    let page = read(page);
    let rows = page.lines().filter(|line| line.starts_with(beginning));
    rows.map(str::to_owned).collect()
}

#[test]
fn the_table_of_plugins_is_that_of_the_code() {
    let expected: Vec<String> = PLUGINS
        .iter()
        .map(|plugin| {
            let of = |distribution| plugin.redirected_from(distribution).number();
            let (driver, redirected) = match plugin.driver {
                Some(driver) => (
                    format!("`{driver}`"),
                    format!(
                        "{} ({}) | {} ",
                        of(Distribution::Kubernetes),
                        of(Distribution::OpenShift),
                        version(plugin.always_from)
                    ),
                ),
                None => ("none".to_owned(), "| ".to_owned()),
            };
            format!(
                "| `{}` | `{}` | {driver} | {redirected}| {} |",
                plugin.name,
                plugin.field,
                version(plugin.removed_in)
            )
        })
        .collect();
    assert_eq!(rows("docs/migration.md", "| `kubernetes.io/"), expected);
}

#[test]
fn the_table_for_openshift_follows_the_code() {
    for (title, plugin) in [
        ("AWS EBS", "kubernetes.io/aws-ebs"),
        ("Azure Disk", "kubernetes.io/azure-disk"),
        ("GCE PD", "kubernetes.io/gce-pd"),
        ("Azure File", "kubernetes.io/azure-file"),
        ("vSphere", "kubernetes.io/vsphere-volume"),
    ] {
        let row = rows("docs/migration.md", &format!("| {title} |")).concat();
        let cells: Vec<&str> = row.split('|').skip(2).take(5).map(str::trim).collect();
        let plugin = by_name(plugin).unwrap();
        for (openshift, cell) in (10..).zip(&cells) {
            let release = Distribution::OpenShift.at(openshift + OPENSHIFT_OFFSET);
            let expected = if plugin.is_redirected_at(release) {
                "CSI"
            } else {
                "in-tree"
            };
            assert!(
                cell.starts_with(expected),
                "{title} at 4.{openshift}: {cell}"
            );
        }
        assert_eq!(cells.len(), 5, "{title}: {row}");
    }
}

#[test]
fn pipes_and_drivers_are_those_that_the_code_knows() {
    // Regardless of line breaks.
    let concepts = read("docs/concepts.md");
    let concepts: Vec<&str> = concepts.split_whitespace().collect();
    let pipes = format!("{} **named pipes**", CSI_PROXY_PIPES.len());
    assert!(concepts.join(" ").contains(&pipes), "{pipes}");
    for driver in &WINDOWS_DRIVERS {
        let row = format!(
            "| `{}` | `{}` | <{}> |",
            driver.name, driver.daemon_set, driver.home
        );
        assert_eq!(rows("docs/drivers.md", &row).len(), 1, "{row}");
    }
}

/// Returns the paths on a node that a part of a page names, in lower case, as Windows compares them.
fn paths_in(page: &str, heading: &str) -> Vec<String> {
    let page = read(page).to_lowercase();
    let (_, part) = page.split_once(&heading.to_lowercase()).unwrap();
    let words = part.split(|char: char| char.is_whitespace() || "`,\"".contains(char));
    let paths = words.filter(|word| word.starts_with(r"c:\"));
    paths.map(str::to_owned).collect()
}

#[test]
fn a_node_is_cleaned_by_hand_and_excluded_from_scans_with_all_our_paths() {
    let cleaned = paths_in("docs/uninstall.md", "## A node by hand");
    for path in [
        AGENT_EXE,
        AGENT_PREVIOUS,
        AGENT_RETIRED,
        STATE_DIR,
        BOOTSTRAP_DIR,
        AGENT_LOG_DIR,
        CSI_PROXY_EXE,
        CSI_PROXY_PREVIOUS,
        CSI_PROXY_LOG_DIR,
    ] {
        let path = path.to_lowercase();
        let is_cleaned = cleaned.iter().any(|it| match it.strip_suffix('*') {
            Some(begin) => path.starts_with(begin),
            None => path == *it,
        });
        assert!(is_cleaned, "{path} is left: {cleaned:?}");
    }
    for (page, heading) in [
        ("docs/troubleshooting.md", "### A program is blocked"),
        ("docs/windows-hosts.md", "## Virus scanners"),
    ] {
        let excluded = paths_in(page, heading);
        for path in [AGENT_EXE, CSI_PROXY_EXE, STATE_DIR, BOOTSTRAP_DIR] {
            let is_named = excluded.contains(&path.to_lowercase());
            assert!(is_named, "{page} leaves {path} out: {excluded:?}");
        }
    }
}

#[test]
fn make_run_is_about_another_cluster_only_where_the_command_line_says_so() {
    let makes = |arguments: &[&str]| {
        let mut make = Command::new("make");
        // Prints only the recipe of the target itself and does not run it.
        make.args("--dry-run -o local -o payload run".split(' '))
            .args(arguments)
            .env("KUBECONFIG", "/production")
            .env_remove("MAKEFLAGS")
            .current_dir(root());
        testbed::commands::printed(&mut make).unwrap()
    };
    assert!(makes(&[]).contains("testbed run"), "{}", makes(&[]));
    let given = makes(&["KUBECONFIG=/mine"]);
    assert!(given.contains("KUBECONFIG='/mine'"), "{given}");
}

/// The error texts that users search for: in each line the words between names that differ.
const SYMPTOMS: &str = include_str!("symptoms.txt");

#[test]
fn every_error_text_that_users_search_for_has_its_cause_and_remedy() {
    let rows = rows("docs/troubleshooting.md", "| `");
    for line in SYMPTOMS.lines() {
        let words = line.split(" … ");
        let row = rows
            .iter()
            .find(|row| words.clone().all(|words| row.contains(words)));
        let remedy = row.and_then(|row| row.trim_matches('|').split('|').nth(1));
        let is_told = remedy.is_some_and(|remedy| remedy.split_whitespace().count() >= 5);
        assert!(is_told, "no remedy: {line}");
    }
}
