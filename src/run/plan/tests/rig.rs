//! A cluster, the plans for it, and observations of its nodes.

use super::*;
use crate::node::Slot;
use crate::services::{Entry, csi_proxy_flags};

/// All inputs of a plan, and the last plan.
pub(super) struct Rig {
    pub(super) cluster: Cluster,
    pub(super) payload: Payload,
    memory: Memory,
    pub(super) report: Report,
    pub history: History,
    is_restored: bool,
    /// The last plan.
    pub(super) last: Arc<Plan>,
    pub(super) before: Option<Arc<Plan>>,
    pub(super) observations: BTreeMap<String, Observation>,
    pub(super) slots: RolloutSlots,
    /// Slots of nodes at work.
    pub(super) held: Vec<(String, Slot)>,
    pub(super) gate: Option<GateReport>,
    pub(super) settling: bool,
    /// Whether everything is listed before each pass.
    pub(super) is_fresh: bool,
    /// Seconds since 1970.
    pub(super) now: i64,
    /// Advances at each pass.
    pub(super) instant: Instant,
    /// By so many seconds: an hour, so that nothing counts as just published.
    pub(super) pause: u64,
}

impl Rig {
    pub(super) fn new() -> Self {
        let (cluster, memory) = (Cluster::default(), Memory::default());
        let instant = Instant::now();
        Self {
            report: assess(&cluster, &memory, None),
            history: History::new(instant),
            is_restored: false,
            last: Arc::new(Plan::of_test()),
            before: None,
            payload: Payload::of_test(),
            cluster,
            memory,
            observations: BTreeMap::new(),
            slots: RolloutSlots::default(),
            held: Vec::new(),
            gate: None,
            settling: false,
            is_fresh: true,
            now: 1_000,
            instant,
            pause: 3_600,
        }
    }

    /// Lets time pass.
    pub(super) fn later(&mut self, seconds: u32) {
        self.now += i64::from(seconds);
        self.instant += Duration::from_secs(seconds.into());
    }

    /// A cluster that has been read, with a Windows node whose status was written, and a Linux node.
    pub(super) fn settled() -> Self {
        let mut rig = Self::new();
        rig.add_node("linux-1", "linux");
        rig.add_node("win-1", "windows");
        rig.read_verdict_kinds();
        rig.read_configuration();
        let plan = rig.pass();
        rig.write_statuses(&plan);
        rig.pass();
        rig
    }

    pub(super) fn add_node(&mut self, name: &str, operating_system: &str) {
        let node = crate::index::Node {
            uid: format!("uid-{name}"),
            operating_system: operating_system.to_owned(),
            addresses: vec![NodeAddress {
                type_: "InternalIP".to_owned(),
                address: "10.0.0.1".to_owned(),
            }],
            ..crate::index::Node::default()
        };
        self.cluster.nodes.apply(name.into(), node);
        self.cluster
            .csi_nodes
            .apply(name.into(), CsiNode::default());
    }

    pub(super) fn reject_settings(&mut self) {
        let settings = WindowsStorage::new(SETTINGS_NAME, WindowsStorageSpec::default());
        self.cluster
            .settings
            .reject(&settings.metadata, "words".to_owned());
    }

    pub(super) fn read_verdict_kinds(&mut self) {
        for kind in KINDS.iter().filter(|kind| kind.decides) {
            kind.table_mut(&mut self.cluster).finish();
        }
    }

    pub(super) fn add_configuration(&mut self) {
        self.add_configuration_with(PrivateKey::new_pem());
    }

    pub(super) fn add_configuration_with(&mut self, private_key: Vec<u8>) {
        let pem = Zeroizing::new(private_key);
        self.ssh_secret().insert("private-key.pem".to_owned(), pem);
        let entry = Entry::of(&csi_proxy_flags(&[]).unwrap());
        let Ok(ServicesPlan::Create(data)) = services::plan(None, &entry) else {
            unreachable!("without a ConfigMap one is made");
        };
        self.put_config_map(services::CONFIG_MAP, data);
    }

