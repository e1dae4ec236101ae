//! A rollout in steps and maintenance windows, on the real API server.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Simulation;
use super::pools::{refusal, rollout};
use crate::system::harness::{Harness, SETTINGS};

/// Longer than any step of the tests takes.
const LONG: i64 = 600;
const SHORT: i64 = 15;

/// Returns a rollout strategy: a canary that soaks for this many seconds, then half of the nodes, then the rest.
fn canary(soak: i64) -> Value {
    json!({
        "maxUnavailable": 4,
        "strategy": {"steps": [
            {"nodeSelector": {"canary": "yes"}, "soakSeconds": soak},
            {"nodes": "50%"},
        ]},
    })
}

/// Creates four nodes with the old csi-proxy; the first is the canary.
fn simulation() -> Simulation {
    let simulation = Simulation::installed(4);
    simulation.harness.kubectl("label node win-000 canary=yes");
    simulation
}

impl Simulation {
    fn strategy(&self) -> Value {
        self.harness.get(SETTINGS)["status"]["rollout"]["strategy"].clone()
    }
}

fn since(strategy: &Value) -> Timestamp {
    let text = strategy["soakStartTime"].as_str().unwrap();
    text.parse().unwrap()
}

#[test]
fn the_others_wait_until_the_canary_has_answered_for_its_time_also_over_a_restart() {
    let simulation = simulation();
    let harness = &simulation.harness;
    simulation.want(&json!({"rollout": canary(LONG)}));
    let new = simulation.payload("v1.3.0");
    let operator = harness.start_with(&new);
    let said = harness.expect(SETTINGS, "RolloutProgressing", "True", "Soaking");
    assert!(said.contains("3 wait(s): soaking until"), "{said}");
    assert_eq!(simulation.nodes_with("v1.3.0"), ["win-000"]);
    let begun = since(&simulation.strategy());
    assert!(operator.terminate().unwrap().success());

    simulation.want(&json!({"rollout": canary(SHORT)}));
    let _operator = harness.start_with(&new);
    harness.eventually("the first step is over", || {
        let strategy = simulation.strategy();
        let is_over = strategy["completedSteps"] != 0;
        assert!(is_over || since(&strategy) == begun, "{strategy}");
        is_over
    });
    let soaked = Timestamp::now().duration_since(begun);
    assert!(soaked >= SignedDuration::from_secs(SHORT), "{soaked}");
    simulation.expect_all_have("v1.3.0");
    harness.expect(SETTINGS, "RolloutProgressing", "False", "Complete");
    assert_eq!(simulation.strategy()["completedSteps"], 2);
    harness.expect(SETTINGS, "Progressing", "False", "Complete");
    harness.expect(SETTINGS, "Available", "True", "AllReady");
    let (code, said) = rollout(harness, &["history"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(code, Some(0), "{said}");
    assert!(
        lines.len() == 3 && lines[1].contains("v1.1.3") && lines[2].contains("v1.3.0"),
        "{said}"
    );
    // Both are complete.
    assert!(
        !said.contains(" -") && !said.contains("superseded"),
        "{said}"
    );
    harness.assert_nothing_was_forbidden();
}

#[test]
fn a_step_or_a_window_that_makes_no_sense_is_refused_by_the_api_server() {
    let harness = Harness::new();
    assert_eq!(refusal(&harness, &json!({"rollout": canary(SHORT)})), "");
    let step = |step: Value| json!({"strategy": {"steps": [step]}});
    let window = |schedule: &str, zone: &str, minutes: u32| json!({"windows": [{"schedule": schedule, "timeZone": zone, "durationMinutes": minutes}]});
    let good = window("0 22 * * 2", "Europe/Berlin", 240);
    assert_eq!(refusal(&harness, &json!({"rollout": good})), "");
    let (one, cron, zone) = (
        "set exactly one of pool, nodeSelector and nodes",
        "write five fields in cron format",
        "write a name of the IANA time zone database",
    );
    for (rollout, fix) in [
        (step(json!({})), one),
        (step(json!({"soakSeconds": 60})), one),
        (step(json!({"pool": "blue", "nodes": 1})), one),
        (
            step(json!({"pool": "blue"})),
            "not in spec.nodePools: change the step or add the pool",
        ),
        (step(json!({"nodeSelector": {}})), "nodeSelector"),
        (step(json!({"nodes": "0%"})), "nodes"),
        (step(json!({"nodes": 1, "soakSeconds": -1})), "soakSeconds"),
        (window("0 22 * *", "UTC", 60), cron),
        (window("@daily", "UTC", 60), cron),
        (window("0 22 * * 2", "Europe Berlin", 60), zone),
        (window("0 22 * * 2", "UTC", 0), "durationMinutes"),
    ] {
        let refusal = refusal(&harness, &json!({"rollout": rollout}));
        assert!(refusal.contains(fix), "{rollout}: {refusal}");
    }
}
