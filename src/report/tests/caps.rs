//! Very many of everything, and very wide ones.

use unicode_width::UnicodeWidthStr;

use super::super::color::{Paint, Tone};
use super::super::grid::{self, Cell};
use super::samples::{self, AZURE_DISK};
use super::{Format, text};
use crate::assess::report::{ReadinessReport, Reason, Upgradeable};

const ALL: &str = "(-o json lists all)";

fn held() -> ReadinessReport {
    samples::report(Upgradeable::False, Reason::DriversMissing, "held")
}

fn nodes(ready: usize, not_ready: usize) -> ReadinessReport {
    let good = (0..ready).map(|number| samples::node(&format!("good-{number:03}"), Some(&[]), &[]));
    let bad = (0..not_ready)
        .map(|number| samples::node(&format!("held-{number:03}"), Some(&[]), &[AZURE_DISK]));
    samples::with_nodes(held(), good.chain(bad).collect())
}

fn volumes(number: usize) -> ReadinessReport {
    let mut report = nodes(0, 1);
    report.drivers = vec![samples::driver(AZURE_DISK, &[], &["held-000"])];
    report.volumes = (0..number)
        .map(|number| {
            let pod = format!("web-{number:02}");
            let plugin = Some("kubernetes.io/azure-disk");
            samples::volume(&pod, "data", plugin, Some(AZURE_DISK), &["held-000"])
        })
        .collect();
    report
}

fn assert_shows(report: &ReadinessReport, there: &[&str], not_there: &[&str]) {
    assert_shows_as(&[Format::Table, Format::Html], report, there, not_there);
}

fn assert_table(report: &ReadinessReport, there: &[&str], not_there: &[&str]) {
    assert_shows_as(&[Format::Table], report, there, not_there);
}

fn assert_page(report: &ReadinessReport, there: &[&str], not_there: &[&str]) {
    assert_shows_as(&[Format::Html], report, there, not_there);
}

fn assert_shows_as(
    formats: &[Format],
    report: &ReadinessReport,
    there: &[&str],
    not_there: &[&str],
) {
    for format in formats.iter().copied() {
        let text = text(report, format);
        for word in there {
            assert!(text.contains(word), "{format:?} without {word}: {text}");
        }
        for word in not_there {
            assert!(!text.contains(word), "{format:?} with {word}: {text}");
        }
    }
}

#[test]
fn volumes_of_a_driver() {
    assert_table(&volumes(20), &["pod/web-19"], &[ALL]);
    let left_out = format!("and 1 more volume {ALL}");
    assert_table(&volumes(21), &["pod/web-19", &left_out], &["web-20"]);
    let left_out = format!("and 2 more volumes {ALL}");
    assert_table(&volumes(22), &[&left_out], &["web-20"]);
}

#[test]
fn few_nodes_are_all_listed_by_name() {
    assert_shows(&nodes(49, 1), &["good-000", "good-048", "held-000"], &[ALL]);
    let text = text(&nodes(49, 1), Format::Table);
    assert!(text.find("good-000") < text.find("held-000"));
}

#[test]
fn of_many_nodes_those_that_are_not_ready_are_listed() {
    let left_out = format!("and 50 more nodes that are ready {ALL}");
    assert_table(&nodes(50, 1), &["held-000", &left_out], &["good-000"]);
    let left_out = format!("and 1 more node that is ready {ALL}");
    assert_table(
        &nodes(1, 50),
        &["held-000", "held-049", &left_out],
        &["good-000"],
    );
    let left_out = format!("and 1 more node that is not ready {ALL}");
    assert_table(&nodes(0, 51), &["held-049", &left_out], &["held-050"]);
    let left_out = format!("and 10 more that are not ready, 540 that are ready {ALL}");
    assert_table(
        &nodes(540, 60),
        &["held-049", &left_out],
        &["held-050", "good-000"],
    );
    let left_out = format!("All 51 are ready {ALL}");
    assert_table(
        &nodes(51, 0),
        &[&left_out],
        &["good-000", "NAME", "Node</th>"],
    );
}

#[test]
fn a_page_that_is_sent_around_shows_hundreds_of_nodes_and_a_thousand_volumes() {
    let last = "<code>pod/web-999</code>";
    assert_page(&volumes(1000), &[last], &[ALL]);
    let left_out = format!("and 1 more volume {ALL}");
    assert_page(&volumes(1001), &[last, &left_out], &["web-1000"]);
    assert_page(
        &nodes(499, 1),
        &["good-000", "good-498", "held-000"],
        &[ALL],
    );
    let left_out = format!("and 500 more nodes that are ready {ALL}");
    assert_page(&nodes(500, 1), &["held-000", &left_out], &["good-000"]);

    // Two drivers share them.
    let mut report = volumes(1200);
    for volume in &mut report.volumes[..600] {
        volume.csi_driver = Some("other.example".to_owned());
    }
    let left_out = format!("and 100 more volumes {ALL}");
    assert_page(
        &report,
        &["pod/web-499<", "pod/web-1099<", &left_out],
        &["pod/web-500<", "pod/web-1100<"],
    );

    // Long names, and all there may be of each.
    let long = |what: &str, number: usize| format!("{what}-{number:04}-{}", "x".repeat(60));
    let mut report = volumes(3000);
    let names = (0..600).map(|number| long("win", number));
    report.nodes = names
        .map(|name| samples::node(&name, Some(&[]), &[AZURE_DISK]))
        .collect();
    report.drivers = (0..30)
        .map(|number| samples::driver(&long("driver", number), &[], &["held-000"]))
        .collect();
    for (number, volume) in report.volumes.iter_mut().enumerate() {
        volume.workload.name = long("web", number);
        volume.persistent_volume_claim = Some(long("claim", number));
        volume.persistent_volume = Some(long("pv", number));
    }
    let page = text(&report, Format::Html);
    assert!(page.len() > 500_000, "{}", page.len());
    assert!(page.len() < 2_000_000, "{}", page.len());
}

