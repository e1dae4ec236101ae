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
use crate::assess::{advice, codes, plugins, redirection};
use crate::index::{Cluster, Name, ReadFrom, WorkloadKey, list};

/// How many drivers are explained on each node whose names anyone can make up.
const ASKED: usize = 10;

/// Why drivers are missing, by driver, with the nodes of each cause.
type Causes = BTreeMap<Name, BTreeMap<Finding, BTreeSet<Name>>>;

impl Report {
    /// Returns what programs read of the report.
    pub fn to_json(&self, cluster: &Cluster) -> ReadinessReport {
        let today = redirection::today(cluster);
        let release = self.target.or(today);
        let sets = self.daemon_sets(cluster);
        let mut causes = Causes::new();
        let nodes: Vec<NodeReadiness> = self
            .windows
            .iter()
            .filter_map(|name| self.node_with(cluster, name, release, &sets, Some(&mut causes)))
            .collect();
        let drivers = sets
            .iter()
            .map(|(driver, sets)| {
                let causes = causes.remove(driver).unwrap_or_default();
                self.driver(cluster, driver, sets, today, causes)
            })
            .collect();
        let volumes = self.rows().map(|(key, row)| {
            let mut volume = self.volume_use(key, row);
            volume.blocking &= !self.is_served(row);
            volume
        });
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
            drivers,
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
        let missing = self
            .needs
            .drivers
            .iter()
            .filter(|(_, need)| !need.missing.is_empty());
        let sets = DaemonSets::of_drivers(self, cluster, missing.map(|(driver, _)| driver));
        let release = self.target.or_else(|| redirection::today(cluster));
        let nodes = self.windows.iter().filter_map(|name| {
            let node = self.node_with(cluster, name, release, &sets, None)?;
            Some(make(name, node))
        });
        nodes.collect()
    }

