//! Selects the logs of a node, and how much of each to take.

use crate::node::Found;

/// A log on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The program that writes the log.
    pub of: &'static str,
    /// The log's folder as a Windows path.
    pub folder: &'static str,
    /// The file.
    pub file: Found,
}

/// Sorts newest first. The order of files from the same second does not depend on the server.
pub fn sort(logs: &mut [Log]) {
    logs.sort_by(|a, b| {
        (b.file.modified, a.of, &a.file.name).cmp(&(a.file.modified, b.of, &b.file.name))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str, size: u64, modified: u64) -> Log {
        Log {
            of: "agent",
            folder: "C:",
            file: Found {
                name: name.to_owned(),
                size,
                modified,
            },
        }
    }

    #[test]
    fn the_newest_come_first_and_names_decide_where_time_does_not() {
        let mut logs = vec![log("old", 1, 1), log("b", 1, 7), log("a", 1, 7)];
        sort(&mut logs);
        let names: Vec<&str> = logs.iter().map(|log| &*log.file.name).collect();
        assert_eq!(names, ["a", "b", "old"]);
    }
}
