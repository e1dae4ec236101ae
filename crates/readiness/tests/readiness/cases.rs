//! Handwritten clusters, one per rule of the contract, with the expected report: `cases/*.yaml`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::findings;
use crate::oracle::{expect_for, expect_of_files};
use crate::run::{Subject, comparable, disagreement, fresh};

const OBJECTS: &str = include_str!("cases/objects.yaml");
const CASES: [&str; 6] = [
    include_str!("cases/verdict.yaml"),
    include_str!("cases/versions.yaml"),
    include_str!("cases/workloads.yaml"),
    include_str!("cases/owners.yaml"),
    include_str!("cases/volumes.yaml"),
    include_str!("cases/drivers.yaml"),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    pub objects: Vec<Value>,
    /// The target version, if any.
    #[serde(default)]
    pub to: Option<String>,
    /// Parts of the oracle's result. Objects may omit keys; lists must be complete.
    #[serde(default)]
    pub expected: Value,
    /// Whether the objects come from an API server, so that they are complete.
    #[serde(default)]
    pub live: bool,
    /// Expected findings: place, code, object and words of the message.
    #[serde(default)]
    pub says: Vec<Vec<String>>,
    /// A place, and codes that must not be found there.
    #[serde(default)]
    pub silent: Vec<Vec<String>>,
    /// Tables. Each combination of their rows is one case, with the row's values for `$1`, `$2`, ….
    #[serde(default)]
    each: Vec<Vec<Vec<Value>>>,
}

/// Returns the cases that the oracle can evaluate.
pub fn all() -> Vec<Case> {
    read(&CASES)
}

/// Returns the cases of findings, which the oracle does not compute.
pub fn findings() -> Vec<Case> {
    read(&[
        include_str!("cases/findings.yaml"),
        include_str!("cases/daemon_sets.yaml"),
    ])
}

/// Expands objects as cases write them.
pub fn objects_of(written: &Value) -> Vec<Value> {
    objects(written.clone(), &serde_yaml::from_str(OBJECTS).unwrap())
}

fn read(texts: &[&str]) -> Vec<Case> {
    let known: BTreeMap<String, Value> = serde_yaml::from_str(OBJECTS).unwrap();
    let mut cases = Vec::new();
    for text in texts {
        for case in serde_yaml::from_str::<Vec<Case>>(text).unwrap() {
            let mut rows = vec![Vec::new()];
            for table in &case.each {
                let with =
                    |row: &Vec<Value>| table.iter().map(|more| [&row[..], more].concat()).collect();
                rows = rows.iter().flat_map::<Vec<_>, _>(with).collect();
            }
            cases.extend(rows.iter().map(|row| {
                Case {
                    name: text_in_row(&case.name, row),
                    objects: case
                        .objects
                        .iter()
                        .flat_map(|object| objects(in_row(object, row), &known))
                        .collect(),
                    to: case.to.as_deref().map(|to| text_in_row(to, row)),
                    expected: in_row(&case.expected, row),
                    live: case.live,
                    says: texts_in_row(&case.says, row),
                    silent: texts_in_row(&case.silent, row),
                    each: Vec::new(),
                }
            }));
        }
    }
    cases
}

/// Replaces `$1`, `$2`, … with the row's values.
fn in_row(value: &Value, row: &[Value]) -> Value {
    match value {
        Value::String(text) => {
            let whole = text
                .strip_prefix('$')
                .and_then(|number| number.parse::<usize>().ok());
            whole.map_or_else(
                || text_in_row(text, row).into(),
                |number| in_row(&row[number - 1], row),
            )
        }
        Value::Array(items) => items.iter().map(|item| in_row(item, row)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(key, value)| (text_in_row(key, row), in_row(value, row)))
                .collect()
        }
        other => other.clone(),
    }
}

fn texts_in_row(table: &[Vec<String>], row: &[Value]) -> Vec<Vec<String>> {
    let texts = |texts: &Vec<String>| texts.iter().map(|text| text_in_row(text, row)).collect();
    table.iter().map(texts).collect()
}