    fn daemon_sets<'a>(&self, cluster: &'a Cluster) -> BTreeMap<Name, DaemonSets<'a>> {
        let names: BTreeSet<&Name> = self
            .windows
            .iter()
            .filter_map(|name| cluster.csi_node(name))
            .flat_map(|csi_node| csi_node.drivers.iter())
            .chain(self.needs.drivers.keys())
            .collect();
        DaemonSets::of_drivers(self, cluster, names.into_iter())
    }

    /// Returns a node's readiness. For the whole report, notes why which drivers are missing, and reports entries of needed
    /// drivers without a pod that is ready.
    fn node_with<'a>(
        &'a self,
        cluster: &'a Cluster,
        name: &'a Name,
        release: Option<Release>,
        sets: &'a BTreeMap<Name, DaemonSets<'a>>,
        mut causes_of: Option<&mut Causes>,
    ) -> Option<NodeReadiness> {
        let node = cluster.nodes.get(name)?;
        let csi_node = cluster.csi_node(name);
        let missing = self.needs.missing_on(name);
        let pods = self.pods_on(cluster, name);
        let needs_csi_proxy = match cluster.read_from {
            ReadFrom::Api => self.csi_proxy_use(name).is_some(),
            // Files do not show what runs, so only pods that mount the pipes count.
            ReadFrom::Files => pods.iter().any(|(_, pod)| !pod.csi_proxy_pipes.is_empty()),
        };
        let csi_proxy = if needs_csi_proxy {
            csi_proxy::finding(cluster, name)
        } else {
            None
        };
        let code = csi_proxy.as_ref().map(|finding| finding.code.as_str());
        let is_down = code == Some(codes::CSI_PROXY_NOT_READY);
        let mut findings: Vec<Finding> = csi_proxy.into_iter().collect();
        if csi_node.is_none() {
            findings.push(causes::no_csi_node(cluster, name));
        }
        findings.extend(causes::known_of_windows(name, node, release));
        let place = |driver: &'a Name| {
            Some(Place {
                cluster,
                driver,
                sets: sets.get(driver)?,
                name,
                node,
                csi_node,
                pods: &pods,
            })
        };
        // Those that in-tree volumes need, and those that nobody can make up in a namespace, are few.
        let rank = |driver: &Name| {
            let is_known =
                plugins::is_known_driver(driver) || cluster.csi_drivers.get(driver).is_some();
            let is_in_tree = !self.needs.drivers[driver].in_tree.is_empty();
            (!is_in_tree, !is_in_tree && !is_known)
        };
        let mut ranked: Vec<&Name> = missing.iter().collect();
        ranked.sort_by_key(|driver| rank(driver));
        let known = ranked.partition_point(|driver| !rank(driver).1);
        for driver in ranked.iter().copied().take(known + ASKED) {
            let causes = place(driver).map(|place| causes::why_missing(&place));
            let causes = causes.unwrap_or_default();
            if let Some(causes_of) = &mut causes_of {
                let of_driver = causes_of.entry(driver.clone()).or_default();
                for cause in &causes {
                    let nodes = of_driver.entry(cause.clone()).or_default();
                    nodes.insert(name.clone());
                }
            }
            findings.extend(causes);
        }
        if causes_of.is_some() {
            let registered = csi_node.into_iter().flat_map(|it| it.drivers.iter());
            let places = registered.filter(|it| self.needs(it)).filter_map(place);
            findings.extend(places.flat_map(|place| causes::stale_entry(&place)));
        }
        sort(&mut findings);
        Some(NodeReadiness {
            name: name.to_string(),
            csi_node: csi_node.is_some(),
            drivers: csi_node.map_or_else(Vec::new, |csi_node| texts(&csi_node.drivers)),
            ready: csi_node.is_some() && missing.is_empty() && !is_down,
            missing_drivers: match causes_of {
                Some(_) => missing.iter().map(ToString::to_string).collect(),
                None => ranked.into_iter().map(ToString::to_string).collect(),
            },
            findings,
            needs_csi_proxy,
        })
    }

    /// Returns a driver's readiness and why it is missing on which nodes, at today's version and the target.
    fn driver(
        &self,
        cluster: &Cluster,
        driver: &Name,
        sets: &DaemonSets<'_>,
        today: Option<Release>,
        causes: BTreeMap<Finding, BTreeSet<Name>>,
    ) -> DriverReadiness {
        let need = self.needs.drivers.get(driver);
        let missing = need.map(|need| texts(&need.missing)).unwrap_or_default();
        let has_in_tree = need.is_some_and(|need| !need.in_tree.is_empty());
        let mut findings = self.will_be_provided(driver, sets);
        if need.is_some() {
            let is_missing = !missing.is_empty();
            findings.extend(causes::of_driver(
                cluster,
                driver,
                sets,
                is_missing,
                has_in_tree,
            ));
            let release = self.target.or(today);
            findings.extend(causes::known(cluster, driver, sets, release));
            if let Some(release) = release {
                findings.extend(causes::not_for_version(driver, sets, release));
            }
        }
        if has_in_tree {
            let plugins = plugins::PLUGINS.iter();
            let plugins = plugins.filter(|plugin| plugin.driver == Some(driver));
            findings.extend(plugins.filter_map(|plugin| {
                let noted = redirection::noted(cluster, plugin);
                advice::recommend(plugin, today?, noted, !missing.is_empty())
            }));
        }
        for (cause, nodes) in causes {
            findings.push(cause.on(&list(&nodes)));
        }
        sort(&mut findings);
        let has = |name: &&Name| cluster.is_registered(name, driver);
        let registered = self.windows.iter().filter(has);
        let windows = sets.windows.first();
        DriverReadiness {
            name: driver.to_string(),
            registered_on: registered.map(ToString::to_string).collect(),
            missing_on: missing,
            daemon_set: windows.map(|set| set.key.to_string()),
            csi_proxy_pipes: windows
                .map_or_else(Vec::new, |set| set.node_side.csi_proxy_pipes.clone()),
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
            blocking: self.needs.is_blocking(row),
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
