//! The chart's values, their schema and the chart's README, from `manifests/helm/values.schema.json`.

use std::path::Path;

use anyhow::Result;
use serde_yaml::Value;

use crate::image;
use crate::reference::{description, fields, table};
use crate::releases::Release;
use crate::sources::{GENERATED, mapping_at, text, yaml};

const SCHEMA: &str = "manifests/helm/values.schema.json";
const README: &str = "manifests/helm/README.md.in";
const WIDTH: usize = 120;

pub(crate) struct Values {
    schema: Value,
    readme: String,
}

impl Values {
    /// Reads the schema, with the images of the release as defaults.
    pub(crate) fn of(root: &Path, release: &Release) -> Result<Self> {
        let mut schema: Value = yaml(root, SCHEMA)?;
        let (name, tag, digest) = image::parse(&release.image)?;
        for (path, value) in [
            ("image.properties.repository", name),
            ("image.properties.tag", tag.unwrap_or_default()),
            ("image.properties.digest", digest.unwrap_or_default()),
            ("mustGather.properties.image", &release.must_gather()?),
        ] {
            let field = mapping_at(&mut schema, &format!("properties.{path}"), SCHEMA)?;
            field.insert("default".into(), value.into());
        }
        let readme = text(root, README)?;
        Ok(Self { schema, readme })
    }

    pub(crate) fn schema(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(&self.schema)? + "\n")
    }

    pub(crate) fn yaml(&self) -> Result<String> {
        let mut lines = vec![GENERATED.trim_end().to_owned()];
        write(&self.schema, "", &mut lines)?;
        Ok(lines.join("\n") + "\n")
    }

    pub(crate) fn readme(&self) -> Result<String> {
        let mut rows = Vec::new();
        collect(&self.schema, "", &mut rows)?;
        let table = table(["Value", "Default", "Description"], &rows);
        Ok(self.readme.replace("{values}", &table))
    }
}

/// Adds the fields below a schema, each with its description and default.
fn write(schema: &Value, indent: &str, lines: &mut Vec<String>) -> Result<()> {
    for (name, field) in fields(schema) {
        let default = field.get("default");
        if default.is_none() && fields(field).next().is_none() {
            continue;
        }
        lines.extend(indent.is_empty().then(String::new));
        comment(&description(name, field)?, indent, lines);
        let Some(default) = default else {
            lines.push(format!("{indent}{name}:"));
            write(field, &format!("{indent}  "), lines)?;
            continue;
        };
        let text = serde_yaml::to_string(default)?;
        let text = text.trim_end();
        let is_empty = matches!(default, Value::Mapping(it) if it.is_empty())
            || matches!(default, Value::Sequence(it) if it.is_empty());
        if is_empty || !(default.is_mapping() || default.is_sequence()) {
            lines.push(format!("{indent}{name}: {text}"));
        } else {
            lines.push(format!("{indent}{name}:"));
            lines.extend(text.lines().map(|line| format!("{indent}  {line}")));
        }
    }
    Ok(())
}

fn comment(text: &str, indent: &str, lines: &mut Vec<String>) {
    let mut line = format!("{indent}#");
    for word in text.split(' ') {
        if line.len() + word.len() >= WIDTH {
            lines.push(line);
            line = format!("{indent}#");
        }
        line.extend([" ", word]);
    }
    lines.push(line);
}

/// Adds a row for each field that has a default.
fn collect(schema: &Value, path: &str, rows: &mut Vec<[String; 3]>) -> Result<()> {
    for (name, field) in fields(schema) {
        let path = format!("{path}{name}");
        match field.get("default") {
            Some(default) => {
                let default = serde_json::to_string(default)?;
                let about = description(&path, field)?;
                rows.push([format!("`{path}`"), format!("`{default}`"), about]);
            }
            None => collect(field, &format!("{path}."), rows)?,
        }
    }
    Ok(())
}
