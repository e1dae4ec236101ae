//! The programs on the nodes are killed: the agent, csi-proxy, or both. Under Wine, only the agent restarts csi-proxy,
//! and only the operator restarts the agent, because the service manager reports a dead process as running.
//!
//! `CHAOS_SEED` repeats the choices of an earlier run.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use testbed::node_agent::csi_proxy_answers;
use testbed::windows_host::WindowsHost;

use crate::cluster::harness::Harness;

const AGENT: &str = r"C:\k\windows-storage-agent.exe service";
const CSI_PROXY: &str = r"C:\k\csi-proxy.exe";
const NODES: [&str; 2] = ["win-1", "win-2"];
/// For how long programs are killed.
const TROUBLE: Duration = Duration::from_secs(120);

fn is_alive(host: &WindowsHost, program: &str) -> bool {
    !host.processes_of(program).unwrap().is_empty()
}

struct Scene {
    harness: Harness,
    hosts: Vec<WindowsHost>,
}

impl Scene {
    fn new() -> Self {
        let harness = Harness::new();
        let hosts = NODES.map(|node| harness.sandbox.add_windows_node(node).unwrap());
        harness.sandbox.give_access().unwrap();
        Self {
            harness,
            hosts: hosts.into(),
        }
    }

    /// Waits until every node is ready and both of its programs run. Returns how long that took.
    fn expect_all_alive(&self) -> Duration {
        let begin = Instant::now();
        self.harness.eventually("all programs run again", || {
            let mut hosts = self.hosts.iter();
            hosts.all(|host| is_alive(host, AGENT) && is_alive(host, CSI_PROXY))
        });
        for (node, host) in NODES.iter().zip(&self.hosts) {
            self.harness.expect_csi_proxy(node);
            // The status may be from before, and a process that just started has no pipes yet.
            let what = format!("csi-proxy answers on {node}");
            (self.harness).eventually(&what, || csi_proxy_answers(host).is_ok());
        }
        begin.elapsed()
    }
}

#[test]
fn an_agent_that_is_dead_is_restarted() {
    let scene = Scene::new();
    let _operator = scene.harness.start();
    scene.expect_all_alive();

    // While csi-proxy is alive, storage still works, but nothing would restart it.
    scene.hosts[0].kill(AGENT).unwrap();
    scene.expect_all_alive();
    for program in [AGENT, CSI_PROXY] {
        scene.hosts[1].kill(program).unwrap();
    }
    scene.expect_all_alive();
    let log = scene.harness.log();
    let restarts = log.matches("the agent on the node does not answer; it is restarted");
    assert!(restarts.count() >= 2, "{log}");
}

#[test]
#[ignore = "make chaos"]
fn programs_that_are_killed_at_random_all_come_back() {
    let seed = std::env::var("CHAOS_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    let scene = Scene::new();
    let _operator = scene.harness.start();
    scene.expect_all_alive();
    for seed in (seed..).take(10) {
        let mut dice = StdRng::seed_from_u64(seed);
        let (begin, mut kills) = (Instant::now(), 0);
        while begin.elapsed() < TROUBLE {
            let host = &scene.hosts[dice.random_range(0..NODES.len())];
            for program in [AGENT, CSI_PROXY] {
                if dice.random_bool(0.6) {
                    host.kill(program).unwrap();
                    kills += 1;
                }
            }
            sleep(Duration::from_millis(dice.random_range(100..8000)));
        }
        let took = scene.expect_all_alive();
        println!("CHAOS_SEED={seed}: {kills} kills, all back after {took:?}");
    }
}
