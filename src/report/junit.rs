//! Renders the report as XML of `JUnit`, which pipelines show as the results of tests.

use maud::{Markup, html};

use crate::assess::report::{NodeReadiness, ReadinessReport, Reason, Upgradeable, VolumeUse};
use crate::visible::visible;

/// A test: its class and name, and what is wrong, if anything.
struct Case {
    class: String,
    name: String,
    problem: Option<Problem>,
}

struct Problem {
    /// Whether it is not known, which is an error and no failure.
    is_unknown: bool,
    kind: String,
    message: String,
}

/// Renders the verdict, each in-tree volume and each Windows node as a test.
pub(super) fn junit(report: &ReadinessReport) -> String {
    let in_tree = report.volumes.iter().filter(|volume| volume.in_tree);
    let suites = [
        ("verdict", vec![verdict(report)]),
        ("volumes", in_tree.map(volume).collect()),
        ("nodes", report.nodes.iter().map(node).collect()),
    ];
    let body = html! {
        testsuites name="windows-storage-operator" {
            @for (name, cases) in &suites {
                testsuite name=(name) tests=(cases.len()) failures=(number(cases, false)) errors=(number(cases, true)) {
                    @for case in cases { (test(case)) }
                }
            }
        }
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n",
        body.into_string()
    )
}

/// Returns how many tests have failed, or ended without a result.
fn number(cases: &[Case], is_unknown: bool) -> usize {
    let problems = cases.iter().filter_map(|case| case.problem.as_ref());
    let its = problems.filter(|problem| problem.is_unknown == is_unknown);
    its.count()
}

fn test(
    Case {
        class,
        name,
        problem,
    }: &Case,
) -> Markup {
    html! {
        testcase classname=(visible(class)) name=(visible(name)) {
            @if let Some(Problem { is_unknown, kind, message }) = problem {
                @if *is_unknown { error type=(kind) message=(visible(message)) {} }
                @else { failure type=(kind) message=(visible(message)) {} }
            }
        }
    }
}

fn verdict(report: &ReadinessReport) -> Case {
    let verdict = &report.verdict;
    let problem = (verdict.upgradeable == Upgradeable::False).then(|| Problem {
        is_unknown: verdict.reason == Reason::ReadinessUnknown,
        kind: verdict.reason.as_str().to_owned(),
        message: verdict.message.clone(),
    });
    Case {
        class: "cluster".to_owned(),
        name: "upgradeable".to_owned(),
        problem,
    }
}

fn volume(volume: &VolumeUse) -> Case {
    let workload = &volume.workload;
    let plugin = volume.plugin.as_deref().unwrap_or_default();
    let problem = volume.blocking.then(|| Problem {
        is_unknown: false,
        kind: volume
            .csi_driver
            .as_ref()
            .map_or("NoCSIMigration", |_| "DriversMissing")
            .to_owned(),
        message: match &volume.csi_driver {
            Some(driver) => format!(
                "{plugin} needs {driver}, missing on: {}",
                volume.missing_on.join(", ")
            ),
            None => format!("no CSI driver takes over {plugin}"),
        },
    });
    Case {
        class: workload.namespace.clone(),
        name: format!(
            "{}/{} {}",
            workload.kind.to_lowercase(),
            workload.name,
            volume.volume
        ),
        problem,
    }
}

fn node(node: &NodeReadiness) -> Case {
    let messages = node.findings.iter().map(|finding| finding.message.as_str());
    let problem = (!node.ready).then(|| Problem {
        is_unknown: false,
        kind: "NotReady".to_owned(),
        message: messages.collect::<Vec<_>>().join(". "),
    });
    Case {
        class: "nodes".to_owned(),
        name: node.name.clone(),
        problem,
    }
}