fn text_in_row(text: &str, row: &[Value]) -> String {
    row.iter()
        .zip(1..)
        .fold(text.to_owned(), |text, (value, number)| {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            text.replace(&format!("${number}"), &value)
        })
}

/// Expands an object given by name or written out, once per entry of `names` if it has that; or a list of those.
fn objects(written: Value, known: &BTreeMap<String, Value>) -> Vec<Value> {
    if let Value::Array(list) = written {
        return list
            .into_iter()
            .flat_map(|written| objects(written, known))
            .collect();
    }
    let mut object = whole(written, known);
    let Some(names) = object.as_object_mut().unwrap().remove("names") else {
        return vec![object];
    };
    let of_name = |name: &Value| {
        object["metadata"]["name"] = name.clone();
        object.clone()
    };
    names.as_array().unwrap().iter().map(of_name).collect()
}

fn whole(written: Value, known: &BTreeMap<String, Value>) -> Value {
    match written {
        Value::String(name) => whole(known[&name].clone(), known),
        Value::Object(mut fields) => match fields.remove("like") {
            Some(like) => over(whole(like, known), Value::Object(fields)),
            None => Value::Object(fields),
        },
        other => other,
    }
}

/// Merges `second` over `first`.
pub fn over(first: Value, second: Value) -> Value {
    match (first, second) {
        (Value::Object(mut first), Value::Object(second)) => {
            for (key, value) in second {
                let before = first.remove(&key).unwrap_or_default();
                first.insert(key, over(before, value));
            }
            Value::Object(first)
        }
        (_, second) => second,
    }
}

/// Returns a subject's failures, prefixed with the name of the case.
pub fn failures(make: impl Fn() -> Box<dyn Subject>) -> Vec<String> {
    let mut failures = Vec::new();
    for case in all() {
        let target = case.to.as_deref();
        let report = fresh(&make, &case.objects, target);
        let expected = expect_for(&case.objects, target);
        failures.extend(failure(&case, &expected, &report));
    }
    failures
}

/// Returns the failures where the objects are files: `cases/files.yaml`.
pub fn failures_of_files() -> Vec<String> {
    let cases = read(&[include_str!("cases/files.yaml")]);
    let cases = cases.into_iter().filter_map(|case| {
        let report = findings::report(&case.objects, false, None);
        let message = report["verdict"]["message"].as_str().unwrap();
        let unsaid = case.says.iter().flatten();
        let unsaid = unsaid.filter(|words| !message.contains(&***words));
        let unsaid: Vec<_> = unsaid.collect();
        let unsaid = (!unsaid.is_empty())
            .then(|| format!("{}: {unsaid:?} is not in {message:?}", case.name));
        failure(&case, &expect_of_files(&case.objects, None), &report).or(unsaid)
    });
    cases.collect()
}

fn failure(case: &Case, expected: &Value, report: &Value) -> Option<String> {
    let mut got = comparable(report);
    got["verdict"]["message"] = report["verdict"]["message"].clone();
    let wrong = mismatch("", &case.expected, &got).or_else(|| disagreement(expected, report))?;
    Some(format!("{}: {wrong}", case.name))
}

/// Returns the first place where `got` differs from `expected`.
pub fn mismatch(at: &str, expected: &Value, got: &Value) -> Option<String> {
    match (expected, got) {
        (Value::Object(wanted), Value::Object(there)) => wanted.iter().find_map(|(key, wanted)| {
            let got = there
                .get(key)
                .or_else(|| there.get("message").filter(|_| key == "messageEnd"));
            let ends = key == "messageEnd"
                && got
                    .and_then(Value::as_str)
                    .is_some_and(|text| text.ends_with(wanted.as_str().unwrap_or("?")));
            if ends {
                None
            } else {
                mismatch(&format!("{at}/{key}"), wanted, got.unwrap_or(&Value::Null))
            }
        }),
        (Value::Array(wanted), Value::Array(there)) if wanted.len() == there.len() => wanted
            .iter()
            .zip(there)
            .enumerate()
            .find_map(|(index, (wanted, got))| mismatch(&format!("{at}/{index}"), wanted, got)),
        _ => (expected != got).then(|| format!("{at}: expected {expected}, got {got}")),
    }
}
