//! Measures how long it takes to copy csi-proxy.exe to a Windows host: the operator against OpenSSH's `sftp`, to
//! the same sshd through the same relay.

mod sftp;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use protocol::FailureCategory;
use testbed::parts::part;
use testbed::windows_host::Fleet;
use tokio::runtime::Runtime;

use crate::figures::{median, milliseconds};
use crate::node::Node;
use crate::report::{Row, rows};
use sftp::Sftp;

/// A network link: its round trip, its bytes a second, and the limit for the operator's time as a share of `sftp`'s.
struct Link {
    name: &'static str,
    round_trip: Duration,
    rate: Option<u64>,
    bar: f64,
}

const LINKS: &[Link] = &[
    Link::new("0 ms", 0, None, 1.0),
    Link::new("25 ms", 25, None, 0.85),
    Link::new("100 ms", 100, None, 0.8),
    Link::new("25 ms, 100 Mbit/s", 25, Some(12_500_000), 0.55),
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
/// Number of fresh hosts; each has to boot.
const FRESH: usize = 5;

/// Measures the candidates in turn, so that other load on the machine affects all alike, and compares medians.
pub fn measure() -> Result<Vec<Row>> {
    let fleet = Fleet::new()?;
    let node = Node::new(&fleet, "copy")?;
    let runtime = Runtime::new()?;
    let (mut host, cutter) = node.log_in(&runtime)?;
    host.install_agent()?;
    drop((host, cutter));
    let theirs = r"sc create csi-proxy binpath= C:\theirs\csi-proxy.exe";
    anyhow::ensure!(node.host.run(theirs)?.status.success(), "{theirs}");
    let sftp = Sftp::new(&fleet, &node)?;
    let mut rows = Vec::new();
    for link in LINKS {
        link.apply(&node);
        rows.extend(side_by_side(&node, &sftp, link)?);
    }
    let [_, near, interruption, _] = fresh(&fleet, &LINKS[0])?;
    let [in_place, far, _, sftp] = fresh(&fleet, &LINKS[1])?;
    rows.extend(rows! {
        "0 ms, fresh host: csi-proxy answers" => near, "ms", at_most 800.0;
        "0 ms: interruption of an update" => interruption, "ms";
        "25 ms, fresh host: csi-proxy answers" => far, "ms";
        "25 ms, fresh host: csi-proxy.exe in place" => in_place, "ms";
        "25 ms, fresh host: of sftp's time" => in_place / sftp, "×", at_most 1.3;
    });
    Ok(rows)
}

/// Connects, logs in, sends, unpacks and verifies the file: all that the operator does before csi-proxy stops, on a node
/// that has the agent and another csi-proxy.exe, except the status command before it. A service of another owner keeps the
/// agent from going further.
fn ours(node: &Node, number: usize) -> Result<Duration> {
    fs::write(node.csi_proxy(), fs::read(part("csi-proxy-1.1.3")?)?)?;
    let request = node.request(&format!("copy-{number}"))?;
    let runtime = Runtime::new()?;
    let begin = Instant::now();
    let (mut host, _cutter) = node.log_in(&runtime)?;
    let result = host.apply(&request, true)?;
    let took = begin.elapsed();
    let category = result.end.failure.as_ref().map(|failure| failure.category);
    anyhow::ensure!(category == Some(FailureCategory::Foreign), "{result:?}");
    eprintln!("  {took:?}");
    Ok(took)
}

fn side_by_side(node: &Node, peer: &Sftp, link: &Link) -> Result<Vec<Row>> {
    let (mut product, mut sftp) = (Vec::new(), Vec::new());
    // The first run of each finds cold caches, so it is not counted.
    peer.put()?;
    ours(node, 0)?;
    for round in 1..=ROUNDS {
        sftp.push(milliseconds(peer.put()?));
        product.push(milliseconds(ours(node, round)?));
    }
    let (product, sftp) = (median(&product), median(&sftp));
    let name = link.name;
    Ok(rows! {
        format!("{name}: OpenSSH sftp") => sftp, "ms";
        format!("{name}: operator, from the connection to the verified file") => product, "ms";
        format!("{name}: of sftp's time") => product / sftp, "×", at_most link.bar;
    })
}

/// Measures hosts that have no agent: first another owner of csi-proxy is looked for, and the agent is copied, uncompressed,
/// and installed; then an update of flags. Returns medians: until csi-proxy.exe is in place, until it answers, its
/// interruption by the update, and `sftp`'s.
fn fresh(fleet: &Fleet, link: &Link) -> Result<[f64; 4]> {
    let mut measured: [Vec<f64>; 4] = Default::default();
    let [in_place, answers, interruptions, sftp] = &mut measured;
    let runtime = Runtime::new()?;
    for number in 0..FRESH {
        let away = link.round_trip.as_millis();
        let node = Node::new(fleet, &format!("fresh-{away}-{number}"))?;
        link.apply(&node);
        let peer = Sftp::new(fleet, &node)?;
        sftp.push(milliseconds(peer.put()?));
        let request = node.request("fresh")?;
        let begin = Instant::now();
        thread::scope(|scope| {
            let bringing = scope.spawn(|| node.reconcile(request));
            while !node.csi_proxy().exists() && !bringing.is_finished() {
                thread::sleep(Duration::from_millis(1));
            }
            in_place.push(milliseconds(begin.elapsed()));
            let ended = bringing.join();
            ended.map_err(|_| anyhow::anyhow!("it panicked"))?
        })?;
        answers.push(milliseconds(begin.elapsed()));
        node.check()?;
        sftp.push(milliseconds(peer.put()?));
        let mut update = node.request("update")?;
        update.flags.push("-v=3".to_owned());
        let (mut host, _cutter) = node.log_in(&runtime)?;
        let end = host.apply(&update, false)?.end;
        let interruption = end.interruption_milliseconds.context("no interruption")?;
        interruptions.push(milliseconds(Duration::from_millis(interruption)));
    }
    Ok(measured.map(|all| median(&all)))
}
