//! `nodes` and `why`: show a part of the assessment.

use anyhow::{anyhow, bail};
use clap::error::ErrorKind;
use windows_storage_operator::assess::assess_once;
use windows_storage_operator::assess::report::{ReadinessReport, Reason, Verdict};
use windows_storage_operator::report::{Answer, Kind, NodeList, Question, explain};
use windows_storage_operator::visible::visible;

use crate::cli::{CalledAs, ClusterArgs, NodesArgs, WhyArgs};
use crate::command::connect::connect;
use crate::command::own::windows_nodes_with;
use crate::command::{input, is_colored, print, report_line, runtime};

/// Lists the Windows nodes.
pub fn nodes(arguments: &NodesArgs) -> anyhow::Result<Answer> {
    let cluster = input::read(&arguments.input)?.cluster;
    let report = assess_once(&cluster, None);
    // As in the output of -o name.
    let names = arguments.names.iter();
    let names = names.map(|name| name.strip_prefix("node/").unwrap_or(name).to_owned());
    let mut names: Vec<String> = names.collect();
    if let Some(selector) = &arguments.selector {
        names = with_labels(&arguments.input.cluster, selector, &report)?;
    }
    if report.nodes.is_empty() {
        if is_unknown(&report.verdict) {
            return Ok(Answer::Unknown);
        }
        if names.is_empty() {
            report_line("No Windows nodes found.");
        }
    }
    let list = NodeList::of(&report, &cluster, &names);
    let color = is_colored(arguments.color);
    print(&list.render(arguments.output, color)?)?;
    let is_absent = |name: &&String| report.nodes.iter().all(|node| node.name != **name);
    let absent = names.iter().filter(is_absent);
    let absent: Vec<String> = absent.map(|name| visible(name)).collect();
    if !absent.is_empty() {
        bail!("there is no Windows node {}", absent.join(", "));
    }
    Ok(if !list.is_ready() {
        Answer::Held
    } else if is_unknown(&report.verdict) {
        Answer::Unknown
    } else {
        Answer::Fine
    })
}

/// Returns the names of the Windows nodes with these labels.
fn with_labels(
    arguments: &ClusterArgs,
    selector: &str,
    report: &ReadinessReport,
) -> anyhow::Result<Vec<String>> {
    let is_there = |name: &String| report.nodes.iter().any(|node| node.name == *name);
    runtime()?.block_on(async {
        let (client, _) = connect(arguments).await?;
        windows_nodes_with(&client, selector, is_there).await
    })
}

/// Explains one object.
pub fn why(arguments: &WhyArgs, called_as: CalledAs) -> anyhow::Result<Answer> {
    let question = Question::parse(&arguments.subject).unwrap_or_else(|error| {
        called_as
            .usage_error("why", ErrorKind::InvalidValue, error)
            .exit()
    });
    let input::Input {
        cluster, namespace, ..
    } = input::read(&arguments.input)?;
    let namespace = arguments.namespace.clone().unwrap_or(namespace);
    let report = assess_once(&cluster, None);
    let Some(explanation) = explain(&question, &namespace, &report, &cluster) else {
        // What was not read may be there.
        is_unknown(&report.verdict);
        return Err(not_found(&question, &namespace));
    };
    print(&explanation.render(is_colored(arguments.color)))?;
    let answer = explanation.answer();
    if answer == Answer::Unknown {
        is_unknown(&report.verdict);
    }
    Ok(answer)
}

fn not_found(question: &Question, namespace: &str) -> anyhow::Error {
    let name = visible(&question.name);
    let namespace = visible(namespace);
    let what = match question.kind {
        Some(kind @ (Kind::Node | Kind::Volume)) => {
            return anyhow!("there is no {} {name}", kind.as_str().to_lowercase());
        }
        Some(kind) => format!("{} {name}", kind.as_str().to_lowercase()),
        None => format!("node, pod, claim or other workload {name}"),
    };
    anyhow!(
        "there is no {what} in namespace {namespace} that matters for storage; -n names another namespace, and what has ended or \
         has no volume that needs a CSI driver is not kept"
    )
}

/// Whether not everything could be read, so that a good result proves nothing. Says so.
pub(super) fn is_unknown(verdict: &Verdict) -> bool {
    let is_unknown = verdict.reason == Reason::ReadinessUnknown;
    if is_unknown {
        let message = visible(&verdict.message);
        report_line(format!("error: not everything could be read: {message}"));
    }
    is_unknown
}
