//! `must-gather` on a fleet with healthy, dead and unusual hosts.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use simulated_host::{File, KeyKind, Moment, SimulatedHost};
use testbed::objects;

use super::Simulation;
use super::secrets::MARK;
use crate::cluster::harness::{Harness, assert_has};
use crate::cluster::must_gather::{check, command, contents, gather, judgement};

const CSI_PROXY: &str = r"C:\var\log\csi-proxy";
/// Allows for the line that marks a log whose beginning was left out.
const LINE_OF_OURS: usize = 100;
const AGENT: &str = r"C:\var\log\windows-storage-agent";
/// Names that must not become one on the administrator's disk. Each is the content of its file.
const OF_NAMES: [&str; 5] = [
    "trap.yaml.txt",
    "a b.log",
    "a_b.log",
    "\u{436}.log",
    "\u{434}.log",
];

fn ready(simulation: &Simulation, nodes: usize) {
    simulation
        .harness
        .eventually("all nodes are ready", || simulation.ready().len() == nodes);
}

fn put_log(host: &SimulatedHost, folder: &str, name: &str, log: File) {
    host.with_disk(|disk| {
        disk.make_folders(folder);
        disk.put(&format!(r"{folder}\{name}"), log);
    });
}

fn summary(dest: &Path) -> String {
    fs::read_to_string(dest.join("summary.txt")).unwrap()
}

/// Adds logs of every kind: far too large, too old to fit, unreadable, and named like a file of objects.
fn fill(host: &SimulatedHost) {
    let put = |folder: &str, name: &str, modified: u32, log: File| {
        put_log(host, folder, name, log.modified(modified));
    };
    put(CSI_PROXY, "csi-proxy.log", 2_000, File::of_lines(2 << 30));
    put(CSI_PROXY, "trap.yaml", 4_000, File::new(b"kind: ["));
    for (name, modified) in OF_NAMES.iter().zip(4_001..) {
        put(CSI_PROXY, name, modified, File::new(name.as_bytes()));
    }
    let secret = format!("of the agent\nlogin --password {MARK}\n");
    put(AGENT, "agent.log", 3_000, File::new(secret.as_bytes()));
    put(AGENT, "agent.log.1", 1_000, File::of_lines(2 << 20));
    put(AGENT, "agent.log.2", 500, File::of_lines(2 << 20));
    put(AGENT, "locked.log", 5_000, File::new(b"x"));
    host.with_disk(|disk| disk.lock(&format!(r"{AGENT}\locked.log"), true));
}

/// Returns the kubeconfig of an account that has all permissions and is in the audit log.
fn reader(harness: &Harness) -> PathBuf {
    harness.kubectl("create serviceaccount reader -n default");
    let rights = "--clusterrole=cluster-admin --serviceaccount=default:reader";
    harness.kubectl(&format!("create clusterrolebinding reader {rights}"));
    let control_plane = harness.control_plane();
    let kubeconfig = control_plane.kubeconfig_for_service_account("default", "reader");
    kubeconfig.unwrap()
}

fn every_node_is_told_of(dest: &Path) {
    let text = summary(dest);
    assert_has(
        &text,
        &[
            "Windows nodes: 2 of 5 reached",
            "win-000: agent",
            "win-001: Unreachable",
            "win-002: HostKeyChanged",
            "win-003: LoginRefused",
            "win-004: no agent",
            "locked.log: [SFTP(4)]",
            "older log(s)",
            "DriversMissing",
        ],
    );
}

fn the_logs_are_within_bounds(node: &Path) {
    let newest = fs::read_to_string(node.join("csi-proxy/csi-proxy.log")).unwrap();
    assert!(
        newest.starts_with("[must-gather: the first "),
        "{}",
        &newest[..80]
    );
    let last = format!("line {:010}\n", (2_u64 << 30) / 16 - 1);
    assert!(newest.ends_with(&last));
    assert!(
        newest.len() <= (1 << 20) + LINE_OF_OURS && newest.len() > 1_000_000,
        "{}",
        newest.len()
    );
    assert_eq!(
        fs::read(node.join("windows-storage-agent/agent.log")).unwrap(),
        b"of the agent\nlogin --password (left out)\n"
    );
    let older = fs::metadata(node.join("windows-storage-agent/agent.log.1")).unwrap();
    assert!(
        older.len() <= (1 << 20) + LINE_OF_OURS as u64,
        "{}",
        older.len()
    );
    let mut of_names: Vec<String> = contents(&node.join("csi-proxy"))
        .into_iter()
        .filter(|(_, content)| content.len() < LINE_OF_OURS)
        .map(|(_, content)| String::from_utf8(content).unwrap())
        .collect();
    of_names.sort();
    let mut all = [&OF_NAMES[..], &["kind: ["]].concat();
    all.sort_unstable();
    assert_eq!(of_names, all);
    assert!(!node.join("windows-storage-agent/locked.log").exists());
    let of_node: u64 = contents(node)
        .iter()
        .map(|(_, content)| content.len() as u64)
        .sum();
    assert!(of_node < (2 << 20) + 20_000, "{of_node}");
}

