//! A rollout in steps and maintenance windows, on the real API server.

use std::thread::sleep;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use testbed::simulated_host::SimulatedHost;

use super::Simulation;
use super::pools::{refusal, rollout};
use crate::system::harness::Harness;

const SETTINGS: &str = "windowsstorage/cluster";
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
    let simulation = Simulation::new(4);
    let harness = &simulation.harness;
    harness.kubectl("label node win-000 canary=yes");
    let operator = harness.start_with(&simulation.payload("v1.1.3"));
    harness.eventually("all nodes have the old csi-proxy", || {
        simulation.ready().len() == 4
    });
    harness.eventually("it says that the rollout is over", || {
        let last = &harness.get(SETTINGS)["status"]["rollout"]["history"][0];
        last["completionTime"].is_string()
    });
    assert!(operator.terminate().unwrap().success());
    simulation
}

impl Simulation {
    /// Returns the nodes with this csi-proxy on disk.
    fn nodes_with(&self, version: &str) -> Vec<&str> {
        let content = format!("MZ csiProxy {version}");
        let has = |host: &&SimulatedHost| {
            host.with_disk(|disk| {
                let file = disk.file(r"C:\k\csi-proxy.exe");
                file.is_some_and(|file| file.content() == content.as_bytes())
            })
        };
        self.hosts
            .iter()
            .filter(has)
            .map(SimulatedHost::name)
            .collect()
    }

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
    harness.eventually("all nodes have the new csi-proxy", || {
        simulation.nodes_with("v1.3.0").len() == 4
    });
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
fn a_canary_on_which_it_does_not_work_stops_all_and_a_resume_begins_with_it() {
    let simulation = simulation();
    let harness = &simulation.harness;
    let mut rollout = canary(LONG);
    // A failure in a step stops the rollout, whatever `maxFailures` allows.
    rollout["maxFailures"] = 4.into();
    simulation.want(&json!({"rollout": rollout}));
    let canary = simulation.host("win-000");
    let new = simulation.payload("v1.3.0");
    canary.set_faults(|faults| faults.reboot_in_apply = true);
    let served = ["--serve-address=127.0.0.1:0"];
    let mut operator = harness.start_with_both(&new, &served);
    // The canary loses power in the middle of the update, and again on the retry.
    for again in [true, false] {
        harness.eventually("the canary has lost its power", || {
            std::net::TcpStream::connect((canary.address(), canary.port())).is_err()
        });
        canary.set_faults(|faults| faults.reboot_in_apply = again);
        simulation.wait(canary.boot()).unwrap();
    }
    let said = harness.expect(SETTINGS, "RolloutProgressing", "False", "Stopped");
    assert!(
        said.contains("failed and was rolled back: win-000"),
        "{said}"
    );
    // `Degraded` also covers the missing OLM, which may be named first.
    let (status, _, message) = harness.condition(SETTINGS, "Degraded");
    assert!(
        status == "True" && message.contains("RolloutProgressing"),
        "{message}"
    );
    let metrics = harness.get_http("metrics");
    for series in [
        "windows_storage_rollout{reason=\"Stopped\"} 1",
        "windows_storage_rollout_nodes{pool=\"\",state=\"waiting\"} 3",
        "windows_storage_rollout_nodes{pool=\"\",state=\"failed\"} 1",
    ] {
        assert!(metrics.contains(series), "{series}: {metrics}");
    }
    assert!(operator.terminate().unwrap().success());

    // A new process still knows this.
    operator = harness.start_with(&new);
    let logins = || simulation.hosts.iter().map(|host| host.counters().logins);
    let before: Vec<u64> = logins().collect();
    harness.eventually("every node was looked at twice", || {
        logins().zip(&before).all(|(now, before)| now >= before + 2)
    });
    harness.expect(SETTINGS, "RolloutProgressing", "False", "Stopped");
    assert_eq!(simulation.nodes_with("v1.1.3").len(), 4);

    rollout["resume"] = "its power supply was replaced".into();
    simulation.want(&json!({"rollout": rollout}));
    harness.expect(SETTINGS, "RolloutProgressing", "True", "Soaking");
    assert_eq!(simulation.nodes_with("v1.3.0"), ["win-000"]);
    rollout["strategy"]["steps"][0]["soakSeconds"] = SHORT.into();
    simulation.want(&json!({"rollout": rollout}));
    harness.eventually("all nodes have the new csi-proxy", || {
        simulation.nodes_with("v1.3.0").len() == 4
    });
    drop(operator);
}

#[test]
fn a_pool_can_be_deleted_in_the_middle_of_its_step_but_only_with_the_step() {
    let simulation = simulation();
    let harness = &simulation.harness;
    harness.kubectl("label node win-000 pool=blue");
    let steps = json!({
        "maxUnavailable": 4,
        "strategy": {"steps": [{"pool": "blue", "soakSeconds": LONG}, {"nodes": "50%"}]},
    });
    let blue = json!([{"name": "blue", "nodeSelector": {"pool": "blue"}}]);
    simulation.want(&json!({"nodePools": blue, "rollout": steps}));
    let _operator = harness.start_with(&simulation.payload("v1.3.0"));
    harness.expect(SETTINGS, "RolloutProgressing", "True", "Soaking");
    assert_eq!(simulation.nodes_with("v1.3.0"), ["win-000"]);

    let refusal = simulation.try_to_want(&json!({"rollout": steps}));
    let refusal = refusal.unwrap_err().to_string();
    let fix = "not in spec.nodePools: change the step or add the pool";
    assert!(refusal.contains(fix), "{refusal}");
    simulation.want(&json!({"rollout": {"maxUnavailable": 4}}));
    harness.eventually("all nodes have the new csi-proxy", || {
        simulation.nodes_with("v1.3.0").len() == 4
    });
    harness.expect(SETTINGS, "RolloutProgressing", "False", "Complete");
}

#[test]
fn nodes_wait_for_a_window_which_opens_by_itself() {
    let simulation = simulation();
    let harness = &simulation.harness;
    // A long interval, so that the node checks cause no reconcile during the test.
    let want = |opens: Timestamp| {
        let schedule = opens.strftime("%M %H * * *").to_string();
        simulation.want(&json!({
            "probeIntervalSeconds": 86400,
            "rollout": {"maxUnavailable": 4, "windows": [{"schedule": schedule, "durationMinutes": 60}]},
        }));
    };
    want(Timestamp::now() + SignedDuration::from_hours(12));
    let new = simulation.payload("v1.3.0");
    let mut operator = harness.start_with(&new);
    for restarted in [false, true] {
        if restarted {
            assert!(operator.terminate().unwrap().success());
            operator = harness.start_with(&new);
        }
        let said = harness.expect(SETTINGS, "RolloutProgressing", "False", "WindowClosed");
        assert!(said.contains("the next one opens at"), "{said}");
        let rollout = || harness.get(SETTINGS)["status"]["rollout"].clone();
        harness.eventually("all nodes wait", || rollout()["waitingNodes"] == 4);
        assert!(rollout()["nextWindowTime"].is_string(), "{}", rollout());
        assert_eq!(simulation.nodes_with("v1.1.3").len(), 4);
    }

    // From here on, nothing changes except the time.
    let soon = (Timestamp::now() + SignedDuration::from_secs(70)).as_second();
    let opens = Timestamp::from_second(soon - soon % 60).unwrap();
    want(opens);
    while Timestamp::now() < opens {
        let updated = simulation.nodes_with("v1.3.0");
        // The nodes may have been read at the very moment when the window opened.
        assert!(
            updated.is_empty() || Timestamp::now() >= opens,
            "{updated:?}"
        );
        sleep(Duration::from_millis(200));
    }
    harness.eventually("all nodes have the new csi-proxy", || {
        simulation.nodes_with("v1.3.0").len() == 4
    });
    harness.expect(SETTINGS, "RolloutProgressing", "False", "Complete");
}

#[test]
fn a_version_that_this_operator_does_not_bring_leaves_nodes_as_they_are() {
    let simulation = simulation();
    let harness = &simulation.harness;
    simulation.want(&json!({"csiProxy": {"version": "v1.1.3"}}));
    let _operator = harness.start_with(&simulation.payload("v1.3.0"));
    let said = harness.expect(SETTINGS, "RolloutProgressing", "False", "Pinned");
    assert!(said.contains("spec.csiProxy.version pins v1.1.3"), "{said}");
    harness.eventually("every node says so, and is ready", || {
        let is_said = |name: &str| {
            let (status, _, message) =
                harness.condition(&format!("windowsnodestorage/{name}"), "CSIProxyReady");
            status == "True" && message.contains("spec.csiProxy.version")
        };
        simulation.hosts.iter().all(|host| is_said(host.name()))
    });
    assert_eq!(simulation.nodes_with("v1.1.3").len(), 4);
    let (code, said) = rollout(harness, &["status"]);
    assert!(code == Some(3) && said.contains("pins v1.1.3"), "{said}");
    simulation.want(&json!({"rollout": {"maxUnavailable": 4}}));
    let (code, said) = rollout(harness, &["status"]);
    assert!(code == Some(0) && said.contains("is on 4 of 4"), "{said}");
    harness.eventually("all nodes have the new csi-proxy", || {
        simulation.nodes_with("v1.3.0").len() == 4
    });
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
