//! Rounds of churn and faults, each followed by a quiet point.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;
use testbed::api_proxy::{ApiProxy, End, Fault, On, Verb};
use testbed::objects::NAMESPACE;
use testbed::sandbox::Sandbox;

use super::cluster::{Cluster, gate};
use crate::operator_binary;

const NODES: usize = 20;
const PODS: usize = 150;
/// Changes per round.
const CHANGES: usize = 120;
/// The API server is restarted every this many rounds.
const RESTART: usize = 5;
/// Upgrades are allowed at the end of every this many rounds.
const OPEN: usize = 4;
/// How long the gate may take at a quiet point: one minute after the last blocker is gone, plus the longest backoff of
/// an interrupted watch.
const QUIET: Duration = Duration::from_secs(150);
/// One part in this many of the time is spent at the end with everything at rest.
const STILL: u32 = 12;
const RESOURCES: [&str; 5] = [
    "pods",
    "nodes",
    "csinodes",
    "persistentvolumeclaims",
    "persistentvolumes",
];

/// Counts of what happened.
#[derive(Debug, Default)]
pub struct Tally {
    /// Writes of objects.
    pub changes: usize,
    /// Watches that were ended.
    pub watches: usize,
    /// Restarts of the API server.
    pub restarts: usize,
    /// Hosts that lost power.
    pub deaths: usize,
    /// Quiet points.
    pub quiet: usize,
    /// Quiet points at which the gate did not reach the expected state.
    pub wrong: usize,
    /// Writes of `True` in rounds in which upgrades had to be held throughout.
    pub opened: usize,
    /// Writes of `True` in the other rounds.
    pub rightly_opened: usize,
}

/// The state of the soak.
pub struct Rounds<'a> {
    sandbox: &'a Sandbox,
    proxy: &'a ApiProxy,
    cluster: Cluster,
    random: Random,
    tally: Tally,
    /// Offset up to which the audit log has been read.
    read: u64,
}

impl<'a> Rounds<'a> {
    /// Fills the cluster.
    pub fn new(sandbox: &'a Sandbox, proxy: &'a ApiProxy, mut cluster: Cluster) -> Result<Self> {
        for _ in 0..NODES {
            cluster.add_node(false)?;
        }
        let nodes = cluster.nodes();
        for number in 0..PODS {
            cluster.add_pod(&nodes[number % NODES], number % 3 == 0)?;
        }
        let mut rounds = Self {
            sandbox,
            proxy,
            cluster,
            random: Random(0x5eed),
            tally: Tally::default(),
            read: 0,
        };
        rounds.quiet_point()?;
        Ok(rounds)
    }

    /// Runs rounds for `length`. The last part of it is spent at rest, with the cluster as large as at the beginning.
    pub fn run(&mut self, length: Duration) -> Result<Tally> {
        let start = Instant::now();
        let churning = length.saturating_sub(length / STILL);
        let mut round = 0;
        self.openings()?;
        while start.elapsed() < churning {
            round += 1;
            self.churn(round)?;
            self.quiet_point()?;
            self.tally.opened += self.openings()?;
            if round.is_multiple_of(OPEN) {
                self.open_and_close()?;
                self.tally.rightly_opened += self.openings()?;
            }
        }
        self.restore()?;
        self.quiet_point()?;
        self.tally.opened += self.openings()?;
        std::thread::sleep(length.saturating_sub(start.elapsed()));
        self.tally.changes = self.cluster.changes;
        Ok(std::mem::take(&mut self.tally))
    }

    /// Restores the initial number of nodes and pods, and turns all hosts on.
    fn restore(&mut self) -> Result<()> {
        while self.cluster.nodes().len() < NODES {
            self.cluster.add_node(false)?;
        }
        for node in self.cluster.nodes().drain(NODES..) {
            self.cluster.remove_node(&node)?;
        }
        let nodes = self.cluster.nodes();
        for node in &nodes {
            self.cluster.power(node, true)?;
        }
        while self.cluster.pods().len() < PODS {
            self.cluster.add_pod(&nodes[0], false)?;
        }
        for pod in self.cluster.pods().drain(PODS..) {
            self.cluster.remove_pod(&pod)?;
        }
        Ok(())
    }

    /// Makes changes and faults, while at least one node lacks its driver and at least one pod needs it.
    fn churn(&mut self, round: usize) -> Result<()> {
        for step in 0..CHANGES {
            self.change()?;
            if step % 20 == 10 {
                self.end_a_watch();
            }
            if round.is_multiple_of(RESTART) && step == CHANGES / 2 {
                self.tally.restarts += 1;
                self.sandbox.control_plane.restart_api_server()?;
            }
        }
        Ok(())
    }

