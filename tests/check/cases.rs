//! Command lines on small inputs and their results: `cases.yaml`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::run::{Ended, end, folder, input, objects, program};

#[derive(Deserialize)]
struct Cases {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    files: BTreeMap<String, File>,
    run: String,
    status: i32,
    #[serde(default)]
    prints: Vec<String>,
    #[serde(default)]
    says: Vec<String>,
    #[serde(default)]
    report: Value,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum File {
    Text(String),
    Objects(Vec<Value>),
    Input { of: String, without: Vec<String> },
}

impl File {
    fn text(&self) -> String {
        let documents = |objects: &[Value]| -> String {
            let documents = objects.iter().map(|object| format!("---\n{object}\n"));
            documents.collect()
        };
        match self {
            Self::Text(text) => text.clone(),
            Self::Objects(objects) => documents(objects),
            Self::Input { of, without } => {
                let mut objects = objects(of);
                objects.retain(|object| without.iter().all(|kind| object["kind"] != **kind));
                documents(&objects)
            }
        }
    }
}

/// Returns whether `value` matches. Objects may have fields that are not expected; lists must have the same items.
fn has(value: &Value, expected: &Value) -> bool {
    match (value, expected) {
        (Value::Object(_), Value::Object(fields)) => fields
            .iter()
            .all(|(name, expected)| has(&value[name], expected)),
        (Value::Array(items), Value::Array(expected)) => {
            let mut pairs = items.iter().zip(expected);
            items.len() == expected.len() && pairs.all(|(item, expected)| has(item, expected))
        }
        _ => value == expected,
    }
}

#[test]
fn each_command_line_ends_and_prints_as_its_case_says() {
    let Cases { cases } = serde_yaml::from_str(include_str!("cases.yaml")).unwrap();
    for case in cases {
        let name = &case.name;
        let files = case.files.iter();
        let texts: Vec<_> = files.map(|(name, file)| (&**name, file.text())).collect();
        let texts: Vec<_> = texts.iter().map(|(name, text)| (*name, &**text)).collect();
        let own = folder(&texts);
        std::fs::create_dir(own.path().join("empty")).unwrap();
        let at = if texts.is_empty() {
            input()
        } else {
            own.path().to_owned()
        };
        let ended = end(program(&at).args(case.run.split(' ')));
        assert_eq!(ended.status, Some(case.status), "{name}: {ended:?}");
        let Ended { stdout, stderr, .. } = &ended;
        for (stream, parts) in [(stdout, &case.prints), (stderr, &case.says)] {
            for part in parts {
                let absent = part.strip_prefix("NOT ");
                let is_there = stream.contains(absent.unwrap_or(part));
                assert_eq!(is_there, absent.is_none(), "{name}: {part:?}: {ended:?}");
            }
        }
        if !case.report.is_null() {
            let report = ended.json();
            assert!(has(&report, &case.report), "{name}: {report}");
        }
        match case.status {
            1 if case.run.starts_with("check") => ended.assert_refused(name),
            1 | 2 if case.prints.is_empty() => assert_eq!(stdout, "", "{name}"),
            _ => {}
        }
    }
}
