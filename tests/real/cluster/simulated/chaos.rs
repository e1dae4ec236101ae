//! The operator is killed again and again while it updates ten hosts, and the result must be the same as that of an
//! operator without any disturbance.
//!
//! `CHAOS_KILLS` sets the number of kills, `CHAOS_SEED` repeats the choices of an earlier run. What was hit is printed,
//! and written to the file in `CHAOS_SUMMARY`.

mod end;
mod judge;
mod moment;
mod payloads;

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use simulated_host::{Moment as CutAt, SimulatedHost};
use testbed::api_proxy::ApiProxy;
use testbed::objects;
use testbed::sandbox::Operator;

use super::Simulation;
use crate::cluster::harness::SETTINGS;
use judge::Judge;
use moment::{Before, Moment, PHASES, Phase};
use payloads::Payloads;

const HOSTS: usize = 10;
/// Default number of kills.
const KILLS: u64 = 200;
/// With at least this many kills, each phase must have been hit.
const MANY: u64 = 150;
/// How long csi-proxy is stopped for an update: long enough to be hit, and short compared with the check interval.
const INTERRUPTION: Duration = Duration::from_millis(400);
/// A request number that no host ever reaches.
const NEVER: u64 = u64::MAX / 2;
/// How long the last statuses may take to be written; any difference left then is reported.
const SETTLING: Duration = Duration::from_secs(60);
/// SIGTERM.
const TERMINATED: i32 = 15;
const DRIVER: &str = "disk.csi.azure.com";
/// The node that temporarily lacks the driver.
const LACKING: &str = "win-003";

/// The state of a run.
struct Chaos {
    simulation: Simulation,
    proxy: ApiProxy,
    payloads: Payloads,
    judge: Judge,
    dice: StdRng,
    /// The current target version.
    version: u32,
    /// Nodes that lost power during this update: a second time would count as a failure of the update.
    lost_power: Vec<String>,
    hit: BTreeMap<Phase, u64>,
    disturbances: BTreeMap<&'static str, u64>,
}

