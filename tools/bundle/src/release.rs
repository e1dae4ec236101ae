//! The step from one release to the next: every place that names the version, in one go.

use std::path::{Path, PathBuf};
use std::process::Command;

use semver::{Version, VersionReq};

use crate::releases::{Published, Releases};
use crate::sources::{BundleError, text};
use crate::write;

const WORKSPACE: &str = "Cargo.toml";

/// What is asked for.
#[derive(Clone, Debug)]
pub struct NewRelease {
    /// Its version, above that of the newest release; or the same, to do the rest of a step that was interrupted.
    pub version: Version,
    /// When, in RFC 3339.
    pub created_at: String,
    /// From which versions OLM may go straight to this one.
    pub skip: Skip,
    /// Where it is to be had.
    pub published: Published,
}

/// From which versions OLM may go straight to a release, other than the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    /// From every earlier release of the same major version.
    SameMajor,
    /// From none: every installation goes through the release before.
    Nothing,
    /// From those in a range such as `>=0.2.0 <0.4.0`.
    Range(String),
}

/// Writes the release into the list of releases, the workspace, the bundle, the catalog's template and the
/// kustomization, and says which files it changed. A second time it changes nothing.
///
/// # Errors
/// Where the version is not above the last, or a file cannot be read or written. Nothing is written before everything is
/// rendered.
pub fn cut_release(root: &Path, release: NewRelease) -> Result<Vec<PathBuf>, BundleError> {
    let NewRelease {
        version,
        created_at,
        skip,
        published,
    } = release;
    if !version.build.is_empty() {
        return Err(BundleError::Release(format!(
            "VERSION {version} has build metadata, and Kubernetes allows no + in a name"
        )));
    }
    let mut releases = Releases::read(root)?;
    let newest = releases.newest().0.version;
    if version < newest {
        return Err(BundleError::Release(format!(
            "VERSION {version} is not above {newest}, the newest release"
        )));
    }
    if version > newest {
        let range = match skip {
            Skip::SameMajor => releases
                .oldest_of_major(version.major)
                .map(|oldest| format!(">={oldest} <{version}")),
            Skip::Nothing => None,
            Skip::Range(range) => Some(range),
        };
        if let Some(range) = &range {
            check_range(range, &version)?;
        }
        releases.add(version.clone(), created_at, newest, range);
    }
    releases.publish(published);

    let mut files = releases.render(root)?;
    files.insert(
        WORKSPACE.into(),
        set_workspace_version(&text(root, WORKSPACE)?, &version)?,
    );
    let mut changed = write::write(root, &files)?;
    let lock = root.join("Cargo.lock");
    let before = std::fs::read(&lock).ok();
    update_lock(root)?;
    if std::fs::read(&lock).ok() != before {
        changed.push("Cargo.lock".into());
    }
    Ok(changed)
}

/// OLM takes comparisons with spaces between them, and `||` between alternatives.
fn check_range(range: &str, version: &Version) -> Result<(), BundleError> {
    for alternative in range.split("||") {
        let comparators = ["<", ">", "=", "!="];
        if let Some(other) = alternative
            .split_whitespace()
            .find(|word| !comparators.iter().any(|sign| word.starts_with(sign)))
        {
            return Err(BundleError::Release(format!(
                "SKIP_RANGE {range:?} has {other:?}, which OLM does not know: write comparisons such as \">=0.1.0 <{version}\""
            )));
        }
        let comparisons = alternative
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(", ");
        let requirement = VersionReq::parse(&comparisons).map_err(|error| {
            BundleError::Release(format!(
                "SKIP_RANGE {range:?} is not a range such as \">=0.1.0 <{version}\": {error}"
            ))
        })?;
        if comparisons.is_empty() || requirement.matches(version) {
            return Err(BundleError::Release(format!(
                "SKIP_RANGE {range:?} contains {version} itself: end it with <{version}"
            )));
        }
    }
    Ok(())
}

/// The agent and everything else inherits the version of the workspace.
fn set_workspace_version(text: &str, version: &Version) -> Result<String, BundleError> {
    let mut in_package = false;
    let mut set = 0;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            in_package = line == "[workspace.package]";
        }
        if in_package && line.starts_with("version = ") {
            set += 1;
            lines.push(format!("version = \"{version}\""));
        } else {
            lines.push(line.to_owned());
        }
    }
    if set == 1 {
        Ok(lines.join("\n") + "\n")
    } else {
        Err(BundleError::unusable(
            WORKSPACE,
            "has no version under [workspace.package]",
        ))
    }
}

/// Cargo's own lock file names the version of each member too.
fn update_lock(root: &Path) -> Result<(), BundleError> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let failed = |why: String| {
        BundleError::Release(format!(
            "the release is written but for Cargo.lock ({why}): run cargo update --workspace"
        ))
    };
    let output = Command::new(cargo)
        .args(["update", "--workspace", "--offline", "--quiet"])
        .current_dir(root)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(failed(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_version_of_the_workspace_is_set() {
        let text = "[workspace]\nmembers = []\n\n[workspace.package]\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies.x]\nversion = \"1\"\n";
        let version = Version::new(0, 2, 0);
        assert_eq!(
            set_workspace_version(text, &version).unwrap(),
            text.replace("0.1.0", "0.2.0")
        );
        assert!(set_workspace_version("[package]\nversion = \"1\"\n", &version).is_err());
    }

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
