//! Tests with very many and very wide items.

use unicode_width::UnicodeWidthStr;

use super::super::blocks::{Block, Span, Style};
use super::super::text as terminal;
use super::samples::{self, AZURE_DISK};
use super::{Format, text};
use crate::assess::report::{NodeReadiness, ReadinessReport, Reason, Upgradeable};

const ALL: &str = "(-o json lists all)";
const BOTH: &[Format] = &[Format::Table, Format::Html];
const TABLE: &[Format] = &[Format::Table];
const PAGE: &[Format] = &[Format::Html];

fn nodes(ready: usize, not_ready: usize) -> ReadinessReport {
    let good = (0..ready).map(|number| samples::node(&format!("good-{number:03}"), Some(&[]), &[]));
    let bad = (0..not_ready)
        .map(|number| samples::node(&format!("held-{number:03}"), Some(&[]), &[AZURE_DISK]));
    let held = samples::report(Upgradeable::False, Reason::DriversMissing, "held");
    samples::with_nodes(held, good.chain(bad).collect())
}

fn volumes(number: usize) -> ReadinessReport {
    let mut report = nodes(0, 1);
    report.drivers = vec![samples::driver(AZURE_DISK, &[], &["held-000"])];
    let volume = |number| {
        let plugin = Some("kubernetes.io/azure-disk");
        let pod = format!("web-{number:02}");
        samples::volume(&pod, "data", plugin, Some(AZURE_DISK), &["held-000"])
    };
    report.volumes = (0..number).map(volume).collect();
    report
}