#[test]
fn a_fleet_is_gathered_without_a_change_and_judged_as_it_was() {
    let simulation = Simulation::new(5);
    let harness = &simulation.harness;
    let control_plane = harness.control_plane();
    control_plane
        .apply(&objects::azure_disk_workload("win-000"))
        .unwrap();
    let operator = harness.start_with(&simulation.payload("v1.3.0"));
    ready(&simulation, 5);
    harness.expect_gate("False", "DriversMissing", &["win-004"]);
    // Nothing may change from here on, so that both verdicts are the same.
    operator.terminate().unwrap();

    let [good, dead, other, broken, silent] = &simulation.hosts[..] else {
        panic!("there are five");
    };
    fill(good);
    simulation.wait(dead.power_off()).unwrap();
    other.change_host_keys(&[KeyKind::Ed25519]).unwrap();
    let logins = other.counters().logins;
    broken.set_faults(|faults| faults.refuses_logins = true);
    silent.lose_agent();

    let kubeconfig = reader(harness);
    let requests = good.requests().len();
    let dest = control_plane.dir().join("gathered");
    let output = command(&kubeconfig, &dest)
        .args(["--node-log-limit", "2"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");

    every_node_is_told_of(&dest);
    the_logs_are_within_bounds(&dest.join("nodes/win-000"));
    nothing_was_changed(&simulation, good, requests);
    assert_eq!(
        other.counters().logins,
        logins,
        "a host with another key was logged in to"
    );

    let live = check(&["--kubeconfig".as_ref(), &kubeconfig]);
    assert_eq!(live.0, Some(3));
    assert_eq!(check(&["-f".as_ref(), &dest]), live);
    let read = |file: &str| fs::read_to_string(dest.join(file)).unwrap();
    let written: Value = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(judgement(written), live.1);
    assert!(read("report.html").contains("disk.csi.azure.com"));
    assert!(read("report.txt").contains("pv-orders"));
}

fn nothing_was_changed(simulation: &Simulation, good: &SimulatedHost, before: usize) {
    let control_plane = simulation.harness.control_plane();
    let asked = control_plane.requests_of("default", "reader").unwrap();
    assert!(asked.len() > 18, "{asked:#?}");
    for request in &asked {
        assert!(["get", "list"].contains(&&*request.verb), "{request:?}");
    }
    let requests = &good.requests()[before..];
    assert!(requests.contains(&"sftp read"), "{requests:?}");
    for change in ["open", "write", "remove", "mkdir", "rename", "extended"] {
        assert!(!requests.contains(&&*format!("sftp {change}")), "{change}");
    }
    // The registry was asked for the agent, and the agent for its status.
    let commands = requests.iter().filter(|request| **request == "command");
    assert_eq!(commands.count(), 2);
}

#[test]
fn a_log_that_is_shortened_is_no_failure_and_a_lost_connection_costs_one_node_its_logs() {
    let simulation = Simulation::new(3);
    let harness = &simulation.harness;
    let kubeconfig = harness.control_plane().kubeconfig();
    let operator = harness.start_with(&simulation.payload("v1.3.0"));
    ready(&simulation, 3);
    operator.terminate().unwrap();
    let [shortened, lost, _] = &simulation.hosts[..] else {
        panic!("there are three");
    };
    for host in &simulation.hosts {
        let log = File::of_lines(8 << 20).modified(2_000);
        put_log(host, CSI_PROXY, "csi-proxy.log", log);
        let log = File::new(b"of the agent\n").modified(1_000);
        put_log(host, AGENT, "agent.log", log);
    }

    // A first run, to see when each log is read.
    let all = || simulation.hosts.iter().map(SimulatedHost::requests);
    let before: Vec<usize> = all().map(|requests| requests.len()).collect();
    gather(kubeconfig, &harness.control_plane().dir().join("first"));
    let middles = all().zip(before).map(|(requests, before)| {
        let mut requests = requests[before..].iter();
        let first = requests.position(|request| *request == "sftp read");
        first.unwrap() as u64 + 20
    });
    let middles: Vec<u64> = middles.collect();
    shortened.hold_at(middles[0]);
    lost.cut_at(middles[1], Moment::Before);
    let dest = harness.control_plane().dir().join("second");
    let child = command(kubeconfig, &dest).spawn().unwrap();
    let held = shortened.wait_until(|counters| counters.held > 0);
    simulation.wait(held).unwrap();
    put_log(shortened, CSI_PROXY, "csi-proxy.log", File::new(b""));
    shortened.release();
    assert!(child.wait_with_output().unwrap().status.success());
    assert!(!lost.waits_to_cut());
    let text = summary(&dest);
    assert_has(
        &text,
        &[
            "csi-proxy.log was shortened while it was read",
            "reading ended after",
        ],
    );
    let log = |node: &str| {
        let path = dest.join(format!("nodes/{node}/csi-proxy/csi-proxy.log"));
        fs::read_to_string(path).unwrap_or_default()
    };
    assert!(log("win-000").starts_with("line 0000000000\n"));
    let agent = "nodes/win-000/windows-storage-agent/agent.log";
    assert!(dest.join(agent).exists(), "{text}");
    assert!(dest.join("nodes/win-001/state.json").exists());
    assert!(log("win-001").len() < 8 << 20);
    assert_eq!(log("win-002").len(), 8 << 20);
}
