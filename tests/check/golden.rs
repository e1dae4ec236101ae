//! The output for whole clusters, for people and programs, character by character.

use insta::assert_snapshot;

use crate::run::{Ended, FOLDERS, check_in, input};

/// Replaces the time at which the report says that it was made.
fn without_time(text: &str, made: &str) -> String {
    assert!(
        made.len() == "2026-01-01T00:00:00Z".len() && text.contains(made),
        "{made}: {text}"
    );
    text.replace(made, "TIME")
}

/// Returns the time that the table's last line names.
fn time_of(table: &str) -> &str {
    let (_, rest) = table.rsplit_once(" at ").unwrap();
    rest.split(' ').next().unwrap()
}

#[test]
fn tables_messages_and_json() {
    for folder in FOLDERS {
        let judged = |format| check_in(&input(), &["-f", folder, "-o", format]);
        let Ended {
            status,
            stdout,
            stderr,
        } = judged("table");
        let stdout = without_time(&stdout, time_of(&stdout));
        let shown = format!("{stdout}--- standard error\n{stderr}--- exit status {status:?}\n");
        assert_snapshot!(format!("table_{folder}"), shown);
        let json = judged("json");
        assert_eq!(json.status, status);
        let report = json.json();
        let made = report["about"]["time"].as_str().unwrap();
        assert_snapshot!(format!("json_{folder}"), without_time(&json.stdout, made));
    }
}
