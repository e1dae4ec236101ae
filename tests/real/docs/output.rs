//! Compares the command output on a page with the real output.

/// Stands for any text within a line, and alone on a line for any number of lines.
const ANYTHING: char = '…';

/// Returns whether `printed` matches what a page shows. Column widths and ages are ignored.
pub fn is_as_shown(shown: &str, printed: &str) -> bool {
    lines_match(&lines(shown), &lines(printed))
}

fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| {
        let words = line.split_whitespace();
        let words: Vec<&str> = words
            .map(|word| if is_age(word) { "AGE" } else { word })
            .collect();
        words.join(" ")
    });
    lines.filter(|line| !line.is_empty()).collect()
}

/// Returns whether a word is an age as kubectl prints it: `14s`, `3m2s`, `2d`.
fn is_age(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit())
        && word.ends_with(['s', 'm', 'h', 'd'])
        && word
            .chars()
            .all(|letter| letter.is_ascii_digit() || "smhd".contains(letter))
}

fn lines_match(shown: &[String], printed: &[String]) -> bool {
    let Some((first, rest)) = shown.split_first() else {
        return printed.is_empty();
    };
    if first.chars().eq([ANYTHING]) {
        return (0..=printed.len()).any(|left_out| lines_match(rest, &printed[left_out..]));
    }
    printed
        .split_first()
        .is_some_and(|(line, others)| line_matches(first, line) && lines_match(rest, others))
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let mut parts: Vec<&str> = shown.split(ANYTHING).collect();
    let last = parts.pop().unwrap_or_default();
    let Some((first, middle)) = parts.split_first() else {
        return printed == last;
    };
    let Some(mut rest) = printed.strip_prefix(first) else {
        return false;
    };
    for part in middle {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}
