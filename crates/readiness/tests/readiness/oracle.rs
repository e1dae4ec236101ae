//! The contract, computed in the simplest way: every question loops over all objects, nothing is cached, and no code is
//! shared with the program, so that both agree only if both are right.

pub mod cluster;
pub mod drivers;
mod files;
mod memory;
mod node_side;
mod placement;
pub mod versions;
pub mod volumes;
mod workloads;

use cluster::{Cluster, name, text};
pub use memory::Memory;
use serde_json::{Value, json};
use volumes::Row;

/// Returns the parts of the report that the contract fixes, for a future version if one is given: `verdict.message` if it is
/// fixed as a whole, `verdict.messageEnd` if only its end is. Findings are pairs of code and object.
pub fn expect_for(objects: &[Value], target: Option<&str>) -> Value {
    expect_after(objects, &Memory::default(), target)
}

/// Returns the same where the objects are files, which may be partial.
pub fn expect_of_files(objects: &[Value], target: Option<&str>) -> Value {
    let memory = Memory::default();
    let cluster = Cluster(objects, &memory);
    let (rows, mut findings) = volumes::rows(cluster);
    let lacks_some = files::lacks_some(cluster, &mut findings);
    let mut expected = expect_with(cluster, rows, findings, target);
    if lacks_some {
        expected["verdict"] = json!({"upgradeable": "False", "reason": "ReadinessUnknown"});
    }
    expected
}

/// Returns the same, given what is remembered of earlier states.
pub fn expect_after(objects: &[Value], memory: &Memory, target: Option<&str>) -> Value {
    let cluster = Cluster(objects, memory);
    let (rows, findings) = volumes::rows(cluster);
    expect_with(cluster, rows, findings, target)
}

fn expect_with(
    cluster: Cluster<'_>,
    mut rows: Vec<Row<'_>>,
    mut findings: Vec<volumes::Finding>,
    target: Option<&str>,
) -> Value {
    findings.retain(|(code, _)| *code != volumes::NO_CLASS);
    for row in &mut rows {
        let plugin = row.found.backing.plugin.as_deref();
        row.is_served = plugin
            .zip(target)
            .is_some_and(|(plugin, target)| versions::serves_at(cluster, plugin, target));
    }
    let virtual_nodes = cluster
        .of(cluster::NODE)
        .filter(|node| workloads::is_virtual_windows(node));
    findings.extend(virtual_nodes.map(|node| ("VirtualNode", format!("Node/{}", name(node)))));
    findings.sort();
    findings.dedup();
    let windows = windows_nodes(cluster);
    let needed = rows
        .iter()
        .filter_map(|row| row.found.backing.driver.clone());
    let needed: Vec<String> = needed.collect();
    json!({
        "windowsNodes": windows.len(),
        "target": target,
        "verdict": verdict(cluster, &rows, target),
        "nodes": windows
            .iter()
            .map(|node| {
                json!({
                    "name": node,
                    "csiNode": cluster::csi_node(cluster, node).is_some(),
                    "drivers": entries(cluster, node),
                    "missingDrivers": all_drivers(cluster, &rows)
                        .into_iter()
                        .filter(|driver| missing_on(cluster, &rows, driver).contains(node))
                        .collect::<Vec<_>>(),
                })
            })
            .collect::<Vec<_>>(),
        "volumes": rows.iter().map(|row| volume(cluster, &rows, row)).collect::<Vec<_>>(),
        "drivers": all_drivers(cluster, &rows)
            .iter()
            .map(|driver| {
                let missing = missing_on(cluster, &rows, driver);
                let daemon_set = drivers::daemon_set(cluster, driver, &needed);
                json!({
                    "name": driver,
                    "registeredOn": registered_on(cluster, driver),
                    "missingOn": missing,
                    "daemonSet": daemon_set.map(|set| format!("{}/{}", cluster::namespace(set), name(set))),
                    "csiProxyPipes": daemon_set.map(node_side::pipes).unwrap_or_default(),
                    "advice": plugin_in_use(&rows, driver).and_then(|plugin| versions::advice(cluster, plugin)),
                })
            })
            .collect::<Vec<_>>(),
        "findings": findings,
    })
}

/// Returns the names of the Windows nodes, sorted.
fn windows_nodes(cluster: Cluster<'_>) -> Vec<&str> {
    let mut names: Vec<_> = cluster
        .of(cluster::NODE)
        .filter(|node| workloads::is_windows_node(node))
        .map(name)
        .collect();
    names.sort_unstable();
    names
}

/// Returns the drivers in a node's CSINode, sorted.
fn entries<'a>(cluster: Cluster<'a>, node: &str) -> Vec<&'a str> {
    let mut names: Vec<_> = cluster::csi_node(cluster, node)
        .into_iter()
        .flat_map(cluster::csi_node_drivers)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn registered_on<'a>(cluster: Cluster<'a>, driver: &str) -> Vec<&'a str> {
    windows_nodes(cluster)
        .into_iter()
        .filter(|node| entries(cluster, node).contains(&driver))
        .collect()
}

