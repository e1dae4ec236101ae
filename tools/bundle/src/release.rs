//! Changes the tree to a new release: every place that contains the version, in one step.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use semver::{Version, VersionReq};

use crate::releases::{Published, Release, Releases};
use crate::sources::text;
use crate::write;

const WORKSPACE: &str = "Cargo.toml";

/// Writes the release to the list of releases, the workspace, the bundle, the catalog's template and the kustomization,
/// and returns the files that it changed. A second run changes nothing.
///
/// OLM may upgrade directly to the release from the versions in `skip_range`: a range such as `>=0.2.0 <0.4.0`, `none`,
/// or by default every earlier release of the same major version.
///
/// # Errors
/// Fails if the version is lower than the newest one, or if a file cannot be read or written. Nothing is written before
/// everything is rendered.
pub fn cut_release(
    root: &Path,
    version: &Version,
    created_at: String,
    skip_range: Option<&str>,
    published: Published,
) -> Result<Vec<PathBuf>> {
    ensure!(
        version.build.is_empty(),
        "VERSION {version} has build metadata, and Kubernetes allows no + in a name"
    );
    let mut releases = Releases::read(root)?;
    let newest = releases.newest().version.clone();
    ensure!(
        *version >= newest,
        "VERSION {version} is not above {newest}, the newest release"
    );
    if *version > newest {
        let range = match skip_range {
            None | Some("") => releases
                .oldest_of_major(version.major)
                .map(|oldest| format!(">={oldest} <{version}")),
            Some("none") => None,
            Some(range) => Some(range.to_owned()),
        };
        if let Some(range) = &range {
            check_range(range, version)?;
        }
        let release = Release {
            version: version.clone(),
            created_at,
            image: String::new(),
            must_gather_image: None,
            replaces: Some(newest),
            skip_range: range,
            max_openshift_version: None,
            repository: None,
        };
        releases.releases.insert(0, release);
    }
    releases.publish(published);

    let mut files = releases.render(root)?;
    files.insert(
        WORKSPACE.into(),
        set_workspace_version(&text(root, WORKSPACE)?, version)?,
    );
    let mut changed = write::write(root, &files)?;
    let lock = root.join("Cargo.lock");
    let before = std::fs::read(&lock).ok();
    update_lock(root)
        .context("the release is written but for Cargo.lock: run cargo update --workspace")?;
    if std::fs::read(&lock).ok() != before {
        changed.push("Cargo.lock".into());
    }
    Ok(changed)
}

/// Checks a range. OLM accepts comparisons separated by spaces, and `||` between alternatives.
fn check_range(range: &str, version: &Version) -> Result<()> {
    for alternative in range.split("||") {
        let words: Vec<&str> = alternative.split_whitespace().collect();
        let is_comparison =
            |word: &&str| word.starts_with(['<', '>', '=']) || word.starts_with("!=");
        if let Some(other) = words.iter().find(|word| !is_comparison(word)) {
            bail!(
                "SKIP_RANGE {range:?} has {other:?}, which OLM does not know: write comparisons such as \">=0.1.0 <{version}\""
            );
        }
        let requirement = VersionReq::parse(&words.join(", ")).with_context(|| {
            format!("SKIP_RANGE {range:?} is not a range such as \">=0.1.0 <{version}\"")
        })?;
        ensure!(
            !words.is_empty() && !requirement.matches(version),
            "SKIP_RANGE {range:?} contains {version} itself: end it with <{version}"
        );
    }
    Ok(())
}

/// Sets the version of the workspace, which the agent and all other members inherit.
fn set_workspace_version(text: &str, version: &Version) -> Result<String> {
    let key = "\n[workspace.package]\nversion = \"";
    let parts = text.split_once(key);
    let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once('"')?.1)));
    let (before, after) = parts.with_context(|| {
        format!("{WORKSPACE}: [workspace.package] does not begin with a version")
    })?;
    Ok(format!("{before}{key}{version}\"{after}"))
}

/// Updates Cargo.lock, which also contains the version of each member.
fn update_lock(root: &Path) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["update", "--workspace", "--offline", "--quiet"])
        .current_dir(root)
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_one_that_olm_takes_and_ends_before_the_release() {
        let version = Version::new(0, 4, 0);
        for range in [">=0.1.0 <0.4.0", "<0.2.0 || >=0.3.0 <0.4.0", "=0.1.0"] {
            check_range(range, &version).unwrap();
        }
        for range in [
            "",
            "^0.1.0",
            "~0.1",
            "0.1.0",
            ">=0.1.0",
            ">=0.1.0 <0.4.0 || ",
            "before",
            "<=0.4.0",
        ] {
            assert!(check_range(range, &version).is_err(), "{range:?}");
        }
    }
}
