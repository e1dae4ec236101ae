//! The state of one simulated host, shared by its server and its tests.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, Result};
use russh::keys::{PrivateKey, PublicKey};
use tokio::sync::watch;

use super::agent::{Agent, Printed};
use super::disk::Disk;
use super::faults::{Counters, Faults, Moment};
use super::gauge::{Entered, Gauges};
use super::penalty::Penalty;
use super::profile::{Profile, Shell};
use super::server::Cut;

/// The mutable state of a host.
#[derive(Debug)]
pub struct State {
    /// The version of its SSH server.
    pub profile: Profile,
    /// The shell that runs its commands.
    pub shell: Shell,
    /// The penalty of its client at the SSH server.
    pub penalty: Penalty,
    /// Its disk.
    pub disk: Disk,
    /// Its agent.
    pub agent: Agent,
    /// Its faults.
    pub faults: Faults,
    /// The names of all requests, in order.
    pub requests: Vec<&'static str>,
    /// Host keys, and the connection from which they apply; the last matching entry wins.
    pub keys: Vec<(u64, Vec<PrivateKey>)>,
    /// Set while csi-proxy is stopped.
    pub stopped: Option<Entered>,
    /// When csi-proxy was stopped for a change.
    pub interruptions: Vec<SystemTime>,
}

impl State {
    fn run(&mut self, line: &str) -> Printed {
        self.agent.run(&mut self.disk, self.shell, line)
    }
}

/// One host.
#[derive(Debug)]
pub struct Host {
    state: Mutex<State>,
    /// Locked by the request that the agent is carrying out.
    one_at_a_time: tokio::sync::Mutex<()>,
    counters: watch::Sender<Counters>,
    cuts: watch::Sender<u64>,
    releases: watch::Sender<u64>,
    login: PublicKey,
    /// Whether the power is off.
    down: watch::Sender<bool>,
    /// The gauges of the whole fleet.
    pub gauges: Arc<Gauges>,
}

impl Host {
    pub fn new(login: PublicKey, keys: Vec<PrivateKey>, gauges: Arc<Gauges>) -> Self {
        Self {
            state: Mutex::new(State {
                profile: Profile::V9_5,
                shell: Shell::Cmd,
                penalty: Penalty::default(),
                disk: Disk::default(),
                agent: Agent::default(),
                faults: Faults::default(),
                requests: Vec::new(),
                keys: vec![(0, keys)],
                stopped: None,
                interruptions: Vec::new(),
            }),
            one_at_a_time: tokio::sync::Mutex::default(),
            counters: watch::Sender::default(),
            cuts: watch::Sender::default(),
            releases: watch::Sender::default(),
            login,
            down: watch::Sender::default(),
            gauges,
        }
    }

    /// Reads or changes the state. Keep `change` short, because it holds the lock.
    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn faults(&self) -> Faults {
        self.change(|state| state.faults.clone())
    }

    pub fn count(&self, change: impl FnOnce(&mut Counters)) {
        self.counters.send_modify(change);
    }

    pub fn counters(&self) -> watch::Receiver<Counters> {
        self.counters.subscribe()
    }

    /// Returns a receiver that changes when all connections have to end.
    pub fn cuts(&self) -> watch::Receiver<u64> {
        self.cuts.subscribe()
    }