/// Returns every driver that a row needs or a Windows node has, sorted.
fn all_drivers(cluster: Cluster<'_>, rows: &[Row<'_>]) -> Vec<String> {
    let mut names: Vec<String> = rows
        .iter()
        .filter_map(|row| row.found.backing.driver.clone())
        .collect();
    for node in windows_nodes(cluster) {
        names.extend(entries(cluster, node).into_iter().map(str::to_owned));
    }
    names.sort_unstable();
    names.dedup();
    names
}

fn missing_on<'a>(cluster: Cluster<'a>, rows: &[Row<'_>], driver: &str) -> Vec<&'a str> {
    let users: Vec<_> = rows
        .iter()
        .filter(|row| row.found.backing.driver.as_deref() == Some(driver))
        .collect();
    let everywhere = users.iter().any(|row| row.found.backing.plugin.is_some());
    windows_nodes(cluster)
        .into_iter()
        .filter(|node| !entries(cluster, node).contains(&driver))
        .filter(|node| everywhere || users.iter().any(|row| row.node == Some(*node)))
        .collect()
}

/// Returns the plugin whose volumes need the driver.
fn plugin_in_use<'a>(rows: &'a [Row<'_>], driver: &str) -> Option<&'a str> {
    rows.iter()
        .filter(|row| row.found.backing.driver.as_deref() == Some(driver))
        .find_map(|row| row.found.backing.plugin.as_deref())
}

fn blocking(cluster: Cluster<'_>, rows: &[Row<'_>], row: &Row<'_>) -> bool {
    !row.is_served
        && row.found.backing.plugin.is_some()
        && row.found.backing.driver.as_ref().is_none_or(|driver| {
            !missing_on(cluster, rows, driver).is_empty() || is_unbrought(cluster, driver)
        })
}

/// Without Windows nodes, a DaemonSet counts instead of a registration.
fn is_unbrought(cluster: Cluster<'_>, driver: &str) -> bool {
    windows_nodes(cluster).is_empty() && drivers::stand_ins(cluster, driver).is_empty()
}

fn volume(cluster: Cluster<'_>, rows: &[Row<'_>], row: &Row<'_>) -> Value {
    json!({
        "workload": {"kind": row.kind, "namespace": row.namespace, "name": row.name},
        "volume": row.volume,
        "source": row.found.source,
        "persistentVolumeClaim": row.found.claim,
        "persistentVolume": row.found.persistent_volume,
        "storageClass": row.found.storage_class,
        "plugin": row.found.backing.plugin,
        "csiDriver": row.found.backing.driver,
        "inTree": row.found.backing.plugin.is_some(),
        "blocking": blocking(cluster, rows, row),
        "redirected": redirected(cluster, row),
        "missingOn": row.found.backing.driver.as_ref().map(|driver| missing_on(cluster, rows, driver)).unwrap_or_default(),
    })
}

fn redirected(cluster: Cluster<'_>, row: &Row<'_>) -> Option<bool> {
    let plugin = row.found.backing.plugin.as_deref()?;
    versions::is_redirected(cluster, plugin)
}

fn verdict(cluster: Cluster<'_>, rows: &[Row<'_>], target: Option<&str>) -> Value {
    let windows = windows_nodes(cluster);
    let in_tree: Vec<_> = rows
        .iter()
        .filter(|row| row.found.backing.plugin.is_some() && !row.is_served)
        .collect();
    let reason = if cluster.of(cluster::NODE).next().is_none() {
        return json!({"upgradeable": "False", "reason": "ReadinessUnknown"});
    } else if windows.is_empty() && !rows.iter().any(|row| blocking(cluster, rows, row)) {
        return json!({"upgradeable": "True", "reason": "NoWindowsNodes", "message": no_windows_nodes(cluster, rows)});
    } else if in_tree.is_empty() && rows.iter().any(|row| row.is_served) {
        return json!({"upgradeable": "True", "reason": "InTreeServed"});
    } else if in_tree.is_empty() {
        return json!({"upgradeable": "True", "reason": "NoInTreeVolumes"});
    } else if in_tree.iter().any(|row| row.found.backing.driver.is_none()) {
        "NoCSIMigration"
    } else if windows
        .iter()
        .any(|node| cluster::csi_node(cluster, node).is_none())
    {
        "CSINodeMissing"
    } else if in_tree.iter().any(|row| blocking(cluster, rows, row)) {
        "DriversMissing"
    } else {
        return json!({"upgradeable": "True", "reason": "DriversRegistered"});
    };
    let mut held: Vec<_> = rows
        .iter()
        .filter(|row| blocking(cluster, rows, row))
        .collect();
    // If not all can be named, those that determine the reason come first.
    if held.len() > 10 {
        held.sort_by_key(|row| row.found.backing.driver.is_some());
    }
    let message = message(cluster, rows, &held, target);
    let accepted = cluster
        .get(cluster::WINDOWS_STORAGE, "", "cluster")
        .is_some_and(|storage| text(storage, &["spec", "upgradeGate"]) == Some("Ignore"));
    if accepted {
        json!({"upgradeable": "True", "reason": "Override", "messageEnd": message})
    } else if reason == "CSINodeMissing" {
        json!({"upgradeable": "False", "reason": reason, "messageEnd": message})
    } else {
        json!({"upgradeable": "False", "reason": reason, "message": message})
    }
}

