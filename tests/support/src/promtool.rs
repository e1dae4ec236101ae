//! Checks metrics and rules with Prometheus' own `promtool`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// Runs promtool in this folder with this standard input. Returns whether it succeeded, and its output.
pub fn promtool(arguments: &[&str], folder: &Path, input: &[u8]) -> Result<(bool, String)> {
    let mut child = Command::new("promtool")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("promtool is not there: make setup")?;
    let mut stdin = child
        .stdin
        .take()
        .context("promtool has no standard input")?;
    stdin.write_all(input)?;
    drop(stdin);
    let output = child.wait_with_output()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Ok((output.status.success(), said))
}

/// Returns OpenMetrics in Prometheus' older format, the only one that promtool checks: there a counter's own name ends in
/// `_total`.
pub fn as_older_format(text: &str) -> String {
    let counter = |line: &str| {
        Some(
            line.strip_prefix("# TYPE ")?
                .strip_suffix(" counter")?
                .to_owned(),
        )
    };
    let counters: Vec<String> = text.lines().filter_map(counter).collect();
    let convert = |line: &str| match line.splitn(4, ' ').collect::<Vec<_>>()[..] {
        ["#", what, name, more] if counters.iter().any(|counter| counter == name) => {
            format!("# {what} {name}_total {more}\n")
        }
        _ => format!("{line}\n"),
    };
    text.lines()
        .filter(|line| *line != "# EOF")
        .map(convert)
        .collect()
}
