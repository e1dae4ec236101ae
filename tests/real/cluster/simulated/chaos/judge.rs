//! Checks what must hold at every moment, whatever is killed. It uses the records of the hosts and the API server,
//! which miss no moment.

use std::collections::BTreeSet;
use std::time::SystemTime;

use jiff::Timestamp;
use simulated_host::SimulatedHost;
use testbed::control_plane::Request;
use testbed::objects::NAMESPACE;

use super::payloads::{AGENT, CSI_PROXY, Payloads};
use crate::cluster::simulated::Simulation;

/// What was recorded so far.
pub struct Judge {
    /// Offset up to which the audit log was read.
    place: u64,
    /// Each write of the gate: time, status, reason.
    gate: Vec<(Timestamp, String, String)>,
    /// Periods in which a node lacks the driver that a workload needs.
    lacking: Vec<(Timestamp, Option<Timestamp>)>,
    /// How many nodes may currently be without csi-proxy.
    most: usize,
    /// Number of versions so far, any of which csi-proxy may have.
    versions: u32,
    programs_are_noted: bool,
    /// How often csi-proxy was stopped, on all hosts.
    stops: usize,
}

impl Judge {
    pub fn new() -> Self {
        Self {
            stops: 0,
            place: 0,
            gate: Vec::new(),
            lacking: Vec::new(),
            most: 0,
            versions: 0,
            programs_are_noted: false,
        }
    }

    /// Sets another target version and limit of concurrent nodes. No change may be in progress.
    pub fn expect(&mut self, simulation: &Simulation, most: usize) {
        self.most = most;
        self.versions += 1;
        simulation.fleet.gauges().interrupted.forget_most();
    }

    /// Starts recording every content of each program.
    pub fn note_programs(&mut self, simulation: &Simulation) {
        self.programs_are_noted = true;
        for host in &simulation.hosts {
            host.with_disk(|disk| {
                disk.note(CSI_PROXY);
                disk.note(AGENT);
            });
        }
    }

    pub fn lacks_driver(&self) -> bool {
        self.lacking.last().is_some_and(|(_, end)| end.is_none())
    }

    /// Records that the driver was unregistered while no operator runs, so every later operator sees it.
    pub fn driver_went(&mut self) {
        self.lacking.push((Timestamp::now(), None));
    }

    /// Records that the driver is about to be registered.
    pub fn driver_comes(&mut self) {
        if let Some((_, end)) = self.lacking.last_mut() {
            *end = Some(Timestamp::now());
        }
    }

    pub fn gate_writes(&self) -> usize {
        self.gate.len()
    }

    pub fn interruptions(&self) -> usize {
        self.stops
    }

    /// Checks everything that was recorded so far.
    pub fn look(&mut self, simulation: &Simulation, kill: u64) {
        let most = simulation.fleet.gauges().interrupted.most();
        assert!(
            most <= self.most,
            "kill {kill}: csi-proxy was stopped on {most} nodes at one time, {} may be",
            self.most
        );
        self.judge_programs(simulation, kill);
        self.judge_gate(simulation, kill);
        let log = simulation.harness.log();
        assert!(!log.contains("panicked"), "kill {kill}: {log}");
    }

    /// Asserts that each program was complete and present at every moment.
    fn judge_programs(&self, simulation: &Simulation, kill: u64) {
        if !self.programs_are_noted {
            return;
        }
        let whole: BTreeSet<Option<String>> = (1..=self.versions)
            .map(|version| Some(Payloads::sha256(version)))
            .collect();
        let agent: BTreeSet<Option<String>> = [Some(Payloads::agent_sha256())].into();
        for host in &simulation.hosts {
            let (csi_proxy, of_agent) =
                host.with_disk(|disk| (disk.noted(CSI_PROXY), disk.noted(AGENT)));
            assert!(
                csi_proxy.is_subset(&whole),
                "kill {kill}: csi-proxy was not whole on {}",
                host.name()
            );
            assert_eq!(of_agent, agent, "kill {kill}: the agent of {}", host.name());
        }
    }

    fn judge_gate(&mut self, simulation: &Simulation, kill: u64) {
        let control_plane = simulation.harness.control_plane();
        let account = "windows-storage-operator";
        let requests = control_plane.requests_since(&mut self.place, NAMESPACE, account);
        self.gate.extend(requests.unwrap().iter().filter_map(value));
        for (at, status, reason) in self.gate.iter().filter(|(_, status, _)| status == "True") {
            let lacks = |(from, to): &(Timestamp, Option<Timestamp>)| {
                at > from && to.is_none_or(|to| *at < to)
            };
            assert!(
                !self.lacking.iter().any(lacks),
                "kill {kill}: the gate became {status} ({reason}) at {at}, while a driver was missing: {:?}",
                self.lacking
            );
        }
        self.gate.sort_by_key(|(at, ..)| *at);
        self.stops = 0;
        for stop in simulation
            .hosts
            .iter()
            .flat_map(SimulatedHost::interruptions)
        {
            self.stops += 1;
            let stop = at(stop);
            let before = self.gate.partition_point(|(at, ..)| *at < stop);
            let said = self.gate[..before].last();
            assert!(
                said.is_some_and(|(_, status, _)| status == "False"),
                "kill {kill}: csi-proxy was stopped at {stop}, and the gate said {said:?}"
            );
        }
    }
}

fn at(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap()
}

/// Returns the value that a request gave the gate.
fn value(request: &Request) -> Option<(Timestamp, String, String)> {
    let conditions = request.answer["spec"]["conditions"].as_array()?;
    let ours = conditions
        .iter()
        .find(|condition| condition["type"] == "Upgradeable")?;
    let text = |field: &str| ours[field].as_str().unwrap_or_default().to_owned();
    Some((request.at.parse().unwrap(), text("status"), text("reason")))
}
