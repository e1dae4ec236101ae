//! Random fleets, settings, failures and restarts of the operator. Whatever happens, the limits are respected, and the
//! rollout ends.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::api::RolloutSpec;

/// Seconds between two ticks of the model.
const TICK: i64 = 300;
const FLEETS: u64 = 20;
/// Most ticks of a run. The fleets are small, so every rollout ends within them.
const LONGEST: usize = 3_000;

/// The actual state of a host in the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Host {
    /// csi-proxy is the old one.
    Old,
    /// In the middle of an update, for this many more ticks.
    Busy(u32),
    New,
    Undone,
}

struct Fleet {
    rng: StdRng,
    rig: Rig,
    hosts: BTreeMap<String, Host>,
    /// Unreachable nodes, and until which tick.
    dead: BTreeMap<String, usize>,
    /// Nodes on which the update fails until the cause is removed.
    bad: BTreeSet<String>,
    /// Nodes on which a process has observed the rollback.
    known: BTreeSet<String>,
    spec: Value,
    /// Until which tick this process counts as just started.
    settles: usize,
    counts: Counts,
}

/// Totals over all fleets, to make sure that the model does not pass by doing nothing.
#[derive(Debug, Default)]
struct Counts {
    updates: u64,
    failures: u64,
    restarts: u64,
    lost: u64,
    resumed: u64,
}

