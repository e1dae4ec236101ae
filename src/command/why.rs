//! `why`: explains what one object lacks.

use anyhow::anyhow;
use windows_storage_operator::assess::assess_once;
use windows_storage_operator::assess::report::{Reason, Verdict};
use windows_storage_operator::report::{Answer, Kind, Question, explain};
use windows_storage_operator::visible::visible;

use crate::cli::WhyArgs;
use crate::command::{UsageError, input, is_colored, print, report_line};

/// Explains one object.
pub fn why(arguments: &WhyArgs) -> anyhow::Result<Answer> {
    let question = Question::parse(&arguments.subject).map_err(UsageError::of)?;
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
    if explanation.answer == Answer::Unknown {
        is_unknown(&report.verdict);
    }
    Ok(explanation.answer)
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
