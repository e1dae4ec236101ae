//! Writes the report as programs read it.

use std::collections::{BTreeMap, BTreeSet};

use crate::assess::causes::{self, DaemonSets, Place};
use crate::assess::judgement::csi_proxy;
use crate::assess::judgement::judged::Report;
use crate::assess::judgement::provided::PROVIDED;
use crate::assess::report::{
    API_VERSION, ClusterFacts, DriverReadiness, Finding, KIND, NodeReadiness, ReadinessReport,
    VolumeUse, Workload,
};
use crate::assess::versions::Release;
use crate::assess::volumes::Resolved;
use crate::assess::{advice, codes, partial, plugins, redirection};
use crate::index::{Cluster, Name, Node, ReadFrom, WorkloadKey, list};

/// How many drivers are explained on each node whose names anyone can make up.
const ASKED: usize = 10;

/// Why drivers are missing, by driver, with the nodes of each cause.
type Causes = BTreeMap<Name, BTreeMap<Finding, BTreeSet<Name>>>;

impl Report {
    /// Returns what programs read of the report.
    pub fn to_json(&self, cluster: &Cluster) -> ReadinessReport {
        let csi_nodes = cluster.windows_nodes();
        let csi_nodes = csi_nodes.filter_map(|(name, _)| cluster.csi_node(name));
        let registered = csi_nodes.flat_map(|csi_node| csi_node.drivers.iter());
        let sets =
            DaemonSets::of_drivers(self, cluster, registered.chain(self.needs.drivers.keys()));
        let mut causes = Causes::new();
        let nodes = cluster.windows_nodes().map(|(name, node)| {
            let (mut readiness, of_node) = self.node(cluster, (name, node), &sets, true);
            readiness.missing_drivers.sort();
            for (driver, cause) in of_node {
                let of_driver = causes.entry(driver.clone()).or_default();
                let nodes = of_driver.entry(cause).or_default();
                nodes.insert(name.clone());
            }
            readiness
        });
        let nodes: Vec<NodeReadiness> = nodes.collect();
        let drivers = sets.iter().map(|(driver, sets)| {
            let causes = causes.remove(driver).unwrap_or_default();
            self.driver(cluster, driver, sets, causes)
        });
        let volumes = self.rows().map(|(key, row)| self.volume_use(key, row));
        ReadinessReport {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            about: None,
            cluster: ClusterFacts {
                windows_nodes: nodes.len(),
                kubernetes_version: redirection::kubernetes_version(cluster).map(str::to_owned),
            },
            target: self.target.map(Release::number),
            verdict: self.verdict.clone(),
            nodes,
            volumes: volumes.collect(),
            drivers: drivers.collect(),
            findings: self.findings(cluster, &sets),
        }
    }

    /// Returns what is made of the readiness of each Windows node, one at a time. It has no leftover entries of drivers, and
    /// names the missing drivers that anyone can make up last.
    pub fn nodes<T>(
        &self,
        cluster: &Cluster,
        mut make: impl FnMut(&Name, NodeReadiness) -> T,
    ) -> Vec<T> {
        let needs = self.needs.drivers.iter();
        let missing = needs.filter(|(_, need)| !need.missing.is_empty());
        let sets = DaemonSets::of_drivers(self, cluster, missing.map(|(driver, _)| driver));
        let nodes = cluster.windows_nodes();
        nodes
            .map(|node| make(node.0, self.node(cluster, node, &sets, false).0))
            .collect()
    }

