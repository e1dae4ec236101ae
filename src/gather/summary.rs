//! What was gathered and what could not be, for people.

use std::fmt::Write;

use indicatif::HumanBytes;
use protocol::NodeState;
use protocol::paths::CSI_PROXY_SERVICE;

use crate::assess::report::ReadinessReport;
use crate::visible::visible;

/// What there is to say of a Windows node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLine {
    /// The node.
    pub name: String,
    /// Whether it was logged in to.
    pub is_reached: bool,
    /// What was seen, or why nothing was.
    pub words: String,
    /// What could not be had.
    pub problems: Vec<String>,
    /// What is called otherwise in the folder.
    pub renamed: Vec<String>,
}

impl NodeLine {
    /// Of a node that was not looked at, and why.
    #[must_use]
    pub fn unseen(name: &str, words: String) -> Self {
        Self {
            name: name.to_owned(),
            is_reached: false,
            words,
            problems: Vec::new(),
            renamed: Vec::new(),
        }
    }
}

/// What the agent of a node says, in a few words.
#[must_use]
pub fn told_by(state: &NodeState) -> String {
    let mut services = state.services.iter();
    let csi_proxy = services.find(|service| service.name.eq_ignore_ascii_case(CSI_PROXY_SERVICE));
    let csi_proxy = csi_proxy.map_or_else(
        || "not kept".to_owned(),
        |service| format!("{:?}", service.state),
    );
    let open = state.pipes.iter().filter(|pipe| pipe.open).count();
    let foreign = match state.foreign.len() {
        0 => String::new(),
        count => format!(", {count} csi-proxy of somebody else"),
    };
    visible(&format!(
        "agent {} {:?}, csi-proxy {csi_proxy}, {open} pipe(s) open{foreign}",
        state.agent_version, state.agent_service
    ))
}

/// What was gathered.
#[derive(Debug)]
pub struct Summary {
    /// When, in UTC.
    pub time: String,
    /// The API server's version.
    pub kubernetes_version: String,
    /// The operator's namespace, and how it is known.
    pub namespace: String,
    /// From when on logs were asked for, in UTC.
    pub logs_since: Option<String>,
    /// Objects in all.
    pub objects: u64,
    /// What of the cluster could not be read.
    pub problems: Vec<String>,
    /// Logs of the operator's pods.
    pub operator_logs: u64,
    /// The Windows nodes.
    pub nodes: Vec<NodeLine>,
    /// The judgement.
    pub report: ReadinessReport,
}

/// Bytes for people.
#[must_use]
pub fn bytes(count: u64) -> String {
    HumanBytes(count).to_string()
}

impl Summary {
    /// How many nodes were looked at, of how many.
    #[must_use]
    pub fn reached(&self) -> (usize, usize) {
        let reached = self.nodes.iter().filter(|node| node.is_reached).count();
        (reached, self.nodes.len())
    }

    /// All of it, a line each.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let Self {
            time,
            kubernetes_version,
            namespace,
            logs_since,
            objects,
            problems,
            operator_logs,
            nodes,
            report,
        } = self;
        let verdict = &report.verdict;
        let (reached, all) = self.reached();
        writeln!(
            text,
            "windows-storage-operator must-gather {}",
            env!("CARGO_PKG_VERSION")
        )?;
        writeln!(text, "time: {time}")?;
        writeln!(text, "Kubernetes: {}", visible(kubernetes_version))?;
        writeln!(text, "namespace: {}", visible(namespace))?;
        writeln!(
            text,
            "upgradeable: {} ({})",
            verdict.upgradeable.as_str(),
            verdict.reason.as_str()
        )?;
        writeln!(text, "verdict: {}", visible(&verdict.message))?;
        if let Some(since) = logs_since {
            writeln!(text, "logs since: {since}")?;
        }
        writeln!(text, "objects: {objects}")?;
        writeln!(text, "logs of the operator: {operator_logs}")?;
        writeln!(text, "Windows nodes: {reached} of {all} looked at")?;
        for node in nodes {
            writeln!(text, "  {}: {}", visible(&node.name), visible(&node.words))?;
            for problem in &node.problems {
                writeln!(text, "    could not be had: {}", visible(problem))?;
            }
            for name in &node.renamed {
                writeln!(text, "    {}", visible(name))?;
            }
        }
        if problems.is_empty() {
            writeln!(text, "of the cluster all that was asked for could be read")?;
        }
        for problem in problems {
            writeln!(text, "could not be had: {}", visible(problem))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::assess;
    use crate::index::Cluster;

    fn summary() -> Summary {
        Summary {
            time: "2026-01-01T00:00:00Z".to_owned(),
            kubernetes_version: "v1.30.1".to_owned(),
            namespace: "ns".to_owned(),
            logs_since: None,
            objects: 7,
            problems: vec!["Event: reading it is forbidden\n: no".to_owned()],
            operator_logs: 1,
            nodes: vec![
                NodeLine {
                    name: "win-1".to_owned(),
                    is_reached: true,
                    words: "agent 1".to_owned(),
                    problems: vec!["a.log: no\u{1b}[2J".to_owned()],
                    renamed: vec!["a\nb is written as a_b.0".to_owned()],
                },
                NodeLine {
                    name: "win-2".to_owned(),
                    is_reached: false,
                    words: "Unreachable: dead".to_owned(),
                    problems: Vec::new(),
                    renamed: Vec::new(),
                },
            ],
            report: assess(&mut Cluster::default()),
        }
    }

    #[test]
    fn a_node_is_a_line_also_where_it_is_dead() {
        let text = summary().text();
        for line in [
            "  win-1: agent 1",
            "  win-2: Unreachable: dead",
            "    a\\u{a}b is written as a_b.0",
            "Windows nodes: 1 of 2 looked at",
            "upgradeable: False (ReadinessUnknown)",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line:?} in {text}"
            );
        }
    }

    #[test]
    fn what_others_say_breaks_no_line_and_moves_no_cursor() {
        let text = summary().text();
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(
            text.contains("could not be had: Event: reading it is forbidden\\u{a}: no"),
            "{text}"
        );
    }
}
