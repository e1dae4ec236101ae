//! Names and messages come from the cluster and from files. What could move a terminal's cursor, break a line or turn
//! text around is written out instead.

use std::fmt::Write;

/// Whether a character acts on what is around it, or is there without being seen.
#[must_use]
pub fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
        )
}

/// The text with everything hidden in it written out, as `\u{1b}`.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if is_hidden(char) {
            // Writing to a String does not fail.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(char));
        } else {
            shown.push(char);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out_and_all_else_stays() {
        assert_eq!(visible("web-0 \"é\" \\ 日本"), "web-0 \"é\" \\ 日本");
        assert_eq!(
            visible("\u{1b}[31m\n\u{202e}x"),
            "\\u{1b}[31m\\u{a}\\u{202e}x"
        );
    }
}
