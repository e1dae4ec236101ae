//! Tests the output of `make help`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use testbed::commands::printed;

use crate::root;

/// Maximum width of a line, to fit common terminals.
const COLUMNS: usize = 100;

/// Returns the documented targets, from lines `target: ... ## description`, with their descriptions.
pub fn targets() -> BTreeMap<String, String> {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let lines = makefile.lines().filter_map(|line| {
        let (target, description) = line.split_once(" ## ")?;
        let (target, _) = target.split_once(':')?;
        Some((target.to_owned(), description.to_owned()))
    });
    lines.collect()
}

#[test]
fn help_lists_every_target_in_groups_within_the_columns() {
    let help = printed(Command::new("make").arg("help").current_dir(root())).unwrap();
    let mut listed = BTreeSet::new();
    let mut groups: Vec<(&str, usize)> = Vec::new();
    for line in help.lines() {
        assert!(line.chars().count() <= COLUMNS, "too wide: {line}");
        if let Some(entry) = line.strip_prefix("  ") {
            let (target, description) = entry.split_once(' ').unwrap();
            assert_eq!(targets()[target], description.trim_start());
            assert!(listed.insert(target.to_owned()), "{target} is listed twice");
            groups.last_mut().unwrap().1 += 1;
        } else if !line.is_empty() {
            groups.push((line, 0));
        }
    }
    let all: BTreeSet<String> = targets().into_keys().collect();
    assert_eq!(listed, all);
    assert!(all.len() > 30, "{all:?}");
    assert!(groups.len() >= 5, "{groups:?}");
    for (group, targets) in groups {
        assert!((2..=12).contains(&targets), "{group} has {targets} targets");
    }
}