    /// Returns a node's readiness, with the missing drivers that anyone can make up last, and why which drivers are missing. The
    /// whole report also has the entries of needed drivers without a pod that is ready.
    fn node<'a>(
        &'a self,
        cluster: &'a Cluster,
        (name, node): (&'a Name, &'a Node),
        sets: &'a BTreeMap<Name, DaemonSets<'a>>,
        is_whole: bool,
    ) -> (NodeReadiness, Vec<(&'a Name, Finding)>) {
        let csi_node = cluster.csi_node(name);
        let pods = self.pods_on(cluster, name);
        let needs_csi_proxy = match cluster.read_from {
            ReadFrom::Api => self.csi_proxy_use(name).is_some(),
            // Files do not show what runs, so only pods that mount the pipes count.
            ReadFrom::Files => pods.iter().any(|(_, pod)| !pod.csi_proxy_pipes.is_empty()),
        };
        let csi_proxy = needs_csi_proxy.then(|| csi_proxy::finding(cluster, name));
        let mut findings: Vec<Finding> = csi_proxy.flatten().into_iter().collect();
        let is_down = findings
            .iter()
            .any(|it| it.code == codes::CSI_PROXY_NOT_READY);
        // Of files without any, the verdict says what to add.
        if csi_node.is_none() && !partial::lacks_csi_nodes(cluster) {
            findings.push(causes::no_csi_node(cluster, name));
        }
        findings.extend(causes::known_of_windows(name, node, self.release()));
        let place = |driver: &'a Name| Place {
            cluster,
            driver,
            sets: &sets[driver],
            name,
            node,
            pods: &pods,
        };
        // Those that in-tree volumes need, and those that nobody can make up in a namespace, are few.
        let rank = |driver: &Name| {
            let is_known =
                plugins::is_known_driver(driver) || cluster.csi_drivers.get(driver).is_some();
            let is_in_tree = !self.needs.drivers[driver].in_tree.is_empty();
            (!is_in_tree, !is_in_tree && !is_known)
        };
        let mut missing: Vec<&Name> = self.needs.missing_on(name).iter().collect();
        missing.sort_by_key(|driver| rank(driver));
        let known = missing.partition_point(|driver| !rank(driver).1);
        let explained = missing.iter().copied().take(known + ASKED);
        let causes: Vec<(&Name, Finding)> = explained
            .flat_map(|driver| {
                let causes = causes::why_missing(&place(driver)).into_iter();
                causes.map(move |cause| (driver, cause))
            })
            .collect();
        findings.extend(causes.iter().map(|(_, cause)| cause.clone()));
        let drivers = csi_node.into_iter().flat_map(|it| it.drivers.iter());
        if is_whole {
            let needed = drivers
                .clone()
                .filter(|it| self.needs.drivers.contains_key(*it));
            findings.extend(needed.flat_map(|driver| causes::stale_entry(&place(driver))));
        }
        sort(&mut findings);
        let readiness = NodeReadiness {
            name: name.to_string(),
            csi_node: csi_node.is_some(),
            drivers: drivers.map(ToString::to_string).collect(),
            ready: csi_node.is_some() && missing.is_empty() && !is_down,
            missing_drivers: missing.iter().map(ToString::to_string).collect(),
            findings,
            needs_csi_proxy,
        };
        (readiness, causes)
    }

    /// Returns a driver's readiness and why it is missing on which nodes, at today's version and the target.
    fn driver(
        &self,
        cluster: &Cluster,
        driver: &Name,
        sets: &DaemonSets<'_>,
        causes: BTreeMap<Finding, BTreeSet<Name>>,
    ) -> DriverReadiness {
        let mut findings = self.will_be_provided(driver, sets);
        let need = self.needs.drivers.get(driver);
        if let Some(need) = need {
            findings.extend(causes::of_driver(
                cluster,
                driver,
                sets,
                need,
                self.release(),
            ));
        }
        if let (Some(need), Some(today)) = (need, self.today)
            && !need.in_tree.is_empty()
        {
            let plugins = plugins::PLUGINS.iter();
            let plugins = plugins.filter(|plugin| plugin.driver == Some(driver));
            findings.extend(plugins.filter_map(|plugin| {
                let noted = redirection::noted(cluster, self.today, plugin);
                advice::recommend(plugin, today, noted, !need.missing.is_empty())
            }));
        }
        for (cause, nodes) in causes {
            findings.push(cause.on(&list(&nodes)));
        }
        sort(&mut findings);
        let has = |name: &&Name| cluster.is_registered(name, driver);
        let registered = self.windows.iter().filter(has);
        let set = sets.windows.first();
        DriverReadiness {
            name: driver.to_string(),
            registered_on: registered.map(ToString::to_string).collect(),
            missing_on: need.map(|need| texts(&need.missing)).unwrap_or_default(),
            daemon_set: set.map(|set| set.key.to_string()),
            csi_proxy_pipes: set.map_or_else(Vec::new, |set| set.node_side.csi_proxy_pipes.clone()),
            findings,
        }
    }

    fn findings(&self, cluster: &Cluster, sets: &BTreeMap<Name, DaemonSets<'_>>) -> Vec<Finding> {
        let mut findings = causes::csi_proxy::daemon_sets(self, cluster);
        findings.extend(causes::virtual_nodes(cluster));
        // Drivers in the report have their findings themselves.
        for driver in PROVIDED
            .iter()
            .filter(|driver| !sets.contains_key(**driver))
        {
            let sets = DaemonSets::of_driver(self, cluster, driver);
            findings.extend(self.will_be_provided(driver, &sets));
        }
        let distribution = redirection::distribution(cluster);
        for (key, used) in &self.workloads {
            findings.extend(used.findings.iter().cloned());
            let rows = used.rows.iter();
            findings
                .extend(rows.filter_map(|row| advice::move_data(cluster, distribution, key, row)));
        }
        sort(&mut findings);
        findings
    }

    fn volume_use(&self, key: &WorkloadKey, row: &Resolved) -> VolumeUse {
        let driver = row.driver();
        let missing_on = self.needs.of(row).map(|need| texts(&need.missing));
        let plugin = row.plugin();
        let text = |name: &Option<Name>| name.as_ref().map(ToString::to_string);
        VolumeUse {
            workload: Workload {
                kind: key.kind.as_str().to_owned(),
                namespace: key.object.namespace.to_string(),
                name: key.object.name.to_string(),
            },
            volume: row.volume.to_string(),
            source: row.source,
            persistent_volume_claim: text(&row.claim),
            persistent_volume: text(&row.persistent_volume),
            storage_class: text(&row.storage_class),
            plugin: plugin.map(|plugin| plugin.name.to_owned()),
            csi_driver: driver.map(str::to_owned),
            in_tree: plugin.is_some(),
            blocking: self.needs.is_blocking(row) && !self.is_served(row),
            redirected: self.is_redirected(row),
            loss: self.loss(row),
            missing_on: missing_on.unwrap_or_default(),
        }
    }
}

fn texts(names: &BTreeSet<Name>) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn sort(findings: &mut Vec<Finding>) {
    findings.sort();
    findings.dedup();
}
