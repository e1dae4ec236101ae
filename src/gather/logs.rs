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

/// Trims the start of a truncated log: drops the first partial line and notes what is missing.
#[derive(Debug, Default)]
pub struct Beginning {
    is_over: bool,
    /// How many bytes of the partial line were dropped.
    dropped: u64,
}

impl Beginning {
    /// Returns a line to insert before the next bytes, and the part of the bytes to keep.
    pub fn pass<'a>(&mut self, left_out: u64, bytes: &'a [u8]) -> (String, &'a [u8]) {
        /// The end of a line longer than this is not searched for.
        const LONGEST_LINE: u64 = 64 * 1024;
        if self.is_over || left_out == 0 {
            return (String::new(), bytes);
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let is_long = self.dropped + bytes.len() as u64 >= LONGEST_LINE;
        let (dropped, kept) = match end {
            Some(end) => bytes.split_at(end + 1),
            None if is_long => (&[][..], bytes),
            None => (bytes, &[][..]),
        };
        self.dropped += dropped.len() as u64;
        self.is_over = end.is_some() || is_long;
        let missing = left_out + self.dropped;
        let line = format!("[must-gather: the first {missing} bytes of this file were left out]\n");
        (if self.is_over { line } else { String::new() }, kept)
    }
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

    #[test]
    fn the_end_of_a_log_begins_with_a_whole_line_and_says_what_is_missing() {
        let mut whole = Beginning::default();
        for text in [&b"a\nb"[..], b"c\n"] {
            assert_eq!(whole.pass(0, text), (String::new(), text));
        }
        let mut end = Beginning::default();
        assert_eq!(end.pass(10, b"bro"), (String::new(), &b""[..]));
        let (line, kept) = end.pass(10, b"ken\nwhole\n");
        assert!(line.contains("the first 17 bytes"));
        assert_eq!(kept, b"whole\n");
        assert_eq!(end.pass(10, b"x\ny"), (String::new(), &b"x\ny"[..]));
        let mut one_line = Beginning::default();
        let long = vec![b'x'; 70_000];
        let (line, kept) = one_line.pass(10, &long);
        assert!(!line.is_empty() && kept.len() == long.len());
    }
}
