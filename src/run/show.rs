//! Shows a plan in the metrics and in the log.

use crate::api::SETTINGS_NAME;
use crate::http::Metrics;
use crate::node::Reason;
use crate::run::plan::{Inputs, Plan};
use crate::status::{ROLLOUT_PROGRESSING, find};

/// Shows the plan.
pub fn show(plan: &Plan, inputs: &Inputs<'_>, metrics: &Metrics) {
    let verdict = &plan.judged.verdict;
    if inputs
        .before
        .is_none_or(|before| before.judged.verdict != *verdict)
    {
        let (upgradeable, reason) = (verdict.upgradeable.as_str(), verdict.reason.as_str());
        let message = &verdict.message;
        tracing::info!(upgradeable, reason, "verdict: {message}");
    }
    let report = inputs.report;
    let nodes = (report.windows.len(), plan.ready);
    metrics.show_verdict(verdict, &report.blocking_by_driver(), nodes);
    let stored = inputs.cluster.settings.get(SETTINGS_NAME);
    let stored = stored.and_then(|object| object.status.as_ref());
    let planned = plan.settings.as_ref().map(|(_, status)| status);
    if let Some(status) = planned.or(stored) {
        metrics.show_upgraded_while_held(status.upgraded_while_held.is_some());
        let progress = find(&status.conditions, ROLLOUT_PROGRESSING);
        metrics.show_rollout(progress.map_or("", |it| &it.reason), &plan.rollout);
    }
    let problems = plan.nodes.iter().filter_map(|(node, plan)| {
        let observed = |_| inputs.seen.observations.get(node)?.problem.as_ref();
        plan.target()?.map_or_else(Some, observed)
    });
    // Nodes that stay as they are because the administrator wants so do not count as failing.
    let reasons = problems.map(|error| error.reason);
    let failing = reasons.filter(|reason| *reason != Reason::OtherVersion);
    metrics.show_failing_nodes(failing);
}