fn assert_shows(formats: &[Format], report: &ReadinessReport, there: &[&str], not_there: &[&str]) {
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
fn of_many_volumes_of_a_driver_the_first_are_listed() {
    for (number, left_out) in [(21, "1 more volume "), (22, "2 more volumes ")] {
        let left_out = format!("and {left_out}{ALL}");
        let there = ["pod/web-19", &left_out];
        assert_shows(TABLE, &volumes(number), &there, &["web-20"]);
    }
    assert_shows(TABLE, &volumes(20), &["pod/web-19"], &[ALL]);
    // Very many: the page shows 500.
    let last = "<code>pod/web-499</code>";
    assert_shows(PAGE, &volumes(500), &[last], &[ALL]);
    let left_out = format!("and 1 more volume {ALL}");
    assert_shows(PAGE, &volumes(501), &[last, &left_out], &["web-500"]);
}

#[test]
fn of_many_nodes_those_that_are_not_ready_are_listed() {
    let few = ["good-000", "good-048", "held-000"];
    assert_shows(BOTH, &nodes(49, 1), &few, &[ALL]);
    let many = ["good-000", "good-498", "held-000"];
    assert_shows(PAGE, &nodes(499, 1), &many, &[ALL]);
    for (formats, (ready, not_ready), there, not_there) in [
        (TABLE, (50, 1), "held-000", "good-000"),
        (TABLE, (1, 50), "held-049", "good-000"),
        (TABLE, (1, 50), "1 ready node not shown", "unready"),
        (TABLE, (0, 51), "held-049", "held-050"),
        (TABLE, (0, 51), "and 1 more unready node ", "not shown"),
        (TABLE, (540, 60), "held-049", "held-050"),
        (TABLE, (540, 60), "and 10 more unready nodes ", "good-000"),
        (TABLE, (540, 60), "540 ready nodes not shown", "good-000"),
        (BOTH, (501, 0), "501 ready nodes not shown", "good-000"),
        (TABLE, (51, 0), "51 ready nodes not shown", "NAME"),
        (PAGE, (501, 0), "501 ready nodes not shown", "Name</th>"),
        (PAGE, (500, 1), "held-000", "good-000"),
    ] {
        assert_shows(
            formats,
            &nodes(ready, not_ready),
            &[there, ALL],
            &[not_there],
        );
    }
}

#[test]
fn a_driver_may_be_missing_on_one_some_or_all_nodes() {
    let names: Vec<String> = (0..11).map(|number| format!("n{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (missing, all, there, not_there) in [
        (1, 1, "issing on the only Windows node: n00.", ALL),
        (1, 3, "issing on 1 of 3 Windows nodes: n00.", ALL),
        (2, 3, "issing on 2 of 3 Windows nodes: n00, n01.", ALL),
        (3, 3, "issing on all 3 Windows nodes: n00, n01, n02.", ALL),
        (10, 20, "n08, n09.", "more"),
        (11, 20, "n08, n09 and 1 more.", "n10"),
    ] {
        let mut report = volumes(1);
        report.cluster.windows_nodes = all;
        report.drivers = vec![samples::driver(AZURE_DISK, &[], &names[..missing])];
        assert_shows(BOTH, &report, &[there], &[not_there]);
    }
}

#[test]
fn of_many_findings_and_drivers_that_block_nothing_the_first_are_listed() {
    let mut report = nodes(1, 1);
    let finding = |number| samples::finding("Odd", "Pod/shop/web-0", &format!("odd {number:02}"));
    report.findings = (0..21).map(finding).collect();
    let left_out = format!("and 1 more finding {ALL}");
    assert_shows(TABLE, &report, &["Odd 19", &left_out], &["Odd 20"]);
    assert_shows(PAGE, &report, &["Odd 19", "Odd 20"], &[ALL]);

    report.findings.clear();
    let driver = |number| samples::driver(&format!("d{number:02}.example"), &[], &["held-000"]);
    report.drivers = (0..21).map(driver).collect();
    let left_out = format!("and 1 more driver {ALL}");
    assert_shows(BOTH, &report, &["d19.example", &left_out], &["d20.example"]);
}

#[test]
fn the_same_finding_on_many_nodes_is_shown_once() {
    let mut report = nodes(0, 13);
    for node in &mut report.nodes {
        let object = format!("CSINode/{}", node.name);
        node.findings = vec![samples::finding("Same", &object, "all the same")];
    }
    let of_pod = samples::finding("Pod", "Pod/a/b", "a pod");
    report.nodes[1].findings.push(of_pod);
    let text = text(&report, Format::Table);
    assert_eq!(text.matches("All the same").count(), 1);
    assert!(text.contains("* All the same.\n  Same: held-000, held-001, held-002, held-003, held-004, held-005, held-006, held-007, held-008, held-009 and 3 more\n"));
    assert!(text.contains("* A pod.\n  Pod: Pod/a/b on held-001\n"));
}

#[test]
fn many_findings_that_differ_in_names_are_shown_as_one() {
    let alike = |number: usize| {
        let mut report = volumes(1);
        let finding = |number| {
            let pod = format!("csi-{number:03}");
            samples::finding(
                "Waits",
                &format!("Pod/kube/{pod}"),
                &format!("pod kube/{pod} waits"),
            )
            .run("kubectl logs -n kube", &[&pod])
            .on("held-000")
        };
        report.drivers[0].findings = (0..number).map(finding).collect();
        report
    };
    let each = [
        "Pod kube/csi-000 waits.",
        "Pod kube/csi-002 waits.",
        "kubectl logs -n kube csi-002",
    ];
    assert_shows(BOTH, &alike(3), &each, &["more"]);
    let first = [
        "* Pod kube/csi-000 waits.\n    Waits: Pod/kube/csi-000 on held-000, Pod/kube/csi-001 on held-000, ",
        " and 190 more\n    → kubectl logs -n kube csi-000\n",
    ];
    assert_shows(TABLE, &alike(200), &first, &["Pod kube/csi-001 waits", ALL]);
    // The name may be in the command alone.
    let mut report = alike(0);
    for number in 0..200 {
        let node = samples::node(&format!("n-{number:03}"), Some(&[]), &[]);
        let entry = format!("CSINode/{}", node.name);
        let pod = format!("csi-node-{number:03}");
        let problem = format!("it is registered, but pod kube/{pod} waits");
        let finding =
            samples::finding("Stale", &entry, &problem).run("kubectl logs -n kube", &[&pod]);
        let findings = vec![finding];
        report.nodes.push(NodeReadiness { findings, ..node });
    }
    let first =
        "* It is registered, but pod kube/csi-node-000 waits.\n  Stale: n-000, n-001, n-002, ";
    assert_shows(TABLE, &report, &[first], &["csi-node-001", "more finding"]);
}

#[test]
fn blocking_volumes_are_counted_by_namespace_before_they_are_listed() {
    let mut report = volumes(24);
    for (volume, namespace) in report.volumes.iter_mut().zip(["bank", "bank", "alone"]) {
        namespace.clone_into(&mut volume.workload.namespace);
        "web".clone_into(&mut volume.workload.name);
    }
    let table = "BLOCKING\nNAMESPACE   VOLUMES   WORKLOADS\nshop        21        21\nbank        2         1\nalone       1         1\n";
    assert_shows(TABLE, &report, &[table], &[]);
    for (number, volume) in report.volumes.iter_mut().enumerate() {
        volume.workload.namespace = format!("n{number}");
    }
    let left_out = format!("and 4 more namespaces {ALL}");
    assert_shows(TABLE, &report, &[&left_out], &[]);
    let page = text(&report, Format::Html);
    let place = |what: &str| page.find(what).unwrap();
    assert!(
        place("<code>n23</code>") < place("<th scope=\"row\"><code>pod/"),
        "{page}"
    );
}

#[test]
fn the_contents_of_a_page_lead_to_each_section() {
    let page = text(&samples::held(), Format::Html);
    let ends = |before: &str| -> Vec<String> {
        let found = page.split(before).skip(1);
        let found = found.map(|rest| rest.split_once('"').unwrap().0.to_owned());
        found.collect()
    };
    let titles = ends("<h2 id=\"");
    assert_eq!(titles[..2], ["blocking", "windows-nodes"]);
    assert_eq!(ends("<a href=\"#"), titles);
    assert!(page.find("<nav").unwrap() < page.find("<main").unwrap());
    let command =
        "<code class=\"command\">kubectl logs -n kube-system csi-azuredisk-node-win-x7k2p</code>";
    assert!(page.contains(command), "{page}");
}

#[test]
fn a_driver_that_is_missing_nowhere_still_says_what_is_odd_about_it() {
    let mut report = samples::registered();
    let finding = samples::finding("TwoDaemonSets", "DaemonSet/a/b", "two of them");
    report.drivers[0].findings = vec![finding];
    assert_shows(BOTH, &report, &["Two of them"], &[]);
}

#[test]
fn columns_are_aligned_by_what_is_seen() {
    let long = "x".repeat(253);
    let rows = [
        ["名前", "1", "end"],
        [&long, "", "end"],
        ["e\u{301}", "データ", "end"],
    ];
    let styles = [Style::Plain, Style::Bad, Style::Good];
    let row = |cells: [&str; 3]| {
        let cells = std::iter::zip(styles, cells);
        cells.map(|(style, text)| Span::new(style, text)).collect()
    };
    let table = Block::Table {
        label: String::new(),
        header: ["Name", "b", "Last"].into(),
        rows: rows.map(row).into(),
    };
    for color in [false, true] {
        let out = terminal::draw(std::slice::from_ref(&table), color);
        let plain = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[31m", "\u{1b}[32m"]
            .iter()
            .fold(out.clone(), |text, code| text.replace(code, ""));
        assert_eq!(plain.contains(&out), !color);
        for (line, last) in plain.lines().zip(["LAST", "end", "end", "end"]) {
            let start = line.strip_suffix(last).unwrap();
            assert_eq!(start.width(), 253 + 3 + 6 + 3, "{line}");
        }
    }
}
