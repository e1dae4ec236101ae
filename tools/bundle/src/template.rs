//! Converts an object to a Helm template.
//!
//! An object cannot contain template actions that stand for more or less than one string. Therefore marks are put into
//! it first, as strings that begin with `@`, and are replaced by actions in the finished YAML:
//!
//! | mark | becomes |
//! |---|---|
//! | `KEY: "@value EXPRESSION"` | the value of the expression |
//! | `KEY: "@with EXPRESSION => TEXT"`, or an item of a list | the key or item with the text, in which `.` is the expression, unless that is empty |
//! | `KEY: "@block EXPRESSION"` | the key with the map or list, unless that is empty |
//! | `- "@block EXPRESSION"`, `"@block EXPRESSION": ""` | the items of the list, the members of the map |

use anyhow::{Context, Result, bail};

/// Converts YAML with marks to a template.
pub(crate) fn fill(yaml: &str) -> Result<String> {
    let mut lines = Vec::new();
    for line in yaml.lines() {
        match line.split_once("'@") {
            Some((before, mark)) => {
                let mark = mark.trim_end_matches(": ''").trim_end_matches('\'');
                fill_line(&mut lines, before, mark).with_context(|| line.to_owned())?;
            }
            None => lines.push(line.to_owned()),
        }
    }
    Ok(lines.join("\n") + "\n")
}

fn fill_line(lines: &mut Vec<String>, before: &str, mark: &str) -> Result<()> {
    let key = before.trim_start();
    let indent = before.len() - key.len();
    let spaces = " ".repeat(indent);
    let mut within = |expression: &str, inner: &[String]| {
        lines.push(format!("{spaces}{{{{- with {expression} }}}}"));
        lines.extend_from_slice(inner);
        lines.push(format!("{spaces}{{{{- end }}}}"));
    };
    match mark.split_once(' ') {
        Some(("value", expression)) => lines.push(format!("{before}{{{{ {expression} }}}}")),
        Some(("with", rest)) => {
            let (expression, text) = rest.split_once(" => ").context("has no =>")?;
            within(expression, &[format!("{before}{text}")]);
        }
        Some(("block", expression)) => {
            let block = |by: usize| {
                let spaces = " ".repeat(by);
                format!("{spaces}{{{{- toYaml . | nindent {by} }}}}")
            };
            match key.trim_end() {
                "" | "-" => within(expression, &[block(indent)]),
                key => within(expression, &[format!("{spaces}{key}"), block(indent + 2)]),
            }
        }
        _ => bail!("is no mark that tools/bundle knows"),
    }
    Ok(())
}