    fn change(&mut self) -> Result<()> {
        let (nodes, pods) = (self.cluster.nodes(), self.cluster.pods());
        // The first node and the first pod, which has a volume, are never changed.
        let node = &nodes[1 + self.random.below(nodes.len() - 1)];
        let pod = &pods[1 + self.random.below(pods.len() - 1)];
        match self.random.below(20) {
            0..6 => self.cluster.touch_pod(pod),
            6..11 => self.add_or_remove_pod(node, pod, pods.len()),
            11..15 => {
                let registers = self.random.below(2) == 0;
                self.cluster.register(node, registers)
            }
            15 if nodes.len() < NODES + 4 => self.cluster.add_node(false),
            15 | 16 if nodes.len() > NODES - 4 => self.cluster.remove_node(node),
            17 => {
                self.tally.deaths += usize::from(self.cluster.power(node, false)?);
                Ok(())
            }
            18 => self.cluster.power(node, true).map(drop),
            _ => {
                self.cluster.cut(node);
                Ok(())
            }
        }
    }

    fn add_or_remove_pod(&mut self, node: &str, pod: &str, pods: usize) -> Result<()> {
        let adds = self.random.below(2) == 0;
        if pods < PODS - 30 || (adds && pods < PODS + 30) {
            let in_tree = self.random.below(3) == 0;
            self.cluster.add_pod(node, in_tree)
        } else {
            self.cluster.remove_pod(pod)
        }
    }

    fn end_a_watch(&mut self) {
        let resource = RESOURCES[self.random.below(RESOURCES.len())];
        let end = [End::Closed, End::Cut, End::Gone][self.random.below(3)];
        let again = self.random.below(4);
        if again > 0 {
            // The next watch is also ended early, or the list is cut or refused.
            let (on, fault) = match again {
                1 => (
                    On::to(Verb::Watch, resource),
                    Fault::EndAfter(self.random.below(5), end),
                ),
                2 => (On::to(Verb::List, resource), Fault::CutAfter(5_000)),
                _ => (On::to(Verb::List, resource), Fault::too_many(1)),
            };
            self.proxy.order_times(1, on, fault);
        }
        self.tally.watches += 1;
        self.proxy.end_watches(Some(resource), end);
    }

    /// Allows upgrades for a moment, then blocks them again.
    fn open_and_close(&mut self) -> Result<()> {
        for node in self.cluster.nodes() {
            self.cluster.register(&node, true)?;
        }
        self.quiet_point()?;
        let first = self.cluster.nodes().swap_remove(0);
        self.cluster.register(&first, false)?;
        self.quiet_point()
    }

    /// Lifts all faults and waits, without changes, until the gate matches both the objects and the verdict of `check`.
    fn quiet_point(&mut self) -> Result<()> {
        self.proxy.lift_all();
        self.tally.quiet += 1;
        let checked = self.check()?;
        let expected = if self.cluster.is_open() {
            "True"
        } else {
            "False"
        };
        let deadline = Instant::now() + QUIET;
        loop {
            let gate = gate(self.sandbox)?;
            if gate == checked && gate[0] == expected {
                return Ok(());
            }
            if Instant::now() > deadline {
                self.tally.wrong += 1;
                eprintln!("the gate says {gate:?}, check {checked:?}, the objects {expected}");
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns the verdict of `check`.
    fn check(&self) -> Result<[String; 3]> {
        let kubeconfig = self.sandbox.control_plane.kubeconfig();
        let output = Command::new(operator_binary()?)
            .args(["check", "-o", "json", "--kubeconfig"])
            .arg(kubeconfig)
            .env_remove("KUBECONFIG")
            .output()?;
        let report: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        Ok(["upgradeable", "reason", "message"].map(|field| {
            let value = report["verdict"][field].as_str();
            value.unwrap_or_default().to_owned()
        }))
    }

    /// Returns how often the operator has written `True` since the last call, according to the API server's audit log.
    fn openings(&mut self) -> Result<usize> {
        let control_plane = &self.sandbox.control_plane;
        let account = "windows-storage-operator";
        let requests = control_plane.requests_since(&mut self.read, NAMESPACE, account)?;
        let opens = |answer: &Value| {
            let conditions = answer["spec"]["conditions"].as_array();
            conditions.into_iter().flatten().any(|condition| {
                condition["type"] == "Upgradeable" && condition["status"] == "True"
            })
        };
        let writes = requests.iter().filter(|request| opens(&request.answer));
        Ok(writes.count())
    }
}

/// Pseudo-random numbers that are the same in every run: xorshift, whose quality does not matter here.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or_default() % end.max(1)
    }
}
