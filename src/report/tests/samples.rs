//! Sample reports.

use crate::assess::Loss;
use crate::assess::report::{
    DriverReadiness, Finding, NodeReadiness, ReadinessReport, Reason, Source, Upgradeable, Verdict,
    VolumeUse, Workload,
};

pub const AZURE_DISK: &str = "disk.csi.azure.com";

pub fn report(upgradeable: Upgradeable, reason: Reason, message: &str) -> ReadinessReport {
    let verdict = Verdict {
        upgradeable,
        reason,
        message: message.to_owned(),
    };
    ReadinessReport { verdict, ..empty() }
}

pub fn with_nodes(mut report: ReadinessReport, nodes: Vec<NodeReadiness>) -> ReadinessReport {
    report.cluster.windows_nodes = nodes.len();
    report.nodes = nodes;
    report
}

pub fn finding(code: &'static str, object: &str, message: &str) -> Finding {
    Finding::new(code, object.to_owned(), message.to_owned())
}

pub fn node(name: &str, drivers: Option<&[&str]>, missing: &[&str]) -> NodeReadiness {
    NodeReadiness {
        name: name.to_owned(),
        csi_node: drivers.is_some(),
        drivers: strings(drivers.unwrap_or_default()),
        missing_drivers: strings(missing),
        ready: drivers.is_some() && missing.is_empty(),
        findings: Vec::new(),
        needs_csi_proxy: false,
    }
}

pub fn driver(name: &str, registered_on: &[&str], missing_on: &[&str]) -> DriverReadiness {
    DriverReadiness {
        name: name.to_owned(),
        registered_on: strings(registered_on),
        missing_on: strings(missing_on),
        daemon_set: None,
        csi_proxy_pipes: Vec::new(),
        findings: Vec::new(),
    }
}

/// A volume of a pod in namespace `shop`, with a claim and a `PersistentVolume` named after both.
pub fn volume(
    pod: &str,
    volume: &str,
    plugin: Option<&str>,
    driver: Option<&str>,
    missing_on: &[&str],
) -> VolumeUse {
    VolumeUse {
        workload: Workload {
            kind: "Pod".to_owned(),
            namespace: "shop".to_owned(),
            name: pod.to_owned(),
        },
        volume: volume.to_owned(),
        source: Source::PersistentVolume,
        persistent_volume_claim: Some(format!("{volume}-{pod}")),
        persistent_volume: Some(format!("pv-{volume}-{pod}")),
        storage_class: Some("std".to_owned()),
        plugin: plugin.map(str::to_owned),
        csi_driver: driver.map(str::to_owned),
        in_tree: plugin.is_some(),
        blocking: plugin.is_some() && (driver.is_none() || !missing_on.is_empty()),
        redirected: None,
        loss: None,
        missing_on: strings(missing_on),
    }
}

fn strings(strings: &[&str]) -> Vec<String> {
    strings.iter().map(|&string| string.to_owned()).collect()
}

/// Two drivers missing, a plugin without a driver, a CSI-only driver missing, and findings everywhere.
pub const HELD: &str = include_str!("samples/held.json");

fn read(json: &str) -> ReadinessReport {
    let mut report: ReadinessReport = serde_json::from_str(json).expect("the sample is a report");
    for volume in &mut report.volumes {
        volume.loss = Some(Loss::Today).filter(|_| volume.redirected == Some(true));
    }
    report
}

pub fn held() -> ReadinessReport {
    read(HELD)
}

/// All drivers are registered.
pub fn registered() -> ReadinessReport {
    read(include_str!("samples/registered.json"))
}

/// Held, but the administrator accepts the risk.
pub fn overridden() -> ReadinessReport {
    read(include_str!("samples/overridden.json"))
}

/// No Windows nodes, nothing else.
pub fn empty() -> ReadinessReport {
    read(include_str!("samples/empty.json"))
}

/// Not everything could be read.
pub fn unknown() -> ReadinessReport {
    let message = "the cluster has not been read completely; missing: StorageClass (forbidden)";
    let unknown = report(Upgradeable::False, Reason::ReadinessUnknown, message);
    ReadinessReport {
        verdict: unknown.verdict,
        ..overridden()
    }
}

/// Hostile text in every field.
pub const HOSTILE_REPORT: &str = include_str!("samples/hostile.json");

pub fn hostile() -> ReadinessReport {
    read(HOSTILE_REPORT)
}
