//! Finds the real programs that tests start.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Returns the path of a part, and builds the part first if necessary. `tools/part --list` names the parts.
///
/// Progress goes to standard error: the first build of Kubernetes takes minutes.
pub fn part(name: &str) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/part");
    let output = Command::new(&script)
        .arg(name)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {}", script.display()))?;
    if !output.status.success() {
        bail!(
            "tools/part {name}: {}; its standard error says why",
            output.status
        );
    }
    let path = String::from_utf8(output.stdout)
        .with_context(|| format!("the path that tools/part {name} printed"))?;
    Ok(PathBuf::from(path.trim_end_matches('\n')))
}