/// Names the first ten volumes that hold upgrades, by when they break.
fn message(
    cluster: Cluster<'_>,
    rows: &[Row<'_>],
    held: &[&Row<'_>],
    target: Option<&str>,
) -> String {
    let when = |row: &Row<'_>| {
        let plugin = row.found.backing.plugin.as_deref().unwrap();
        match versions::is_redirected(cluster, plugin) {
            None => String::new(),
            Some(true) => "today".to_owned(),
            Some(false) => versions::breaks_at(cluster, plugin, target),
        }
    };
    let mut times: Vec<_> = held.iter().map(|row| when(row)).collect();
    // What is broken today comes first, then one version after the other.
    let order = |time: &String| -> (bool, Vec<u64>) {
        let numbers = time.split('.').filter_map(|number| number.parse().ok());
        (time != "today", numbers.collect())
    };
    times.sort_by_key(order);
    times.dedup();
    let groups = times.iter().map(|time| {
        let is_its = |row: &&&Row<'_>| when(row) == *time;
        let all = held.iter().filter(is_its).count();
        let named = held.iter().take(10).filter(is_its);
        let mut named: Vec<_> = named.map(|row| sentence(cluster, rows, row)).collect();
        if named.len() < all && !named.is_empty() {
            named.push(format!("and {} more", all - named.len()));
        }
        let named = named.join("; ");
        let volumes = if all == 1 {
            "1 volume".to_owned()
        } else {
            format!("{all} volumes")
        };
        let fate = match time.as_str() {
            "" => return named,
            "today" if windows_nodes(cluster).is_empty() => {
                "cannot be mounted already today".to_owned()
            }
            "today" => {
                let nodes = if all == 1 { "its node" } else { "their nodes" };
                format!("cannot be mounted already today; draining {nodes} will show it")
            }
            version => format!(
                "break{} at the upgrade to {version}",
                if all == 1 { "s" } else { "" }
            ),
        };
        if named.is_empty() {
            format!("{volumes} {fate}")
        } else {
            format!("{volumes} {fate}: {named}")
        }
    });
    groups.collect::<Vec<_>>().join(". ")
}

/// Names what stands in for the registrations that in-tree volumes need.
fn no_windows_nodes(cluster: Cluster<'_>, rows: &[Row<'_>]) -> String {
    let in_tree = rows.iter().map(|row| &row.found.backing);
    let in_tree = in_tree.filter(|backing| backing.plugin.is_some());
    let mut needed: Vec<_> = in_tree
        .filter_map(|backing| backing.driver.as_deref())
        .collect();
    needed.sort_unstable();
    needed.dedup();
    let brought = needed.into_iter().filter_map(|driver| {
        let sets = drivers::stand_ins(cluster, driver).into_iter();
        let sets: Vec<_> = sets.map(|set| format!("DaemonSet {set}")).collect();
        (!sets.is_empty()).then(|| format!("{driver} by {}", at_most_ten(&sets, ", ", " and")))
    });
    let brought: Vec<_> = brought.collect();
    let none = "the cluster has no Windows nodes";
    if brought.is_empty() {
        none.to_owned()
    } else {
        format!("{none}; new ones are to get {}", brought.join("; "))
    }
}

fn sentence(cluster: Cluster<'_>, rows: &[Row<'_>], row: &Row<'_>) -> String {
    let what = match (&row.found.persistent_volume, &row.found.claim) {
        (Some(volume), _) => format!("PersistentVolume {volume}"),
        (None, Some(claim)) => format!("PersistentVolumeClaim {claim}"),
        (None, None) => format!("volume {}", row.volume),
    };
    let fault = match &row.found.backing.driver {
        None => "has no CSI driver that takes over".to_owned(),
        Some(driver) => {
            let nodes: Vec<_> = missing_on(cluster, rows, driver)
                .into_iter()
                .map(str::to_owned)
                .collect();
            if nodes.is_empty() {
                format!("needs {driver}, and no DaemonSet for Windows nodes brings it")
            } else {
                let nodes = at_most_ten(&nodes, ", ", " and");
                format!("needs {driver}, missing on {nodes}")
            }
        }
    };
    let plugin = row.found.backing.plugin.as_deref().unwrap_or_default();
    format!(
        "{} {}/{}: {what} ({plugin}) {fault}",
        row.kind.to_lowercase(),
        row.namespace,
        row.name
    )
}

fn at_most_ten(parts: &[String], between: &str, before_rest: &str) -> String {
    if parts.len() > 10 {
        format!(
            "{}{before_rest} {} more",
            parts[..10].join(between),
            parts.len() - 10
        )
    } else {
        parts.join(between)
    }
}
