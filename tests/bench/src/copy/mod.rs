//! Measures how long it takes to copy csi-proxy.exe to a Windows host: the operator against OpenSSH's `sftp` and a Go
//! SFTP client, to the same sshd through the same relay.

mod link;
mod peers;

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Result;
use testbed::parts::part;
use testbed::windows_host::Fleet;
use tokio::runtime::Runtime;

use crate::Options;
use crate::figures::{count, median, milliseconds};
use crate::node::Node;
use crate::report::{Row, rows};
use link::{LINKS, Link};
use peers::Peers;

const ROUNDS: usize = 9;
const ROUNDS_FULL: usize = 15;
/// Number of fresh hosts; each has to boot.
const FRESH: usize = 5;
const FRESH_FULL: usize = 9;

/// Measures the candidates in turn, so that other load on the machine affects all alike, and compares medians.
pub fn measure(options: Options) -> Result<Vec<Row>> {
    let fleet = Fleet::new()?;
    let node = Node::new(&fleet, "copy")?;
    let runtime = Runtime::new()?;
    let (mut host, cutter) = node.log_in(&runtime)?;
    host.install_agent()?;
    drop((host, cutter));
    let peers = Peers::new(&fleet, &node)?;
    let rounds = if options.full { ROUNDS_FULL } else { ROUNDS };
    let mut rows = Vec::new();
    for link in LINKS {
        rows.push(link.check()?);
        link.apply(node.host.relay());
        rows.extend(side_by_side(&node, &peers, link, rounds)?);
    }
    LINKS[1].apply(node.host.relay());
    rows.extend(against_go(&node, &peers, if options.full { 3 } else { 1 })?);
    rows.extend(nothing_to_do(&node)?);
    let hosts = if options.full { FRESH_FULL } else { FRESH };
    rows.extend(fresh(&fleet, hosts)?);
    Ok(rows)
}

/// Connects, logs in, sends, unpacks, verifies and installs the file: all that the operator does on a node that has the
/// agent and another csi-proxy.exe, except the status command before it and the service restart (there is no service).
fn ours(node: &Node, number: usize) -> Result<Duration> {
    fs::write(node.csi_proxy(), fs::read(part("csi-proxy-1.1.3")?)?)?;
    let request = node.request(&format!("copy-{number}"), false);
    let runtime = Runtime::new()?;
    let begin = Instant::now();
    let (mut host, _cutter) = node.log_in(&runtime)?;
    let result = host.apply(&request, true)?;
    let took = begin.elapsed();
    anyhow::ensure!(result.end.failure.is_none(), "{result:?}");
    node.check()?;
    eprintln!("  {} ({:?})", host.phases, result.durations);
    Ok(took)
}

fn side_by_side(node: &Node, peers: &Peers, link: &Link, rounds: usize) -> Result<Vec<Row>> {
    let (mut product, mut sftp) = (Vec::new(), Vec::new());
    // The first run of each finds cold caches, so it is not counted.
    peers.sftp()?;
    ours(node, 0)?;
    for round in 1..=rounds {
        sftp.push(milliseconds(peers.sftp()?));
        product.push(milliseconds(ours(node, round)?));
    }
    let (product, sftp) = (median(&product), median(&sftp));
    let name = link.name;
    Ok(rows! {
        format!("{name}: OpenSSH sftp") => sftp, "ms";
        format!("{name}: operator, from the connection to the file in place") => product, "ms";
        format!("{name}: of sftp's time") => product / sftp, "×", at_most link.bar;
    })
}

fn against_go(node: &Node, peers: &Peers, rounds: usize) -> Result<Vec<Row>> {
    let (mut product, mut go) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        go.push(milliseconds(peers.go()?));
        product.push(milliseconds(ours(node, 100 + round)?));
        product.push(milliseconds(ours(node, 200 + round)?));
    }
    let (product, go) = (median(&product), median(&go));
    Ok(rows! {
        "25 ms: Go's pkg/sftp by default, as WMCO copies" => go, "ms";
        "25 ms: faster than that" => go / product, "×", at_least 10.0;
    })
}

/// Reconciles a node that already has the same csi-proxy.exe.
fn nothing_to_do(node: &Node) -> Result<Vec<Row>> {
    let request = node.request("same", false);
    node.reconcile(request.clone())?;
    let before = node.host.relay().bytes_to_server();
    let phases = node.reconcile(request)?.phases;
    let sent = node.host.relay().bytes_to_server() - before;
    let uploads = phases.iter().any(|(name, _)| name.contains("upload"));
    anyhow::ensure!(!uploads, "{phases}");
    Ok(rows! {
        "same bytes there: sent in all, SSH's own and the status command" => count(sent) / 1e3, "kB", at_most 10.0;
    })
}

/// Measures hosts 25 ms away that have no agent: the agent is copied first, uncompressed, and installed.
fn fresh(fleet: &Fleet, hosts: usize) -> Result<Vec<Row>> {
    let (mut product, mut sftp) = (Vec::new(), Vec::new());
    for number in 0..hosts {
        let node = Node::new(fleet, &format!("fresh-copy-{number}"))?;
        LINKS[1].apply(node.host.relay());
        let peers = Peers::new(fleet, &node)?;
        sftp.push(milliseconds(peers.sftp()?));
        let begin = Instant::now();
        let reconciled = node.reconcile(node.request("fresh", false))?;
        product.push(milliseconds(begin.elapsed()));
        eprintln!("  fresh: {}", reconciled.phases);
        node.check()?;
        sftp.push(milliseconds(peers.sftp()?));
    }
    let (product, sftp) = (median(&product), median(&sftp));
    Ok(rows! {
        "25 ms, fresh node: agent sent and installed, csi-proxy.exe in place" => product, "ms";
        "25 ms, fresh node: of sftp's time" => product / sftp, "×", at_most 1.3;
    })
}
