//! `must-gather` on a fleet with healthy, dead and unusual hosts, without any secrets.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use testbed::objects;
use testbed::simulated_host::{File, KeyKind, SimulatedHost};

use super::Simulation;
use super::secrets::{MARK, secrets};
use crate::system::must_gather::{check, command, contents, gather};

const CSI_PROXY: &str = r"C:\var\log\csi-proxy";
/// Allows for the line that marks a log whose beginning was left out.
const LINE_OF_OURS: usize = 100;
const AGENT: &str = r"C:\var\log\windows-storage-agent";

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
    put_log(
        host,
        CSI_PROXY,
        "csi-proxy.log",
        File::of_lines(2 << 30).modified(2_000),
    );
    put_log(
        host,
        CSI_PROXY,
        "trap.yaml",
        File::new(b"kind: [").modified(4_000),
    );
    for (name, modified) in [
        "trap.yaml.txt",
        "a b.log",
        "a_b.log",
        "\u{436}.log",
        "\u{434}.log",
    ]
    .iter()
    .zip(4_001..)
    {
        let log = File::new(name.as_bytes()).modified(modified);
        put_log(host, CSI_PROXY, name, log);
    }
    let secret = format!("of the agent\nlogin --password {MARK}\n");
    put_log(
        host,
        AGENT,
        "agent.log",
        File::new(secret.as_bytes()).modified(3_000),
    );
    put_log(
        host,
        AGENT,
        "agent.log.1",
        File::of_lines(2 << 20).modified(1_000),
    );
    put_log(
        host,
        AGENT,
        "agent.log.2",
        File::of_lines(2 << 20).modified(500),
    );
    put_log(host, AGENT, "locked.log", File::new(b"x").modified(5_000));
    host.with_disk(|disk| disk.lock(&format!(r"{AGENT}\locked.log"), true));
}

/// Returns the kubeconfig of an account that has all permissions and is in the audit log.
fn reader(simulation: &Simulation) -> PathBuf {
    let control_plane = &simulation.harness.sandbox.control_plane;
    let account = ["create", "serviceaccount", "reader", "-n", "default"];
    control_plane.kubectl(&account).unwrap();
    let rights = [
        "create",
        "clusterrolebinding",
        "reader",
        "--clusterrole=cluster-admin",
        "--serviceaccount=default:reader",
    ];
    control_plane.kubectl(&rights).unwrap();
    control_plane
        .kubeconfig_for_service_account("default", "reader")
        .unwrap()
}

fn every_node_is_told_of(dest: &Path) {
    let text = summary(dest);
    for words in [
        "Windows nodes: 2 of 5 reached",
        "win-000: agent",
        "win-001: Unreachable",
        "win-002: HostKeyChanged",
        "win-003: LoginRefused",
        "win-004: no agent",
        "locked.log: [SFTP(4)]",
        "older log(s)",
        "a b.log is written as a_b.log.",
        "trap.yaml is written as trap.yaml.",
        "DriversMissing",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
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
    let all = [
        "a b.log",
        "a_b.log",
        "kind: [",
        "trap.yaml.txt",
        "\u{434}.log",
        "\u{436}.log",
    ];
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
    let control_plane = &harness.sandbox.control_plane;
    control_plane
        .apply(&objects::azure_disk_workload("win-000"))
        .unwrap();
    control_plane.apply(&secrets()).unwrap();
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

    let kubeconfig = reader(&simulation);
    let requests = good.requests().len();
    let dest = control_plane.dir().join("gathered");
    let begin = Instant::now();
    let output = command(&kubeconfig, &dest)
        .args(["--node-log-limit", "2"])
        .output()
        .unwrap();
    println!("gathered in {:?}", begin.elapsed());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");

    every_node_is_told_of(&dest);
    the_logs_are_within_bounds(&dest.join("nodes/win-000"));
    no_secret_is_in(&dest, simulation.key_traces());
    nothing_was_changed(&simulation, good, requests);
    assert_eq!(
        other.counters().logins,
        logins,
        "a host with another key was logged in to"
    );

    let live = check(&["--kubeconfig".as_ref(), &kubeconfig]);
    assert_eq!(live.0, Some(3));
    assert_eq!(check(&["-f".as_ref(), &dest]), live);
    let written = fs::read(dest.join("report.json")).unwrap();
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&written).unwrap(),
        live.1
    );
    let page = fs::read_to_string(dest.join("report.html")).unwrap();
    assert!(page.contains("disk.csi.azure.com"), "{page}");
    assert!(
        fs::read_to_string(dest.join("report.txt"))
            .unwrap()
            .contains("pv-orders")
    );
}

