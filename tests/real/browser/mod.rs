//! Tests the report page in a real browser: its accessibility, on a phone too, and that it runs nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod looks;
mod says;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testbed::commands::printed;

/// Holds each page in a frame, because a headless Chromium has no narrower window, and keeps its answer.
const KEEP: &str = "<!DOCTYPE html><body><script>onmessage = it => {\
    for (let i = 0; i < frames.length; i++) if (frames[i] === it.source) document.body.dataset['page' + i] = it.data }</script>";
/// Sends the answer as the numbers of its letters, which no markup can change.
const ASK: &str = "<script>onload = () => parent.postMessage([...JSON.stringify(ANSWER)].map(it => it.codePointAt(0)).join(), '*')</script></head>";

/// The colour scheme that the reader prefers, as Chromium numbers it.
const DARK: u8 = 0;
const LIGHT: u8 = 1;
const DESK: u32 = 1200;

/// A cluster's report as a page.
struct Report(String);

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
        let mut check = Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"));
        check.args(["check", "-o", "html", "-f"]).arg(input);
        let page = String::from_utf8(check.output().unwrap().stdout).unwrap();
        assert!(page.contains("</html>"), "{page}");
        Self(page)
    }
}

/// Evaluates an expression in each page. Its policy is taken away, so that anything that it kept from being run is. They
/// share a browser, because each takes a second of CPU time to start.
fn ask(reports: &[Report], width: u32, scheme: u8, expression: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| -> PathBuf { folder.path().join(name) };
    let mut frame = KEEP.to_owned();
    for (number, Report(page)) in reports.iter().enumerate() {
        let page = page.replace("http-equiv=\"Content-Security-Policy\"", "name=\"policy\"");
        let page = page.replace("</head>", &ASK.replace("ANSWER", expression));
        std::fs::write(file(&format!("{number}.html")), page).unwrap();
        frame = format!(
            "{frame}<iframe src={number}.html width={width} height=800 style='border: 0'></iframe>"
        );
    }
    std::fs::write(file("frame.html"), frame).unwrap();
    let mut chromium = Command::new("timeout");
    // `--no-sandbox`, because Chromium's sandbox does not work for root and in many containers.
    let flags = "120 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
        --window-size=1300,900 --virtual-time-budget=10000 --dump-dom";
    chromium
        .args(flags.split_whitespace())
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("--user-data-dir={}", file("profile").display()))
        .arg(file("frame.html"))
        .env("HOME", folder.path());
    let shown = printed(&mut chromium).unwrap();
    let answer = |number| {
        let (_, answer) = shown.split_once(&format!("data-page{number}=\"")).unwrap();
        let (answer, _) = answer.split_once('"').unwrap();
        let letters = answer.split(',').map(|number| number.parse().unwrap());
        let letters = letters.map(|number| char::from_u32(number).unwrap());
        serde_json::from_str(&letters.collect::<String>()).unwrap()
    };
    (0..reports.len()).map(answer).collect()
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
