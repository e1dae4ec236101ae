//! Summarizes for people what was and was not gathered.

use protocol::NodeState;

use crate::assess::report::ReadinessReport;
use crate::visible::visible;

/// The summary of one Windows node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLine {
    /// The node's name.
    pub name: String,
    /// Whether the login succeeded.
    pub is_reached: bool,
    /// What was found, or why nothing was.
    pub words: String,
    /// What could not be read.
    pub problems: Vec<String>,
}

impl NodeLine {
    /// Creates the line of a node that was not inspected, with the reason.
    pub fn unseen(name: &str, words: String) -> Self {
        Self {
            name: name.to_owned(),
            is_reached: false,
            words,
            problems: Vec::new(),
        }
    }
}

/// Summarizes the agent's report.
pub fn state_in_words(state: &NodeState) -> String {
    let answering = state.pipes.iter().filter(|pipe| pipe.answers()).count();
    let foreign = match state.foreign.len() {
        0 => String::new(),
        count => format!(", {count} csi-proxy of another owner"),
    };
    format!(
        "agent {} {:?}, csi-proxy {:?}, {answering} of {} pipe(s) answer{foreign}",
        state.agent_version,
        state.agent_service,
        state.csi_proxy.state,
        state.pipes.len()
    )
}

/// The summary of a must-gather.
#[derive(Debug)]
pub struct Summary {
    /// The operator's namespace.
    pub namespace: String,
    /// The number of objects.
    pub objects: u64,
    /// What could not be read from the cluster.
    pub problems: Vec<String>,
    /// The number of logs of the operator's pods.
    pub operator_logs: u64,
    /// The Windows nodes.
    pub nodes: Vec<NodeLine>,
    /// The readiness report.
    pub report: ReadinessReport,
}

impl Summary {
    /// Returns the summary, one item per line.
    pub fn text(&self) -> String {
        let verdict = &self.report.verdict;
        let (upgradeable, reason) = (verdict.upgradeable.as_str(), verdict.reason.as_str());
        let reached = self.nodes.iter().filter(|node| node.is_reached).count();
        let version = env!("CARGO_PKG_VERSION");
        let about = self.report.about.as_ref();
        let kubernetes = self.report.cluster.kubernetes_version.as_deref();
        let mut lines = vec![
            format!("windows-storage-operator must-gather {version}"),
            format!("time: {}", about.map_or("", |about| &about.time)),
            format!("Kubernetes: {}", kubernetes.unwrap_or_default()),
            format!("namespace: {}", self.namespace),
            format!("upgradeable: {upgradeable} ({reason})"),
            format!("verdict: {}", verdict.message),
        ];
        lines.push(format!("objects: {}", self.objects));
        lines.push(format!("logs of the operator: {}", self.operator_logs));
        lines.push(format!(
            "Windows nodes: {reached} of {} reached",
            self.nodes.len()
        ));
        for node in &self.nodes {
            lines.push(format!("  {}: {}", node.name, node.words));
            let problems = node.problems.iter();
            lines.extend(problems.map(|problem| format!("    could not be collected: {problem}")));
        }
        if self.problems.is_empty() {
            lines.push("everything requested was read from the cluster".to_owned());
        }
        let problems = self.problems.iter();
        lines.extend(problems.map(|problem| format!("could not be collected: {problem}")));
        lines.iter().map(|line| visible(line) + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::assess_once;
    use crate::index::Cluster;

    fn summary() -> Summary {
        Summary {
            namespace: "ns".to_owned(),
            objects: 7,
            problems: vec!["Event: reading it is forbidden\n: no".to_owned()],
            operator_logs: 1,
            nodes: vec![
                NodeLine {
                    name: "win-1".to_owned(),
                    is_reached: true,
                    words: "agent 1".to_owned(),
                    problems: vec!["a.log: no\u{1b}[2J".to_owned()],
                },
                NodeLine::unseen("win-2", "Unreachable: dead".to_owned()),
            ],
            report: assess_once(&Cluster::default(), None),
        }
    }

    #[test]
    fn a_node_is_a_line_and_what_others_say_breaks_none() {
        let text = summary().text();
        for line in [
            "  win-1: agent 1",
            "  win-2: Unreachable: dead",
            "    could not be collected: a.log: no\\u{1b}[2J",
            "Windows nodes: 1 of 2 reached",
            "upgradeable: False (ReadinessUnknown)",
            "could not be collected: Event: reading it is forbidden\\u{a}: no",
        ] {
            let is_there = text.lines().any(|found| found == line);
            assert!(is_there, "{line:?} in {text}");
        }
    }
}