    pub fn cut_connections(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Returns a receiver that changes when the power goes off or on.
    pub fn power(&self) -> watch::Receiver<bool> {
        self.down.subscribe()
    }

    pub fn set_down(&self, down: bool) {
        self.down.send_replace(down);
        if down {
            self.cut_connections();
        }
    }

    /// Returns the host keys for the current connection.
    pub fn host_keys(&self) -> Vec<PrivateKey> {
        let connection = self.counters.borrow().connections;
        self.change(|state| {
            let fitting = state.keys.iter().rev();
            fitting
                .clone()
                .find(|(from, _)| *from <= connection)
                .map(|(_, keys)| keys.clone())
                .unwrap_or_default()
        })
    }

    pub fn lets_in(&self, key: &PublicKey) -> bool {
        !self.faults().refuses_logins && key.key_data() == self.login.key_data()
    }

    /// Registers a request: numbers it and applies its faults.
    pub async fn admit(&self, name: &'static str) -> Result<u64, Cut> {
        let mut number = 0;
        self.count(|counters| {
            counters.requests += 1;
            number = counters.requests;
        });
        self.gauges.came(name);
        let faults = self.change(|state| {
            state.requests.push(name);
            state.faults.clone()
        });
        if !faults.latency.is_zero() {
            tokio::time::sleep(faults.latency).await;
        }
        if faults.hold == Some(number) {
            self.hold().await;
        }
        self.cut(number, Moment::Before)?;
        Ok(number)
    }

    /// Called when a request was carried out, before it is answered.
    pub fn settle(&self, number: u64) -> Result<(), Cut> {
        self.cut(number, Moment::After)
    }

    fn cut(&self, number: u64, moment: Moment) -> Result<(), Cut> {
        let is_cut = self.change(|state| {
            let is_cut = state.faults.cut == Some((number, moment));
            if is_cut {
                state.faults.cut = None;
            }
            is_cut
        });
        if is_cut {
            self.cut_connections();
            return Err(Cut);
        }
        Ok(())
    }

    /// Waits for the next release.
    pub async fn hold(&self) {
        let mut releases = self.releases.subscribe();
        self.count(|counters| counters.held += 1);
        // The sender lives as long as this host.
        let _ = releases.changed().await;
        self.count(|counters| counters.held -= 1);
    }

    pub fn release(&self) {
        self.releases.send_modify(|releases| *releases += 1);
    }

    /// Runs a command immediately, unless the power is cut in the middle of it.
    pub fn carry_out(&self, line: &str) -> Result<Printed, Cut> {
        if self.loses_power_in(line) {
            return Err(Cut);
        }
        Ok(self.change(|state| state.run(line)))
    }

    /// Returns whether a command stops csi-proxy for a while.
    pub fn takes_time(&self, line: &str) -> bool {
        self.change(|state| {
            !state.faults.interruption.is_zero() && Agent::requested(&state.disk, line).is_some()
        })
    }

    /// Runs a command, with csi-proxy stopped meanwhile. It continues until the power is cut, even without its client.
    pub async fn carry_out_in_time(&self, line: &str) -> Result<Printed, Cut> {
        if !self.takes_time(line) {
            return self.carry_out(line);
        }
        let _one = self.one_at_a_time.lock().await;
        let mut power = self.power();
        let interruption = self.change(|state| {
            let request = state.agent.interrupts(&state.disk, line)?;
            state.agent.unfinished = Some(request);
            state.stopped = Some(Entered::new(&self.gauges.interrupted));
            state.interruptions.push(SystemTime::now());
            Some(state.faults.interruption)
        });
        if let Some(interruption) = interruption {
            tokio::select! {
                biased;
                // The sender lives as long as this host.
                _ = power.wait_for(|down| *down) => return Err(Cut),
                () = tokio::time::sleep(interruption) => {}
            }
        }
        Ok(self.change(|state| {
            state.agent.unfinished = None;
            let printed = state.run(line);
            state.stopped = None;
            printed
        }))
    }

    /// Cuts the power if this command is the one to be interrupted by it.
    pub fn loses_power_in(&self, line: &str) -> bool {
        let lost = self.change(|state| {
            if !state.faults.reboot_in_apply {
                return false;
            }
            let request = Agent::requested(&state.disk, line);
            let lost = request.is_some();
            if lost {
                state.faults.reboot_in_apply = false;
                state.agent.unfinished = request;
            }
            lost
        });
        if lost {
            self.set_down(true);
        }
        lost
    }

    /// Waits until `holds` returns true for the counters.
    pub async fn wait_until(&self, holds: impl FnMut(&Counters) -> bool) -> Result<Counters> {
        let mut counters = self.counters();
        let waited = tokio::time::timeout(super::PATIENCE, counters.wait_for(holds)).await;
        let found =
            waited.with_context(|| format!("the host is at {:?}", self.counters.borrow()))?;
        Ok(found?.clone())
    }
}
