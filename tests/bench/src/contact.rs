//! Measures the time from first contact with a fresh Windows host until its storage is ready, by the logged phases.

use std::time::Instant;

use anyhow::Result;
use testbed::windows_host::Fleet;

use crate::Options;
use crate::figures::{median, milliseconds};
use crate::node::Node;
use crate::report::{Row, rows};

const HOSTS: usize = 3;
const HOSTS_FULL: usize = 7;

/// Reconciles fresh hosts one after the other and returns the median of each phase.
pub fn measure(options: Options) -> Result<Vec<Row>> {
    let fleet = Fleet::new()?;
    let mut totals = Vec::new();
    let mut phases: Vec<(&'static str, Vec<f64>)> = Vec::new();
    for number in 0..if options.full { HOSTS_FULL } else { HOSTS } {
        let node = Node::new(&fleet, &format!("fresh-{number}"))?;
        let begin = Instant::now();
        let reconciled = node.reconcile(node.request("contact", true))?;
        totals.push(milliseconds(begin.elapsed()));
        node.check()?;
        for (name, took) in reconciled.phases.iter() {
            let took = milliseconds(took);
            match phases.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => all.push(took),
                None => phases.push((name, vec![took])),
            }
        }
    }
    let mut rows = rows! {
        "fresh host, 0 ms away: from the connection to csi-proxy's pipes open" => median(&totals), "ms";
    };
    for (name, all) in phases {
        rows.push(Row::new(format!("  of that {name}"), median(&all), "ms"));
    }
    Ok(rows)
}
