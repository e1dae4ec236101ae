//! Measures how long it takes to copy csi-proxy.exe to a Windows host: the operator against OpenSSH's `sftp` and a Go
//! SFTP client, to the same sshd through the same relay.

mod peers;

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Result;
use testbed::parts::part;
use testbed::windows_host::Fleet;
use tokio::runtime::Runtime;

use crate::Options;
use crate::figures::{median, milliseconds};
use crate::node::Node;
use crate::report::{Row, rows};
use peers::Peers;

/// A network link: its round trip, its bytes a second, and the limit for the operator's time as a share of `sftp`'s.
struct Link {
    name: &'static str,
    round_trip: Duration,
    rate: Option<u64>,
    bar: f64,
}

const LINKS: &[Link] = &[
    Link::new("0 ms", 0, None, 1.0),
    Link::new("25 ms", 25, None, 0.8),
    Link::new("100 ms", 100, None, 0.8),
    Link::new("25 ms, 100 Mbit/s", 25, Some(12_500_000), 0.5),
];

impl Link {
    const fn new(name: &'static str, round_trip: u64, rate: Option<u64>, bar: f64) -> Self {
        Self {
            name,
            round_trip: Duration::from_millis(round_trip),
            rate,
            bar,
        }
    }

    /// Lets a host's relay behave like this link.
    fn apply(&self, node: &Node) {
        let relay = node.host.relay();
        relay.delay(self.round_trip / 2);
        relay.limit_rate(self.rate);
    }
}

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
        link.apply(&node);
        rows.extend(side_by_side(&node, &peers, link, rounds)?);
    }
    LINKS[1].apply(&node);
    rows.extend(against_go(&node, &peers, if options.full { 3 } else { 1 })?);
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
        "25 ms: of that time" => product / go, "×", at_most 0.1;
    })
}

/// Measures hosts 25 ms away that have no agent: the agent is copied first, uncompressed, and installed.
fn fresh(fleet: &Fleet, hosts: usize) -> Result<Vec<Row>> {
    let (mut product, mut sftp) = (Vec::new(), Vec::new());
    for number in 0..hosts {
        let node = Node::new(fleet, &format!("fresh-copy-{number}"))?;
        LINKS[1].apply(&node);
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
