//! The output for whole clusters, for people and programs, character by character.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use serde_json::Value;

use crate::run::{Ended, FOLDERS, check_in, input};

fn judged(folder: &str, format: &str) -> Ended {
    check_in(&input(), &["-f", folder, "-o", format])
}

/// Returns the exit status that the contract assigns to the verdict.
fn expected_status(report: &Value) -> i32 {
    if report["verdict"]["upgradeable"] == "True" {
        0
    } else {
        3
    }
}

#[test]
fn tables_and_messages() {
    for folder in FOLDERS {
        let Ended {
            status,
            stdout,
            stderr,
        } = judged(folder, "table");
        let shown = format!("{stdout}--- standard error\n{stderr}--- exit status {status:?}\n");
        assert_snapshot!(format!("table_{folder}"), shown);
    }
}

#[test]
fn json() {
    for folder in FOLDERS {
        let ended = judged(folder, "json");
        assert_eq!(ended.status, Some(expected_status(&ended.json())));
        assert_snapshot!(format!("json_{folder}"), ended.stdout);
    }
}

#[test]
fn yaml_says_the_same_as_json() {
    for folder in FOLDERS {
        let yaml = judged(folder, "yaml");
        let json = judged(folder, "json");
        assert_eq!(yaml.status, json.status);
        assert_eq!(yaml.stderr, json.stderr);
        let value: Value = serde_yaml::from_str(&yaml.stdout).unwrap();
        assert_eq!(value, json.json());
    }
    assert_snapshot!("yaml_gce-1.23", judged("gce-1.23", "yaml").stdout);
}

#[test]
fn each_finding_of_the_judgement_is_seen_somewhere() {
    let mut codes = BTreeSet::new();
    for folder in FOLDERS {
        find_codes(&judged(folder, "json").json(), &mut codes);
    }
    let codes: Vec<&str> = codes.iter().map(String::as_str).collect();
    // Codes that need an API server, or that the tests of the causes cover.
    let elsewhere = [
        "CSIProxyNotReady",
        "DaemonSetNotForWindows",
        "DriverNotForVersion",
        "InTreeRecommended",
        "NodeNotReady",
    ];
    let all = windows_storage_operator::assess::codes::CODES.iter();
    let expected: BTreeSet<&str> = all
        .map(|(code, _)| *code)
        .filter(|code| !elsewhere.contains(code))
        .collect();
    assert_eq!(codes, expected.into_iter().collect::<Vec<_>>());
}

fn find_codes(value: &Value, codes: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            codes.extend(
                fields
                    .get("code")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
            fields.values().for_each(|value| find_codes(value, codes));
        }
        Value::Array(items) => items.iter().for_each(|item| find_codes(item, codes)),
        _ => {}
    }
}