fn no_secret_is_in(dest: &Path, mut secrets: Vec<String>) {
    secrets.push(MARK.to_owned());
    secrets.push(openssl::base64::encode_block(MARK.as_bytes()));
    let files = contents(dest);
    assert!(files.len() > 15, "only {} files", files.len());
    let has = |content: &[u8], what: &str| {
        content
            .windows(what.len())
            .any(|part| part == what.as_bytes())
    };
    for (path, content) in &files {
        for secret in &secrets {
            assert!(!has(content, secret), "{secret} is in {}", path.display());
        }
    }
    let seen = |what: &str| files.iter().any(|(_, content)| has(content, what));
    assert!(seen("secretive") && seen("PLAIN") && seen("stored-at-first-contact"));
}

fn nothing_was_changed(simulation: &Simulation, good: &SimulatedHost, before: usize) {
    let control_plane = &simulation.harness.sandbox.control_plane;
    let asked = control_plane.requests_of("default", "reader").unwrap();
    assert!(asked.len() > 18, "{asked:#?}");
    for request in &asked {
        assert!(["get", "list"].contains(&&*request.verb), "{request:?}");
    }
    let requests = &good.requests()[before..];
    assert!(requests.contains(&"sftp read"), "{requests:?}");
    for change in [
        "sftp open",
        "sftp write",
        "sftp remove",
        "sftp mkdir",
        "sftp rename",
        "sftp extended",
    ] {
        assert!(!requests.contains(&change), "{change}");
    }
    let commands = requests.iter().filter(|request| **request == "command");
    assert_eq!(
        commands.count(),
        2,
        "the registry was asked for the agent, and the agent for its status"
    );
}

#[test]
fn a_log_that_is_shortened_while_it_is_read_is_no_failure() {
    let simulation = Simulation::new(1);
    let harness = &simulation.harness;
    let kubeconfig = harness.sandbox.control_plane.kubeconfig();
    let operator = harness.start_with(&simulation.payload("v1.3.0"));
    ready(&simulation, 1);
    operator.terminate().unwrap();
    let host = &simulation.hosts[0];
    put_log(
        host,
        CSI_PROXY,
        "csi-proxy.log",
        File::of_lines(8 << 20).modified(2_000),
    );
    put_log(
        host,
        AGENT,
        "agent.log",
        File::new(b"of the agent\n").modified(1_000),
    );

    // A first run, to see when the log is read.
    let before = host.requests().len();
    gather(
        kubeconfig,
        &harness.sandbox.control_plane.dir().join("first"),
    );
    let requests = host.requests()[before..].to_vec();
    let first = requests
        .iter()
        .position(|request| *request == "sftp read")
        .unwrap();
    host.hold_at(first as u64 + 20);
    let dest = harness.sandbox.control_plane.dir().join("second");
    let child = command(kubeconfig, &dest).spawn().unwrap();
    simulation
        .wait(host.wait_until(|counters| counters.held > 0))
        .unwrap();
    put_log(host, CSI_PROXY, "csi-proxy.log", File::new(b""));
    host.release();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = summary(&dest);
    assert!(
        text.contains("csi-proxy.log was shortened while it was read"),
        "{text}"
    );
    let node = dest.join("nodes/win-000");
    let part = fs::read_to_string(node.join("csi-proxy/csi-proxy.log")).unwrap();
    assert!(part.starts_with("line 0000000000\n"), "{}", &part[..40]);
    assert!(
        node.join("windows-storage-agent/agent.log").exists(),
        "{text}"
    );
}

#[test]
fn a_connection_that_breaks_costs_one_node_its_logs_and_nothing_else() {
    let simulation = Simulation::new(2);
    let harness = &simulation.harness;
    let kubeconfig = harness.sandbox.control_plane.kubeconfig();
    let operator = harness.start_with(&simulation.payload("v1.3.0"));
    ready(&simulation, 2);
    operator.terminate().unwrap();
    let [lost, good] = &simulation.hosts[..] else {
        panic!("there are two");
    };
    for host in [lost, good] {
        put_log(host, CSI_PROXY, "csi-proxy.log", File::of_lines(8 << 20));
    }
    let before = lost.requests().len();
    gather(
        kubeconfig,
        &harness.sandbox.control_plane.dir().join("first"),
    );
    let requests = lost.requests()[before..].to_vec();
    let first = requests
        .iter()
        .position(|request| *request == "sftp read")
        .unwrap();
    lost.cut_at(first as u64 + 20, testbed::simulated_host::Moment::Before);
    let dest = harness.sandbox.control_plane.dir().join("second");
    gather(kubeconfig, &dest);
    assert!(!lost.waits_to_cut());
    let text = summary(&dest);
    assert!(text.contains("reading ended after"), "{text}");
    assert!(dest.join("nodes/win-000/state.json").exists());
    let size = |node: &str| {
        fs::metadata(dest.join(format!("nodes/{node}/csi-proxy/csi-proxy.log")))
            .map_or(0, |file| file.len())
    };
    assert_eq!(size("win-001"), 8 << 20);
    assert!(size("win-000") < 8 << 20);
}
