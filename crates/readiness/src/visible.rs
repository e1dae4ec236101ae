//! Escapes names and messages from the cluster and from files: characters that could move a terminal's cursor, break a line
//! or reverse text.

use std::fmt::Write;

/// Whether a character affects the text around it or is invisible.
pub fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Joins at most `most` names, and counts the rest.
pub fn some_of<T: AsRef<str>>(names: impl IntoIterator<Item = T>, most: usize) -> String {
    let mut names = names.into_iter();
    let first: Vec<T> = names.by_ref().take(most).collect();
    let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
    let first = first.join(", ");
    match names.count() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Returns the text with hidden characters escaped, as in `\u{1b}`.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if is_hidden(char) {
            // Writing to a String cannot fail.
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

    #[test]
    fn what_is_there_without_being_seen_is_written_out() {
        for hidden in [
            '\u{34f}',
            '\u{115f}',
            '\u{1160}',
            '\u{2800}',
            '\u{3164}',
            '\u{fe00}',
            '\u{fe0f}',
            '\u{ffa0}',
            '\u{e0001}',
            '\u{e0100}',
        ] {
            let shown = format!("a\\u{{{:x}}}b", u32::from(hidden));
            assert_eq!(visible(&format!("a{hidden}b")), shown);
        }
        for seen in ['\u{1161}', '\u{2801}', '\u{fe10}', '\u{ffa1}'] {
            assert!(!is_hidden(seen), "{:x}", u32::from(seen));
        }
    }
}
