//! Faults of the cluster around the operator. After each fault, the result is the same as without it, the gate was not
//! opened by it, and no node is left half changed.
//!
//! Each test first runs the same cluster through the same changes without a fault, and records the result.

mod clocks;
mod credentials;
mod definitions;
mod namespace;
mod rights;
mod servers;
mod values;

use std::ops::Deref;

use serde_json::{Value, json};
use testbed::objects;
use testbed::sandbox::Operator;

use crate::cluster::harness::Harness;
use crate::cluster::simulated::Simulation;

const NODES: [&str; 2] = ["win-000", "win-001"];

/// A cluster with two managed nodes, and a workload whose volume needs a driver on both.
struct Scene {
    simulation: Simulation,
}

/// The results of a run without faults.
struct Calm {
    /// With the driver on both nodes.
    open: Value,
    /// Without the driver on the second node.
    held: Value,
}

impl Deref for Scene {
    type Target = Harness;

    fn deref(&self) -> &Harness {
        &self.simulation.harness
    }
}

impl Scene {
    fn new() -> Self {
        let mut simulation = Simulation::new(NODES.len());
        let payload = simulation.payload("v1.3.0");
        let harness = &mut simulation.harness;
        harness.command = harness.command.with_payload(&payload);
        let workload = objects::azure_disk_workload(NODES[0]);
        harness.apply(&workload);
        Self { simulation }
    }

    /// Starts the operator, and waits until it has installed csi-proxy on both nodes and holds upgrades for both.
    fn start(&self) -> Operator {
        let operator = self.launch();
        self.expect_both_at_work();
        operator
    }

    /// Starts an operator that takes part in leader election, with the same results.
    fn start_electing(&self) -> Operator {
        let operator = self.launch_electing();
        self.expect_both_at_work();
        operator
    }

    fn launch(&self) -> Operator {
        self.start_with_arguments(&["--serve-address=127.0.0.1:0"])
    }

    fn launch_electing(&self) -> Operator {
        self.start_with_arguments(&[
            "--serve-address=127.0.0.1:0",
            "--leader-elect-identity=operator",
        ])
    }

    fn expect_both_at_work(&self) {
        self.eventually("csi-proxy works on both nodes", || {
            self.simulation.ready().len() == NODES.len()
        });
        self.expect_missing("win-000, win-001");
    }

    /// Runs the changes without a fault. At the end, the driver is on only one of the nodes.
    fn calm(&self) -> Calm {
        for node in NODES {
            self.register(node, true);
        }
        self.expect_open();
        self.settle();
        let open = self.end();
        self.register(NODES[1], false);
        self.expect_missing(NODES[1]);
        self.settle();
        let held = self.end();
        assert_ne!(open, held);
        Calm { open, held }
    }

    /// Waits for both results of `calm`, first the held, then the open one.
    fn expect_as_calm(&self, calm: &Calm) {
        self.expect_missing(NODES[1]);
        self.expect_end(&calm.held);
        let before = self.openings();
        self.register(NODES[1], true);
        self.expect_open();
        self.expect_end(&calm.open);
        assert_eq!(self.openings(), before + 1);
    }

    /// Waits until the results no longer change.
    fn settle(&self) {
        let mut last = Value::Null;
        self.eventually("nothing changes for two looks", || {
            std::thread::sleep(std::time::Duration::from_millis(700));
            let now = self.end();
            let is_settled = last == now;
            last = now;
            is_settled
        });
    }

    /// Returns the operator's results in the cluster and on the nodes, without what differs from run to run.
    fn end(&self) -> Value {
        let harness = &**self;
        let named = |kind: &str, fields: &[&str]| -> Value {
            let list = harness.list(kind);
            let objects = list["items"].as_array().unwrap().iter();
            let objects = objects.filter(|object| object["metadata"]["name"] != "kube-root-ca.crt");
            objects
                .map(|object| {
                    let fields = fields.iter();
                    let fields: Vec<&Value> = fields.map(|field| &object[*field]).collect();
                    json!([object["metadata"]["name"], fields])
                })
                .collect()
        };
        let nodes: Vec<Value> = NODES.iter().map(|node| self.node(node)).collect();
        let mut end = json!({
            "gate": harness.gate(),
            "settings": named("windowsstorages", &["spec", "status"]),
            "statuses": named("windowsnodestorages", &["status"]),
            "configMaps": named("configmaps", &["data"]),
            "nodes": nodes,
        });
        forget_times(&mut end);
        end
    }

    /// Returns the state of a node: every file, and the service.
    fn node(&self, name: &str) -> Value {
        let host = self.simulation.host(name);
        let files: Vec<Value> = host.with_disk(|disk| {
            let files = disk.files();
            let content = |path: &str| disk.file(path).map(simulated_host::File::sha256);
            files
                .iter()
                .map(|path| json!([path, content(path)]))
                .collect()
        });
        json!({"command": host.command(), "files": files})
    }

    /// Waits until the results are the same as in `calm`.
    fn expect_end(&self, calm: &Value) {
        let mut shown = Value::Null;
        self.eventually("all is as it is without the fault", || {
            let end = self.end();
            if end != *calm && end != shown {
                println!("not yet as\n{calm:#}\nbut\n{end:#}");
                shown.clone_from(&end);
            }
            end == *calm
        });
    }

    /// Returns the operator's log since `mark`.
    fn told_since(&self, mark: usize) -> String {
        self.log().split_off(mark)
    }

    fn mark(&self) -> usize {
        self.log().len()
    }

    /// Returns the body of `/readyz?verbose`.
    fn ready(&self) -> String {
        let answer = self.readyz();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        body.to_owned()
    }
}

/// Removes times, versions of objects, and what depends only on time: after a while, the operator reports that no OLM
/// observes the condition.
fn forget_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| name != "observedGeneration" && !is_time(value));
            fields.values_mut().for_each(forget_times);
        }
        Value::Array(values) => {
            // This one depends on when it was checked.
            values.retain(|value| value["type"] != "OperatorConditionWritten");
            values.iter_mut().for_each(forget_times);
        }
        _ => {}
    }
}

fn is_time(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.parse::<jiff::Timestamp>().is_ok()
}