impl Fleet {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut rig = Rig::settled();
        let mut hosts = BTreeMap::new();
        let mut bad = BTreeSet::new();
        for number in 1..=rng.random_range(3..=12) {
            let name = format!("win-{number}");
            rig.add_node(&name, "windows");
            if rng.random_bool(0.1) {
                bad.insert(name.clone());
            }
            hosts.insert(name, Host::Old);
        }
        let rollout = json!({
            "maxUnavailable": rng.random_range(1..=3),
            "maxFailures": rng.random_range(1..=3),
        });
        let spec = json!({"rollout": rollout});
        rig.now = 1_000_000_000;
        rig.want(&spec);
        rig.pass();
        Self {
            rng,
            rig,
            hosts,
            dead: BTreeMap::new(),
            bad,
            known: BTreeSet::new(),
            spec,
            settles: 0,
            counts: Counts::default(),
        }
    }

    fn rollout(&self) -> RolloutSpec {
        serde_json::from_value(self.spec["rollout"].clone()).unwrap()
    }

    /// Starts another process, which knows only the stored objects.
    fn restart(&mut self) {
        self.rig.restart();
        let before = std::mem::take(&mut self.rig.cluster);
        let cluster = &mut self.rig.cluster;
        for name in self.hosts.keys() {
            let node = before.nodes.get(name.as_str()).unwrap();
            cluster.nodes.apply(name.as_str().into(), node.clone());
            cluster
                .csi_nodes
                .apply(name.as_str().into(), CsiNode::default());
            let status = before.node_statuses.get(name);
            cluster
                .node_statuses
                .apply(name.clone(), status.cloned().unwrap_or_default());
        }
        let map = before.config_maps.get(services::CONFIG_MAP).unwrap();
        cluster
            .config_maps
            .apply(services::CONFIG_MAP.to_owned(), map.clone());
        cluster.secrets.clone_from(&before.secrets);
        let settings = before.settings.get(SETTINGS_NAME).unwrap();
        cluster
            .settings
            .apply(SETTINGS_NAME.to_owned(), settings.clone());
        self.rig.read_verdict_kinds();
        self.rig.finish_configuration();
        self.rig.pass_after(0);
    }

    /// Runs a pass with observations of the reachable nodes, and writes its results.
    fn pass(&mut self, moment: usize) {
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        for name in &names {
            let standing = match self.hosts[name] {
                _ if self.dead.contains_key(name) => Standing::Unreachable,
                // A login during an update waits for the agent's answer.
                Host::Busy(_) => continue,
                Host::Old => Standing::Waiting,
                Host::New => Standing::Current,
                Host::Undone => Standing::Failed,
            };
            // Nodes are observed one after the other.
            if moment < self.settles && self.rng.random_bool(0.5) {
                continue;
            }
            self.rig.see(name, standing);
            if standing == Standing::Failed {
                self.known.insert(name.clone());
            }
            if standing != Standing::Unreachable {
                self.rig.slots.mark_settled(name);
            }
        }
        self.rig.settling = moment < self.settles;
        let todo = self.rig.pass_after(u64::try_from(TICK).unwrap());
        self.rig.write_statuses(&todo);
        if let Some((_, status)) = &todo.settings {
            self.rig.write_settings(status.clone());
        }
        // The watch delivers what was written.
        self.rig.pass_after(0);
    }

    /// Begins updates in granted slots, and checks that each may begin.
    fn begin(&mut self) {
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        for name in names {
            if self.dead.contains_key(&name) || self.hosts[&name] != Host::Old {
                continue;
            }
            let Some(mut slot) = self.rig.slots.take(&name) else {
                continue;
            };
            slot.begin();
            self.check(&name);
            let lasts = self.rng.random_range(0..3);
            self.hosts.insert(name.clone(), Host::Busy(lasts));
            self.counts.updates += 1;
            if self.rng.random_bool(0.1) {
                // The connection is lost; the agent continues on its own.
                self.counts.lost += 1;
                drop(slot);
            } else {
                self.rig.held.push((name, slot));
            }
        }
    }

    fn check(&self, name: &str) {
        let spec = self.rollout();
        let busy = self
            .hosts
            .values()
            .filter(|host| matches!(host, Host::Busy(_)));
        let most = spec.max_unavailable_of(self.hosts.len());
        assert!(busy.count() < most, "{name}: more than {most} at one time");
        let failed = self.known.len();
        assert!(
            failed < spec.max_failures as usize,
            "{name}: after {failed} failures"
        );
    }

    /// Updates continue, whether or not anybody watches them.
    fn work(&mut self) {
        for (name, host) in &mut self.hosts {
            let Host::Busy(left) = host else { continue };
            if let Some(less) = left.checked_sub(1) {
                *left = less;
                continue;
            }
            *host = if self.bad.contains(name) {
                Host::Undone
            } else {
                Host::New
            };
            self.counts.failures += u64::from(*host == Host::Undone);
            let held = self.rig.held.iter().position(|(held, _)| held == name);
            if let Some(at) = held {
                self.rig.held.remove(at).1.settle();
            }
        }
    }

    /// Runs the rollout to its end.
    fn run(mut self, seed: u64) -> Counts {
        for moment in 0..LONGEST {
            self.rig.now += TICK;
            self.dead.retain(|_, until| *until > moment);
            let calm = moment > LONGEST / 2;
            let names: Vec<String> = self.hosts.keys().cloned().collect();
            if !calm && self.rng.random_bool(0.05) {
                let name = &names[self.rng.random_range(0..names.len())];
                let until = moment + self.rng.random_range(1..20);
                self.dead.insert(name.clone(), until);
            }
            if !calm && self.rng.random_bool(0.05) {
                self.counts.restarts += 1;
                self.rig.held.clear();
                self.settles = moment + 3;
                self.restart();
            }
            self.work();
            self.pass(moment);
            self.begin();
            let is_new = |host: &Host| *host == Host::New;
            if self.hosts.values().all(is_new)
                && self.rig.last.rollout.all.current == self.hosts.len()
            {
                return self.counts;
            }
            let is_stopped = self.hosts.values().any(|host| *host == Host::Undone);
            if is_stopped && self.rng.random_bool(0.02) {
                // The administrator removes the cause.
                self.counts.resumed += 1;
                self.bad.clear();
                self.known.clear();
                self.spec["rollout"]["resume"] = moment.to_string().into();
                for host in self
                    .hosts
                    .values_mut()
                    .filter(|host| **host == Host::Undone)
                {
                    *host = Host::Old;
                }
                self.rig.want_again(&self.spec);
            }
        }
        panic!(
            "fleet {seed} does not end: {:?} {:?} {:?} {}",
            self.hosts, self.dead, self.rig.last.rollout, self.spec
        );
    }
}

#[test]
fn whatever_happens_the_limits_hold_and_the_rollout_ends() {
    let mut all = Counts::default();
    for seed in 0..FLEETS {
        let counts = Fleet::new(seed).run(seed);
        all.updates += counts.updates;
        all.failures += counts.failures;
        all.restarts += counts.restarts;
        all.lost += counts.lost;
        all.resumed += counts.resumed;
    }
    println!("{FLEETS} fleets: {all:?}");
    let least = FLEETS / 5;
    for count in [
        all.updates,
        all.failures,
        all.restarts,
        all.lost,
        all.resumed,
    ] {
        assert!(count > least, "{all:?}");
    }
}