#[test]
fn names_in_a_sentence() {
    let names: Vec<String> = (0..11).map(|number| format!("n{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let missing_on = |names: &[&str]| {
        let mut report = volumes(1);
        report.nodes.resize(20, report.nodes[0].clone());
        report.drivers = vec![samples::driver(AZURE_DISK, &[], names)];
        report
    };
    assert_shows(
        &missing_on(&names[..10]),
        &["issing on 10 of 20 Windows nodes: n00", "n08, n09."],
        &[],
    );
    assert_shows(
        &missing_on(&names),
        &[
            "issing on 11 of 20 Windows nodes: n00",
            "n08, n09 and 1 more.",
        ],
        &["n10"],
    );
}

#[test]
fn a_driver_may_be_missing_on_one_some_or_all_nodes() {
    let missing_on = |number: usize| {
        let mut report = volumes(1);
        report.nodes = nodes(3 - number, number).nodes;
        let names = ["held-000", "held-001", "held-002"];
        report.drivers = vec![samples::driver(AZURE_DISK, &[], &names[..number])];
        report
    };
    let one = "issing on 1 of 3 Windows nodes: held-000.";
    assert_shows(&missing_on(1), &[one], &[]);
    let some = "issing on 2 of 3 Windows nodes: held-000, held-001.";
    assert_shows(&missing_on(2), &[some], &[]);
    let all = "issing on all 3 Windows nodes: held-000, held-001, held-002.";
    assert_shows(&missing_on(3), &[all], &[]);
    let only = "issing on the only Windows node: held-000.";
    assert_shows(&volumes(1), &[only], &[]);
}

#[test]
fn findings_and_drivers_that_block_nothing() {
    let mut report = nodes(1, 1);
    report.findings = (0..21)
        .map(|number| samples::finding("Odd", "Pod/shop/web-0", &format!("odd {number:02}")))
        .collect();
    let left_out = format!("and 1 more finding {ALL}");
    assert_table(&report, &["odd 19", &left_out], &["odd 20"]);
    assert_page(&report, &["odd 19", "odd 20"], &[ALL]);

    report.findings.clear();
    report.drivers = (0..21)
        .map(|number| samples::driver(&format!("d{number:02}.example"), &[], &["held-000"]))
        .collect();
    let left_out = format!("and 1 more driver {ALL}");
    assert_shows(&report, &["d19.example", &left_out], &["d20.example"]);
}

#[test]
fn a_matrix_has_the_missing_drivers_before_it_runs_out_of_columns() {
    let mut report = nodes(1, 1);
    report.drivers = (0..25)
        .map(|number| samples::driver(&format!("d{number:02}.example"), &["good-000"], &[]))
        .collect();
    report.drivers[24].missing_on = vec!["held-000".to_owned()];
    let page = text(&report, Format::Html);
    assert!(page.contains(
        "<th scope=\"col\"><code>d24.example</code></th><th scope=\"col\"><code>d00.example"
    ));
    assert!(!page.contains("d19.example"));
    assert!(page.contains(&format!("and 5 more drivers {ALL}")));
}

#[test]
fn the_same_finding_on_many_nodes_is_said_once() {
    let mut report = nodes(0, 13);
    for node in &mut report.nodes {
        let object = format!("CSINode/{}", node.name);
        node.findings = vec![samples::finding("Same", &object, "all the same")];
    }
    report.nodes[1]
        .findings
        .push(samples::finding("Pod", "Pod/a/b", "a pod"));
    let text = text(&report, Format::Table);
    assert_eq!(text.matches("all the same").count(), 1);
    assert!(text.contains("* all the same (Same: held-000, held-001, held-002, held-003, held-004, held-005, held-006, held-007, held-008, held-009 and 3 more)\n"));
    assert!(text.contains("* a pod (Pod: Pod/a/b on held-001)\n"));
}

#[test]
fn a_driver_that_is_missing_nowhere_still_says_what_is_odd_about_it() {
    let mut report = samples::registered();
    report.drivers[0].findings = vec![samples::finding(
        "TwoDaemonSets",
        "DaemonSet/a/b",
        "two of them",
    )];
    assert_shows(&report, &["two of them"], &[]);
}

#[test]
fn columns_are_aligned_by_what_is_seen() {
    let long = "x".repeat(253);
    let rows = [
        [Cell::new("名前"), Cell::new("1"), Cell::new("end")],
        [
            Cell::new(&long),
            Cell::new("").tone(Tone::Bad),
            Cell::new("end"),
        ],
        [
            Cell::new("e\u{301}"),
            Cell::new("データ").tone(Tone::Good),
            Cell::new("end"),
        ],
    ];
    for color in [false, true] {
        let mut out = String::new();
        grid::write(&mut out, Paint { color }, 2, ["NAME", "B", "LAST"], &rows);
        let plain = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[31m", "\u{1b}[32m"]
            .iter()
            .fold(out.clone(), |text, code| text.replace(code, ""));
        assert_eq!(plain.contains(&out), !color);
        for (line, last) in plain.lines().zip(["LAST", "end", "end", "end"]) {
            let start = line.strip_suffix(last).unwrap();
            assert_eq!(start.width(), 2 + 253 + 3 + 6 + 3, "{line}");
        }
    }
}
