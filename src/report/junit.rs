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

/// How it ended, the kind of problem, and its message.
type Problem = (Outcome, &'static str, String);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Failure,
    /// It is not known.
    Error,
    /// It does not matter for the verdict.
    Skipped,
}

/// Renders the verdict, each in-tree volume and each Windows node as a test.
pub(super) fn junit(report: &ReadinessReport) -> String {
    let in_tree = report.volumes.iter().filter(|volume| volume.in_tree);
    let suites = [
        ("verdict", vec![verdict(report)]),
        ("volumes", in_tree.map(volume).collect()),
        (
            "nodes",
            report.nodes.iter().map(|it| node(report, it)).collect(),
        ),
    ];
    let body = html! {
        testsuites name="windows-storage-operator" {
            @for (name, cases) in &suites {
                testsuite name=(name) tests=(cases.len()) failures=(number(cases, Outcome::Failure)) errors=(number(cases, Outcome::Error)) skipped=(number(cases, Outcome::Skipped)) {
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

/// Returns how many tests have a result.
fn number(cases: &[Case], outcome: Outcome) -> usize {
    let problems = cases.iter().filter_map(|case| case.problem.as_ref());
    let its = problems.filter(|(ended, ..)| *ended == outcome);
    its.count()
}

/// Renders a test. Jenkins shows the attribute `message`, GitLab the text.
fn test(
    Case {
        class,
        name,
        problem,
    }: &Case,
) -> Markup {
    html! {
        testcase classname=(visible(class)) name=(visible(name)) {
            @if let Some((outcome, kind, message)) = problem {
                @let message = visible(message);
                @match outcome {
                    Outcome::Failure => { failure type=(kind) message=(message) { (message) } }
                    Outcome::Error => { error type=(kind) message=(message) { (message) } }
                    Outcome::Skipped => { skipped message=(message) { (message) } }
                }
            }
        }
    }
}

fn verdict(report: &ReadinessReport) -> Case {
    let verdict = &report.verdict;
    let outcome = match verdict.reason {
        Reason::ReadinessUnknown => Outcome::Error,
        _ => Outcome::Failure,
    };
    let is_held = verdict.upgradeable == Upgradeable::False;
    let problem = is_held.then(|| (outcome, verdict.reason.as_str(), verdict.message.clone()));
    Case {
        class: "cluster".to_owned(),
        name: "upgradeable".to_owned(),
        problem,
    }
}

fn volume(volume: &VolumeUse) -> Case {
    let workload = &volume.workload;
    let plugin = volume.plugin.as_deref().unwrap_or_default();
    let of = format!("{}/{}", workload.kind.to_lowercase(), workload.name);
    let claim = volume
        .persistent_volume_claim
        .as_deref()
        .unwrap_or_default();
    let (kind, message) = match &volume.csi_driver {
        Some(driver) => {
            let missing = volume.missing_on.join(", ");
            let message = format!("{plugin} needs {driver}, missing on: {missing}");
            ("DriversMissing", message)
        }
        None => (
            "NoCSIMigration",
            format!("no CSI driver takes over {plugin}"),
        ),
    };
    let problem = (volume.blocking).then_some((Outcome::Failure, kind, message));
    Case {
        class: workload.namespace.clone(),
        // GitLab shows only one of several tests with one name.
        name: [&*of, &*volume.volume, claim]
            .join(" ")
            .trim_end()
            .to_owned(),
        problem,
    }
}

fn node(report: &ReadinessReport, node: &NodeReadiness) -> Case {
    let messages = node.findings.iter().map(|finding| finding.message.as_str());
    // A driver that only CSI volumes need holds no upgrade.
    let outcome = match report.verdict.upgradeable {
        Upgradeable::False => Outcome::Failure,
        Upgradeable::True => Outcome::Skipped,
    };
    let message = messages.collect::<Vec<_>>().join(". ");
    let problem = (!node.ready).then_some((outcome, "NotReady", message));
    Case {
        class: "nodes".to_owned(),
        name: node.name.clone(),
        problem,
    }
}
