//! Renders `docs/configuration.md`, the reference of all settings, from the CRD `WindowsStorage`.

use std::path::Path;

use anyhow::{Context, Result};
use serde_yaml::{Mapping, Value};

use crate::sources;

/// The path of the page, relative to the project's folder.
pub const PAGE: &str = "docs/configuration.md";
const TEMPLATE: &str = include_str!("configuration.md.in");
const HEADS: [&str; 4] = ["Field", "Values", "Default", "Description"];

/// Renders the page.
///
/// # Errors
/// Fails if the CRD cannot be read, or if a field has no description.
pub fn configuration(root: &Path) -> Result<String> {
    let spec = &sources::settings_schema(root)?;
    let object = sources::object([("spec", defaults(spec))]);
    let mut tables = String::new();
    let mut plain = Vec::new();
    for (name, field) in fields(spec) {
        let mut rows = Vec::new();
        collect(name, field, &mut rows)?;
        // A field without subfields becomes a row of the last table.
        if let [only] = rows.as_slice() {
            plain.push(only.clone());
        } else {
            let about = description(name, field)?;
            tables.extend([
                "## `",
                name,
                "`\n\n",
                &about,
                "\n\n",
                &table(HEADS, &rows),
                "\n",
            ]);
        }
    }
    tables.extend(["## Other fields\n\n", &table(HEADS, &plain)]);
    Ok(TEMPLATE
        .replace("{defaults}", &serde_yaml::to_string(&object)?)
        .replace("{fields}", &tables))
}

pub(crate) fn fields(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let fields = schema.get("properties").and_then(Value::as_mapping);
    let fields = fields.into_iter().flatten();
    fields.filter_map(|(name, field)| Some((name.as_str()?, field)))
}

/// Returns the defaults of an object's fields.
fn defaults(schema: &Value) -> Value {
    let of_field =
        |(name, field): (&str, &Value)| Some((name.into(), field.get("default")?.clone()));
    Value::Mapping(fields(schema).filter_map(of_field).collect::<Mapping>())
}

/// Adds one row for each field without subfields.
fn collect(path: &str, field: &Value, rows: &mut Vec<[String; 4]>) -> Result<()> {
    let item = field
        .get("items")
        .filter(|item| fields(item).next().is_some());
    let object = item.unwrap_or(field);
    if fields(object).next().is_none() {
        let default = field.get("default").map(code).unwrap_or_default();
        rows.push([
            format!("`{path}`"),
            values(field),
            default,
            description(path, field)?,
        ]);
        return Ok(());
    }
    let list = if item.is_some() { "[]" } else { "" };
    for (name, field) in fields(object) {
        collect(&format!("{path}{list}.{name}"), field, rows)?;
    }
    Ok(())
}

pub(crate) fn description(path: &str, field: &Value) -> Result<String> {
    let text = field.get("description").and_then(Value::as_str);
    let text = text.with_context(|| format!("{path} has no description"))?;
    Ok(text.replace('\n', " ").replace('|', "\\|"))
}

/// Returns a description of the allowed values.
fn values(field: &Value) -> String {
    let limit = |key: &str| field.get(key).and_then(Value::as_f64);
    if let Some(values) = field.get("enum").and_then(Value::as_sequence) {
        return values.iter().map(code).collect::<Vec<_>>().join(", ");
    }
    if field.get("x-kubernetes-int-or-string").is_some() {
        return "a number or a percentage".to_owned();
    }
    match field
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
    {
        "boolean" => "`true`, `false`".to_owned(),
        "integer" => match (limit("minimum"), limit("maximum")) {
            (Some(least), Some(most)) => format!("{least} to {most}"),
            _ => "a number".to_owned(),
        },
        "array" => "a list".to_owned(),
        "object" => "labels".to_owned(),
        _ => "text".to_owned(),
    }
}

fn code(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        value => serde_yaml::to_string(value).unwrap_or_default(),
    };
    format!("`{}`", text.trim())
}

pub(crate) fn table<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> String {
    let line = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
    let mut table = line(&heads) + &line(&["---"; N]);
    for row in rows {
        table += &line(&row.each_ref().map(String::as_str));
    }
    table
}
