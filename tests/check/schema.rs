//! The JSON schema of the report, which programs may rely on: `docs/report.schema.json`.

use std::path::{Path, PathBuf};

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use windows_storage_operator::assess::report::ReadinessReport;

use crate::run::{FOLDERS, check_in, input};

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/report.schema.json")
}

/// `INSTA_UPDATE=always` writes the file anew, as it does snapshots.
#[test]
fn the_file_is_what_the_code_makes() {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings
        .into_generator()
        .into_root_schema_for::<ReadinessReport>();
    let made = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let is_current = std::fs::read_to_string(file()).is_ok_and(|text| text == made);
    if !is_current && std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(file(), &made).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file()).unwrap(), made);
}

/// Returns the first place of a report that is not as the schema in the file says.
pub fn fault_of(report: &Value) -> Option<String> {
    let root = serde_json::from_str(&std::fs::read_to_string(file()).unwrap()).unwrap();
    fault(&root, &root, report, "the report")
}

/// Returns the first place where a value is not as a part of the schema says. A field that the schema does not name is
/// wrong, and a word of the schema that is not known here is an error.
fn fault(root: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    let words = schema.as_object().unwrap();
    words.iter().find_map(|(word, says)| {
        let wrong = || Some(format!("{at} is {value}, but {word} is {says}"));
        match word.as_str() {
            "type" => (!types(says).any(|type_| is_of(value, type_))).then(wrong)?,
            "const" => (value != says).then(wrong)?,
            "enum" => (!says.as_array().unwrap().contains(value)).then(wrong)?,
            "minimum" => (value.as_i64() < says.as_i64()).then(wrong)?,
            "$ref" => {
                let place = says.as_str().unwrap().trim_start_matches('#');
                fault(root, root.pointer(place).unwrap(), value, at)
            }
            "anyOf" | "oneOf" => {
                let ways = says.as_array().unwrap().iter();
                let fits = ways.filter(|way| fault(root, way, value, at).is_none());
                let fits = fits.count();
                (fits == 0 || fits > 1 && word == "oneOf").then(wrong)?
            }
            "items" => {
                let mut items = value.as_array().into_iter().flatten().enumerate();
                items.find_map(|(nth, item)| fault(root, says, item, &format!("{at}/{nth}")))
            }
            "required" => {
                let names = says.as_array().unwrap().iter();
                let mut names = names.map(|name| name.as_str().unwrap());
                names.any(|name| value.get(name).is_none()).then(wrong)?
            }
            "properties" => {
                let mut fields = value.as_object().into_iter().flatten();
                fields.find_map(|(name, value)| match says.get(name) {
                    Some(says) => fault(root, says, value, &format!("{at}/{name}")),
                    None => Some(format!("{at} has {name}")),
                })
            }
            "$schema" | "$defs" | "title" | "description" | "format" => None,
            other => unreachable!("{other}"),
        }
    })
}

/// Returns the one type that a schema names, or all of them.
fn types(says: &Value) -> impl Iterator<Item = &str> {
    let all = says
        .as_array()
        .map_or(std::slice::from_ref(says), Vec::as_slice);
    all.iter().map(|type_| type_.as_str().unwrap())
}

fn is_of(value: &Value, type_: &str) -> bool {
    match type_ {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => unreachable!("{other}"),
    }
}

#[test]
fn reports_are_as_the_file_says_and_what_is_not_is_found() {
    for folder in FOLDERS {
        let report = check_in(&input(), &["-f", folder, "-o", "json"]).json();
        assert_eq!(fault_of(&report), None, "{folder}");
        for (place, value) in [
            ("/verdict", Value::Null),
            ("/verdict/reason", json!("Nonsense")),
            ("/about/time", json!(7)),
            ("/about/files/0", Value::Null),
            ("/cluster/windowsNodes", json!(-1)),
            ("/volumes/0/redirected", json!("yes")),
            ("/volumes/0/workload", json!({"kind": "Pod", "name": "web"})),
            ("/volumes/0/workload/more", json!(1)),
        ] {
            let mut wrong = report.clone();
            match wrong.pointer_mut(place) {
                Some(there) => *there = value,
                None => wrong["volumes"][0]["workload"]["more"] = value,
            }
            assert!(fault_of(&wrong).is_some(), "{place}");
        }
    }
}