#[test]
#[ignore = "make chaos"]
fn killed_at_any_moment_of_rollouts_it_ends_where_an_undisturbed_one_does() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let kills = number("CHAOS_KILLS").unwrap_or(KILLS);
    let seed = number("CHAOS_SEED").unwrap_or_else(rand::random);
    println!("CHAOS_SEED={seed} CHAOS_KILLS={kills}");
    let started = Instant::now();
    let mut chaos = Chaos::new(seed);
    let reference = chaos.undisturbed();
    for kill in 0..kills {
        if chaos.has_arrived() {
            chaos.want_next_version();
        }
        if chaos.dice.random_bool(0.2) {
            chaos.turn_driver();
        }
        let before = Before::of(&chaos.simulation, &chaos.proxy);
        let logged = chaos.log().len();
        let operator = chaos.start();
        chaos.disturb(&operator);
        // Chance alone occasionally misses a phase, but a long run has to hit each.
        let missed = PHASES.iter().find(|phase| !chaos.hit.contains_key(phase));
        let moment = match missed.filter(|_| kill % 8 == 7) {
            Some(phase) => Moment::aimed_at(*phase, &mut chaos.dice),
            None => Moment::any(&mut chaos.dice),
        };
        let phase = moment.come(&chaos.simulation, &chaos.proxy, &before, &mut chaos.dice);
        *chaos.hit.entry(phase).or_default() += 1;
        // A kubelet sends SIGTERM first, and kills the process after the grace period.
        if chaos.dice.random_bool(0.15) {
            // A process that has just started does not handle signals yet, and is ended by them. Once it logs, it does.
            let may_be_early = chaos.log().len() == logged;
            let status = operator.terminate().unwrap();
            let is_early = may_be_early && status.signal() == Some(TERMINATED);
            assert!(
                status.success() || is_early,
                "kill {kill} {phase}: {status}\n{}",
                chaos.log()
            );
        } else {
            operator.kill().unwrap();
        }
        for host in &chaos.simulation.hosts {
            // Cancels a hold that was not reached, so that it does not apply later.
            host.hold_at(NEVER);
            host.release();
        }
        chaos.judge.look(&chaos.simulation, kill);
    }
    chaos.settle(&reference);
    chaos.tell(seed, kills, started.elapsed());
    if kills >= MANY {
        let missed: Vec<&Phase> = (PHASES.iter())
            .filter(|phase| !chaos.hit.contains_key(phase))
            .collect();
        assert!(missed.is_empty(), "never killed in {missed:?}");
    }
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let simulation = Simulation::new(HOSTS);
        let harness = &simulation.harness;
        let copy = harness.control_plane().dir().join("chaos.kubeconfig");
        std::fs::copy(harness.command.kubeconfig(), &copy).unwrap();
        let proxy = ApiProxy::start(&copy).unwrap();
        let drivers: Vec<String> = (simulation.hosts.iter())
            .map(|host| objects::csi_node(host.name(), &[DRIVER]))
            .collect();
        let control_plane = harness.control_plane();
        control_plane.apply(&drivers.join("---\n")).unwrap();
        control_plane
            .apply(&objects::azure_disk_workload("win-000"))
            .unwrap();
        let payloads = Payloads::new(control_plane.dir());
        for host in &simulation.hosts {
            host.set_faults(|faults| faults.interruption = INTERRUPTION);
        }
        Self {
            judge: Judge::new(),
            simulation,
            proxy,
            payloads,
            dice: StdRng::seed_from_u64(seed),
            version: 0,
            lost_power: Vec::new(),
            hit: BTreeMap::new(),
            disturbances: BTreeMap::new(),
        }
    }

    fn log(&self) -> String {
        self.simulation.harness.log()
    }

    fn start(&self) -> Operator {
        let payload = self.payloads.of(self.version);
        let harness = &self.simulation.harness;
        let command = harness.command.with_payload(&payload);
        let command = command.with_kubeconfig(self.proxy.kubeconfig());
        let log = harness.control_plane().dir().join("operator.log");
        command.start(Some(&log), &[], true).unwrap()
    }

    /// Installs a first version and updates it, without disturbance, and returns the result as the reference.
    fn undisturbed(&mut self) -> end::State {
        self.want_next_version();
        let operator = self.start();
        self.arrive();
        assert!(operator.terminate().unwrap().success());
        // From here on, csi-proxy must never be missing.
        self.judge.note_programs(&self.simulation);
        self.want_next_version();
        let operator = self.start();
        self.arrive();
        let harness = &self.simulation.harness;
        harness.expect_open();
        let mut state = end::State::default();
        harness.eventually("nothing changes any more", || {
            let before = std::mem::replace(&mut state, self.state());
            state == before && state.is_at_rest()
        });
        assert!(operator.terminate().unwrap().success());
        self.judge.look(&self.simulation, 0);
        state
    }

    fn state(&self) -> end::State {
        end::State::of(&self.simulation, self.version)
    }

    /// Returns whether every host has the current version, with no change in progress.
    fn has_arrived(&self) -> bool {
        let wanted = Payloads::sha256(self.version);
        let has_it = |host: &SimulatedHost| payloads::csi_proxy_of(host).as_ref() == Some(&wanted);
        let gauges = self.simulation.fleet.gauges();
        self.simulation.hosts.iter().all(has_it) && gauges.interrupted.now() == 0
    }

    fn arrive(&self) {
        let harness = &self.simulation.harness;
        harness.eventually("all hosts have the new csi-proxy", || self.has_arrived());
        let version = Payloads::version(self.version);
        harness.eventually("all statuses say so", || {
            let list = harness.list("windowsnodestorages");
            let nodes = list["items"].as_array().unwrap();
            let is_there = |node: &&serde_json::Value| {
                node["status"]["csiProxy"]["version"] == version.as_str()
            };
            nodes.iter().filter(is_there).count() == HOSTS
        });
        harness.expect(SETTINGS, "RolloutProgressing", "False", "Complete");
    }

    /// Targets another version, with alternating limits of one node and two nodes at a time.
    fn want_next_version(&mut self) {
        self.version += 1;
        self.lost_power.clear();
        let most = 1 + usize::try_from(self.version % 2).unwrap();
        self.simulation
            .want(&json!({"rollout": {"maxUnavailable": most}}));
        self.payloads.make(self.version);
        self.judge.expect(&self.simulation, most);
    }

    /// Registers or unregisters the driver on one node.
    fn turn_driver(&mut self) {
        let is_there = !self.judge.lacks_driver();
        *self.disturbances.entry("driver").or_default() += 1;
        if is_there {
            self.simulation.harness.register(LACKING, false);
            self.judge.driver_went();
        } else {
            // The gate must not open before the driver is registered.
            self.judge.driver_comes();
            self.simulation.harness.register(LACKING, true);
        }
    }

    /// Occasionally causes another disturbance.
    fn disturb(&mut self, operator: &Operator) {
        let name = self.simulation.hosts[self.dice.random_range(0..HOSTS)]
            .name()
            .to_owned();
        let host = self.simulation.host(&name);
        let what = match self.dice.random_range(0..12) {
            0 => {
                host.cut_connections();
                "connections cut"
            }
            1 => {
                let moment = if self.dice.random_bool(0.5) {
                    CutAt::Before
                } else {
                    CutAt::After
                };
                host.cut_at(self.dice.random_range(1..40), moment);
                "connection cut at a request"
            }
            2 if !self.lost_power.contains(&name) => {
                self.simulation.wait(host.power_off()).unwrap();
                self.simulation.wait(host.boot()).unwrap();
                self.lost_power.push(name);
                "power lost"
            }
            3 => {
                let pause = Duration::from_millis(self.dice.random_range(50..800));
                operator.pause(true).unwrap();
                std::thread::sleep(pause);
                operator.pause(false).unwrap();
                "operator paused"
            }
            _ => return,
        };
        *self.disturbances.entry(what).or_default() += 1;
    }

    /// Lets the last operator finish without disturbance, and compares the result with the reference.
    fn settle(&mut self, reference: &end::State) {
        if self.judge.lacks_driver() {
            self.turn_driver();
        }
        let operator = self.start();
        self.arrive();
        let harness = &self.simulation.harness;
        harness.expect_open();
        let mut last = self.state();
        let until = Instant::now() + SETTLING;
        while last != *reference && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(200));
            last = self.state();
        }
        last.assert_same(reference);
        self.judge.look(&self.simulation, u64::MAX);
        assert!(operator.terminate().unwrap().success());
        harness.assert_nothing_was_forbidden();
    }

    fn tell(&self, seed: u64, kills: u64, took: Duration) {
        let seconds = took.as_secs();
        let rollouts = self.version - 1;
        println!("{kills} kills in {rollouts} rollouts of {HOSTS} hosts, {seconds} s");
        for (phase, count) in &self.hit {
            println!("  killed {phase}: {count}");
        }
        for (what, count) in &self.disturbances {
            println!("  besides, {what}: {count}");
        }
        let Ok(path) = std::env::var("CHAOS_SUMMARY") else {
            return;
        };
        let hit: BTreeMap<String, u64> = (self.hit.iter())
            .map(|(phase, count)| (phase.to_string(), *count))
            .collect();
        let summary = json!({
            "seed": seed, "kills": kills, "rollouts": rollouts, "hosts": HOSTS, "seconds": seconds,
            "phases": hit, "disturbances": self.disturbances, "interruptions": self.judge.interruptions(),
            "gateWrites": self.judge.gate_writes(),
        });
        std::fs::write(path, summary.to_string()).unwrap();
    }
}
