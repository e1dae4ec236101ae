//! Fleets of simulated hosts with a real API server: for hundreds of hosts, and for what a real host cannot be made to
//! do at a chosen moment. `testbed`'s own tests compare the simulation with the real agent.

mod acceptance;
mod chaos;
mod fleet;
mod middle;
mod must_gather;
mod pools;
mod rollout;
pub mod secrets;
mod services;
mod trust;

use std::path::{Path, PathBuf};

use serde_json::json;
use simulated_host::{Profile, Shell, SimulatedFleet, SimulatedHost};
use testbed::objects;
use testbed::sandbox::Operator;

use crate::cluster::harness::{Harness, SETTINGS, write_payload};

/// A cluster whose Windows nodes are simulated.
pub struct Simulation {
    pub harness: Harness,
    pub fleet: SimulatedFleet,
    pub hosts: Vec<SimulatedHost>,
    runtime: tokio::runtime::Runtime,
}

impl Simulation {
    /// Creates this many nodes, `win-000` and so on, and SSH access to them.
    pub fn new(nodes: usize) -> Self {
        let harness = Harness::new();
        let fleet = SimulatedFleet::new().unwrap();
        let hosts: Vec<SimulatedHost> = (0..nodes)
            .map(|number| {
                let host = fleet.add_host(&format!("win-{number:03}")).unwrap();
                // Eight of them cover each version of Windows' SSH server in each shell.
                let profile = Profile::ALL[number % Profile::ALL.len()];
                let shell = Shell::ALL[number / Profile::ALL.len() % Shell::ALL.len()];
                host.become_like(profile, shell);
                host
            })
            .collect();
        let simulation = Self {
            harness,
            fleet,
            hosts,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
        };
        let control_plane = simulation.harness.control_plane();
        // One call for all objects, because each start of kubectl takes longer than a host needs.
        let objects: Vec<String> = simulation
            .hosts
            .iter()
            .flat_map(|host| {
                [
                    objects::windows_node(host.name()),
                    objects::csi_node(host.name(), &[]),
                ]
            })
            .collect();
        control_plane.apply(&objects.join("---\n")).unwrap();
        simulation.write_statuses("boot-1", nodes);
        control_plane
            .apply(&objects::ssh_secret(
                &simulation.fleet.private_key().unwrap(),
            ))
            .unwrap();
        simulation.want(&json!({}));
        simulation
    }

    /// Writes the status of the first nodes, with this boot ID, as their kubelets would.
    fn write_statuses(&self, boot_id: &str, nodes: usize) {
        let mut items = Vec::new();
        for host in &self.hosts[..nodes] {
            let mut status: serde_json::Value =
                serde_json::from_str(&objects::node_status(&host.address().to_string())).unwrap();
            status["apiVersion"] = "v1".into();
            status["kind"] = "Node".into();
            status["metadata"] = json!({"name": host.name()});
            status["status"]["nodeInfo"]["bootID"] = boot_id.into();
            items.push(status);
        }
        let statuses = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let line = "apply --server-side --force-conflicts --subresource=status -f -";
        let arguments: Vec<&str> = line.split(' ').collect();
        self.harness
            .control_plane()
            .kubectl_with_input(&arguments, &statuses.to_string())
            .unwrap();
    }

    /// Applies `WindowsStorage` with the SSH access to the hosts and this spec.
    pub fn want(&self, spec: &serde_json::Value) {
        let mut object = json!({
            "apiVersion": "windowsstorage.dev/v1alpha1",
            "kind": "WindowsStorage",
            "metadata": {"name": "cluster"},
            "spec": {
                "ssh": {"user": self.fleet.user(), "port": self.fleet.port()},
            },
        });
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        self.harness.apply(&object.to_string());
    }

    /// Creates a payload of a few bytes, none of which is ever run.
    pub fn payload(&self, version: &str) -> PathBuf {
        self.payload_of(version, env!("CARGO_PKG_VERSION"))
    }

    /// Creates a payload with this version of the agent.
    fn payload_of(&self, version: &str, agent: &str) -> PathBuf {
        let name = format!("{version}-{agent}");
        let folder = self.harness.control_plane().dir().join(name);
        let contents = [("agent", agent), ("csiProxy", version)]
            .map(|(program, version)| format!("MZ {program} {version}"));
        let [ours, csi_proxy] = contents.each_ref().map(String::as_bytes);
        write_payload(&folder, (ours, agent), (csi_proxy, version));
        folder
    }

    /// Returns the nodes whose condition `CSIProxyReady` is True.
    pub fn ready(&self) -> Vec<String> {
        self.harness.list("windowsnodestorages")["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|item| {
                item["status"]["conditions"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|condition| {
                        condition["type"] == "CSIProxyReady" && condition["status"] == "True"
                    })
            })
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Returns the nodes with this csi-proxy on disk.
    pub fn nodes_with(&self, version: &str) -> Vec<&str> {
        let content = format!("MZ csiProxy {version}");
        let has = |host: &&SimulatedHost| {
            host.with_disk(|disk| {
                let file = disk.file(r"C:\k\csi-proxy.exe");
                file.is_some_and(|file| file.content() == content.as_bytes())
            })
        };
        self.hosts
            .iter()
            .filter(has)
            .map(SimulatedHost::name)
            .collect()
    }

    /// Creates nodes on which an operator has installed csi-proxy v1.1.3. It has ended.
    pub fn installed(nodes: usize) -> Self {
        let simulation = Self::new(nodes);
        let harness = &simulation.harness;
        let operator = harness.start_with(&simulation.payload("v1.1.3"));
        harness.eventually("all nodes have the old csi-proxy", || {
            simulation.ready().len() == nodes
        });
        harness.expect(SETTINGS, "RolloutProgressing", "False", "Complete");
        assert!(operator.terminate().unwrap().success());
        simulation
    }

    /// Waits until the status of each node has this version of csi-proxy.
    fn expect_all_have(&self, version: &str) {
        self.harness
            .eventually("all nodes have the new csi-proxy", || {
                let mut hosts = self.hosts.iter();
                hosts.all(|host| self.version(host.name()) == version)
            });
    }

    /// Starts an operator with this payload, and waits until it has looked at each of these hosts twice.
    fn look_twice(&self, payload: &Path, hosts: &[SimulatedHost]) -> Operator {
        let logins = || hosts.iter().map(|host| host.counters().logins);
        let before: Vec<u64> = logins().collect();
        let operator = self.harness.start_with(payload);
        self.harness
            .eventually("every node was looked at twice", || {
                logins().zip(&before).all(|(now, before)| now >= before + 2)
            });
        operator
    }

    /// Returns the version of csi-proxy in a node's status.
    fn version(&self, node: &str) -> String {
        let object = self.harness.get(&format!("windowsnodestorage/{node}"));
        let version = &object["status"]["csiProxy"]["version"];
        version.as_str().unwrap_or_default().to_owned()
    }

    /// Writes a ConfigMap in the operator's namespace.
    pub fn write_config_map(&self, name: &str, data: &serde_json::Value) {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": objects::NAMESPACE},
            "data": data,
        });
        self.harness.apply(&map.to_string());
    }

    /// Waits for a future of a host.
    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub fn host(&self, name: &str) -> &SimulatedHost {
        self.hosts.iter().find(|host| host.name() == name).unwrap()
    }
}
