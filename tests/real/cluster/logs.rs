//! The log: one JSON object per line, with the node.

use serde_json::{Value, json};

use crate::cluster::harness::Harness;
use crate::cluster::simulated::Simulation;

impl Harness {
    /// Returns the log lines of an operator that logs JSON.
    fn log_lines(&self) -> Vec<Value> {
        let log = self.log();
        // The last line may still be incomplete.
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        let parse = |line: &str| serde_json::from_str(line).unwrap();
        whole.lines().map(parse).collect()
    }
}

#[test]
fn each_line_says_of_which_node_it_is() {
    let simulation = Simulation::new(1);
    let harness = &simulation.harness;
    let payload = simulation.payload("v1.3.0");
    let operator = harness.start_with_both(&payload, &["--log-format=json"]);
    harness.eventually("the node is ready", || simulation.ready().len() == 1);
    let line_of = |message: &str| {
        let lines = harness.log_lines();
        let found = lines.into_iter().find(|line| {
            let said = line["fields"]["message"].as_str();
            said.is_some_and(|said| said.contains(message))
        });
        found.unwrap_or_else(|| panic!("no {message} in {}", harness.log()))
    };
    for message in [
        "host key pinned",
        "sending the agent",
        "the agent is installed",
    ] {
        let line = line_of(message);
        let spans = &line["spans"];
        assert_eq!(spans[0]["name"], "reconcile", "{line}");
        assert_eq!(spans[0]["node"], "win-000", "{line}");
    }
    drop(operator);

    // A problem is logged with its node.
    simulation.want(&json!({"ssh": {"user": "nobody", "port": 1}}));
    let _operator = harness.start_with_both(&payload, &["--log-format=json"]);
    harness.eventually("the fault is told", || {
        let lines = harness.log_lines();
        lines.iter().any(|line| {
            line["level"] == "WARN"
                && line["fields"]["reason"] == "Unreachable"
                && line["spans"][0]["node"] == "win-000"
        })
    });
}
