//! The output for whole clusters, for people and programs, character by character.

use insta::assert_snapshot;

use crate::run::{Ended, FOLDERS, check_in, input};

#[test]
fn tables_messages_and_json() {
    for folder in FOLDERS {
        let judged = |format| check_in(&input(), &["-f", folder, "-o", format]);
        let Ended {
            status,
            stdout,
            stderr,
        } = judged("table");
        let shown = format!("{stdout}--- standard error\n{stderr}--- exit status {status:?}\n");
        assert_snapshot!(format!("table_{folder}"), shown);
        let json = judged("json");
        assert_eq!(json.status, status);
        assert_snapshot!(format!("json_{folder}"), json.stdout);
    }
}
