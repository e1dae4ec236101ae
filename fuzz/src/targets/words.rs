//! Short texts: versions, names, questions, commands.

use http::{Response, StatusCode};
use protocol::{command, paths};
use serde_json::json;
use windows_storage_agent::cli;
use windows_storage_operator::assess::versions;
use windows_storage_operator::client::retry_after;
use windows_storage_operator::node::printable;
use windows_storage_operator::objects::driver_flags;
use windows_storage_operator::report::Question;
use windows_storage_operator::run::logs::filter;
use windows_storage_operator::visible::visible;

use crate::compare::is_visible;

/// A text as each of these: what is made visible is, and what is read back is the same.
pub fn words(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let shown = visible(&text);
    is_visible(&shown, "a text");
    assert!(!shown.contains('\n'));
    assert_eq!(visible(&shown), shown);
    let shown = printable(&text);
    is_visible(&shown, "what a node says");
    assert!(shown.chars().count() <= 2501 && !shown.contains('\n'));

    let first = text.lines().next().unwrap_or_default();
    if let Some(version) = versions::parse(first) {
        assert_eq!(versions::parse(&version.to_string()), Some(version.clone()));
        assert_eq!(versions::highest([first].into_iter()), Some(first));
    }
    if let Ok(release) = first.parse::<versions::Release>() {
        assert_eq!(release.number().parse(), Ok(release));
    }
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if let Ok(question) = Question::parse(&words) {
        assert!(!question.name.is_empty());
    }
    let _ = cli::parse(words.iter().cloned());
    if text.len() < 200 {
        let _ = filter(&text);
    }
    if let Some(program) = command::program(&text) {
        assert!(text.contains(program));
    }
    for folder in command::log_folders(&text) {
        assert!(text.contains(folder));
    }
    assert!(command::same_path(&text, &text));
    let _ = paths::to_sftp(&text);
    let _ = driver_flags(&json!({"args": words, "command": [text.clone()]}));

    for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::OK] {
        let answer = Response::builder()
            .status(status)
            .header("Retry-After", bytes);
        if let Ok(answer) = answer.body(()) {
            let asked = retry_after(&answer);
            assert!(asked.is_none() || status != StatusCode::OK);
        }
    }
}
