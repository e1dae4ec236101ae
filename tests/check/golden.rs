//! The output for whole clusters, for people and programs, character by character.

use insta::assert_snapshot;

use crate::run::{Ended, FOLDERS, check_in, input, without_time};

#[test]
fn tables_messages_and_json() {
    for folder in FOLDERS {
        let judged = |format| check_in(&input(), &["-f", folder, "-o", format]);
        let Ended {
            status,
            stdout,
            stderr,
        } = judged("table");
        let stdout = without_time(&stdout, " at ");
        let shown = format!("{stdout}--- standard error\n{stderr}--- exit status {status:?}\n");
        assert_snapshot!(format!("table_{folder}"), shown);
        let json = judged("json");
        assert_eq!(json.status, status);
        let shown = without_time(&json.stdout, "\"time\": \"");
        assert_snapshot!(format!("json_{folder}"), shown);
    }
}
