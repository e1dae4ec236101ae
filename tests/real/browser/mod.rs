//! Tests the report page in a real browser: its content, on a phone too, and its accessibility.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod devtools;
mod looks;
mod says;

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// A cluster's report as a page.
struct Report(TempDir);

impl Report {
    /// Creates the report on a sample of the project.
    fn of_sample(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check/input");
        Self::of(&folder.join(name))
    }

    /// Creates the report on one file with this content.
    fn of_text(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("all.yaml"), text).unwrap();
        Self::of(folder.path())
    }

    fn of(input: &Path) -> Self {
        let output = Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"))
            .args(["check", "-o", "html", "-f"])
            .arg(input)
            .output()
            .unwrap();
        assert!(!output.stdout.is_empty(), "{output:?}");
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("report.html"), output.stdout).unwrap();
        Self(folder)
    }

    /// Returns the URL of the page.
    fn url(&self) -> String {
        format!("file://{}/report.html", self.0.path().display())
    }
}

/// Creates a report with hostile names: markup, direction marks, and no place to break a line.
fn hostile() -> Report {
    let markup =
        r#"\"><script>window.pwned=1</script><img src=x onerror=\"window.pwned=2\"><b>bold</b>"#;
    let text = include_str!("hostile.yaml")
        .replace("MARKUP", markup)
        .replace("TURNED", r"\u202Egpj.exe\u2066")
        .replace("LONG", &"n".repeat(250));
    Report::of_text(&text)
}