    /// Returns the data of the Secret with SSH keys.
    pub(super) fn ssh_secret(&mut self) -> &mut BTreeMap<String, Zeroizing<Vec<u8>>> {
        let secret = (self.cluster.secrets.entry("cloud-private-key".to_owned()))
            .or_insert(Secret::Data(BTreeMap::new()));
        match secret {
            Secret::Data(data) => data,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn put_config_map(&mut self, name: &str, data: BTreeMap<String, String>) {
        let map = ConfigMap {
            data,
            ..ConfigMap::default()
        };
        self.cluster.config_maps.apply(name.to_owned(), map);
    }

    pub(super) fn finish_configuration(&mut self) {
        self.ssh_secret();
        self.cluster.config_maps.finish();
        self.cluster.node_statuses.finish();
    }

    pub(super) fn read_configuration(&mut self) {
        self.add_configuration();
        self.finish_configuration();
    }

    pub(super) fn change_node(&mut self, name: &str, change: impl FnOnce(&mut Node)) {
        let mut node = self.cluster.nodes.get(name).unwrap().clone();
        change(&mut node);
        self.cluster.nodes.apply(name.into(), node);
    }

    pub(super) fn label(&mut self, node: &str, key: &str, value: &str) {
        let label = (key.into(), value.into());
        self.change_node(node, |node| node.labels = [label].into());
    }

    pub(super) fn taint(&mut self, node: &str, key: &str) {
        let taint = Taint {
            key: key.to_owned(),
            value: None,
            effect: "NoSchedule".to_owned(),
        };
        self.change_node(node, |node| node.taints = vec![taint]);
    }

    /// Makes a node show that it is another owner's.
    pub(super) fn belongs_to(&mut self, node: &str, platform: Platform) {
        let shown = "label x".to_owned();
        self.change_node(node, |node| {
            node.platform = Some(PlatformSignal { platform, shown });
        });
    }

    /// Lists everything now.
    pub(super) fn list(&mut self) {
        let (begun, ended) = (self.instant, self.instant);
        for kind in KINDS.iter() {
            let table = kind.table_mut(&mut self.cluster);
            table.note_listed(Listed { begun, ended });
        }
    }

    /// Begins another process, which has seen nothing yet.
    pub(super) fn restart(&mut self) {
        self.memory = Memory::default();
        self.report = assess(&Cluster::default(), &self.memory, None);
        self.history = History::new(self.instant);
        self.is_restored = false;
        self.before = None;
        self.slots = RolloutSlots::default();
        self.observations.clear();
    }

    pub(super) fn pass(&mut self) -> Arc<Plan> {
        self.pass_after(self.pause)
    }

    /// Does what the judge does.
    pub(super) fn pass_after(&mut self, seconds: u64) -> Arc<Plan> {
        self.instant += Duration::from_secs(seconds);
        if self.is_fresh {
            self.list();
        }
        let cluster = &self.cluster;
        self.memory.learn(cluster);
        let report = assess(cluster, &self.memory, None);
        self.history
            .note_report(cluster, &self.report, &report, self.instant);
        self.report = report;
        if cluster.knows_configuration() && !std::mem::replace(&mut self.is_restored, true) {
            self.slots.restore(stored_in_progress(cluster));
        }
        let inputs = Inputs {
            cluster,
            report: &self.report,
            history: &self.history,
            before: self.before.as_deref(),
            seen: Seen {
                observations: &self.observations,
                services_problem: None,
                gate: self.gate.clone(),
            },
            payload: &self.payload,
            settled_at: self.instant + Duration::from_secs(self.settling.into()),
            now: Timestamp::from_second(self.now).unwrap(),
            instant: self.instant,
        };
        let plan = self.slots.decide(|slots| {
            let plan = plan(&inputs, slots);
            // As if the status were stored at once.
            (plan.rollout.slots.clone(), plan)
        });
        self.history.note_plan(&plan, self.instant);
        self.last = Arc::new(plan);
        self.before = Some(Arc::clone(&self.last));
        Arc::clone(&self.last)
    }

    /// Writes the statuses of nodes as planned.
    pub(super) fn write_statuses(&mut self, plan: &Plan) {
        for (name, node) in &plan.statuses.by_name {
            self.write(name, node.status.clone());
        }
    }

    pub(super) fn write(&mut self, name: &str, status: WindowsNodeStorageStatus) {
        self.cluster.node_statuses.apply(name.to_owned(), status);
    }

    pub(super) fn write_settings(&mut self, status: WindowsStorageStatus) {
        let object = self.cluster.settings.get(SETTINGS_NAME).cloned();
        let mut object = object
            .unwrap_or_else(|| WindowsStorage::new(SETTINGS_NAME, WindowsStorageSpec::default()));
        object.status = Some(status);
        self.cluster
            .settings
            .apply(SETTINGS_NAME.to_owned(), object);
    }

    pub(super) fn put(&mut self, object: &Value) {
        let name = |field: &str| object[field].as_str().unwrap();
        let kind = kind(name("apiVersion"), name("kind")).unwrap();
        let object = serde_json::from_value(object.clone()).unwrap();
        kind.absorb(&mut self.cluster, &object);
    }

    /// Records an observation of a node with the current desired state.
    pub(super) fn see(&mut self, node: &str, standing: Standing) {
        let NodePlan::Reconcile(Ok(target)) = &self.last.nodes[node] else {
            panic!("{node} is to be reconciled")
        };
        let desired = target.desired.as_ref().unwrap();
        let observation = Observation {
            standing,
            revision: desired.revision.clone(),
            attempt: desired.request.attempt.clone(),
            ssh_key: "a key".to_owned(),
            problem: (standing == Standing::Failed)
                .then(|| crate::node::Reason::RolledBack.error("undone")),
            ..Observation::default()
        };
        self.observations.insert(node.to_owned(), observation);
    }

    /// Records an observation of a node for this purpose.
    pub(super) fn saw(&mut self, node: &str, purpose: Purpose, standing: Standing) {
        let seen = Observation {
            purpose,
            standing,
            ..Observation::default()
        };
        self.observations.insert(node.to_owned(), seen);
    }

    pub(super) fn slots(&mut self) -> Vec<String> {
        self.pass();
        self.last.rollout.slots.iter().cloned().collect()
    }

    /// Sets the spec, and keeps the status.
    pub(super) fn want_again(&mut self, spec: &serde_json::Value) {
        let object = self.cluster.settings.get(SETTINGS_NAME);
        let status = object.and_then(|object| object.status.clone());
        self.want(spec);
        self.write_settings(status.unwrap_or_default());
    }

    pub(super) fn want(&mut self, spec: &serde_json::Value) {
        let object = serde_json::from_value(json!({
            "apiVersion": "windowsstorage.dev/v1alpha1",
            "kind": "WindowsStorage",
            "metadata": {"name": "cluster"},
            "spec": spec,
        }))
        .unwrap();
        self.cluster.settings.apply("cluster".to_owned(), object);
    }
}

/// Returns reason and message of a condition of the settings.
pub(super) fn said(todo: &Plan, type_: &str) -> Option<(String, String)> {
    let (_, status) = todo.settings.as_ref()?;
    let said = find(&status.conditions, type_)?;
    Some((said.reason.clone(), said.message.clone()))
}
