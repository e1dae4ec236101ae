//! Applies a driver's samples on a real API server with the real DaemonSet controller: from an in-tree volume that
//! holds upgrades to a driver on every Windows node.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::reused::Reused;
use testbed::{objects, sandbox};

use crate::samples::catalogue::{DRIVERS, Driver, Form, WORKLOADS, root};
use crate::samples::report::{Report, check};

/// Windows nodes with the taint of the Windows Machine Config Operator.
const WINDOWS: [&str; 2] = ["win-1", "win-2"];

struct Cluster {
    control_plane: Reused,
    driver: &'static Driver,
}

impl Cluster {
    /// Starts with two Windows nodes, a Linux node, and the namespace of the driver's Linux part.
    fn start(folder: &str) -> Self {
        let driver = DRIVERS.iter().find(|it| it.folder == folder).unwrap();
        let control_plane = Reused::take(sandbox::installed).unwrap();
        let controller = "daemonset-controller";
        control_plane.start_controller_manager(controller).unwrap();
        let cluster = Self {
            control_plane,
            driver,
        };
        let apply = |object: &str| cluster.control_plane.apply(object).unwrap();
        for node in WINDOWS {
            apply(&objects::windows_node(node));
            let status = objects::node_status("192.0.2.1").parse().unwrap();
            cluster.patch_status(&format!("/api/v1/nodes/{node}"), &status);
            cluster.register(node, &[]);
        }
        apply(&objects::linux_node());
        // The API server adds this taint to new nodes until a kubelet reports them ready.
        cluster.kubectl(&["taint", "node", "--all", "node.kubernetes.io/not-ready-"]);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": driver.namespace, "labels": {"pod-security.kubernetes.io/enforce": "privileged"},
        }});
        apply(&namespace.to_string());
        cluster
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        self.control_plane.kubectl(arguments).unwrap()
    }

    /// Returns the namespace and name of the driver's DaemonSet.
    fn driver_set(&self) -> (&'static str, &'static str) {
        (&self.driver.namespace, &self.driver.daemon_set)
    }

    /// Returns the API path of the driver's DaemonSet.
    fn driver_path(&self) -> String {
        let (namespace, name) = self.driver_set();
        format!("/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}")
    }

    /// Reads an object from the API server.
    fn read(&self, path: &str) -> Value {
        self.control_plane.read(path).unwrap().unwrap()
    }

    fn patch_status(&self, object: &str, status: &Value) {
        let path = format!("{object}/status");
        self.control_plane.patch(&path, status).unwrap();
    }

    fn apply(&self, folder: &Path) -> String {
        self.kubectl(&["apply", "-k", folder.to_str().unwrap()])
    }

    fn register(&self, node: &str, drivers: &[&str]) {
        let object = objects::csi_node(node, drivers);
        self.control_plane.apply(&object).unwrap();
    }

    fn check(&self) -> Report {
        let kubeconfig = self.control_plane.kubeconfig().to_str().unwrap();
        check(&["--kubeconfig", kubeconfig])
    }

    /// Waits until the controller schedules this many pods of the DaemonSet.
    fn await_scheduled(&self, count: usize) {
        // Compares the generation, so that an earlier status does not count.
        let path = self.driver_path();
        let set = self.read(&path);
        let generation = &set["metadata"]["generation"];
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let status = &self.read(&path)["status"];
            if status["observedGeneration"] == *generation
                && status["desiredNumberScheduled"] == count
            {
                return;
            }
            assert!(Instant::now() < deadline, "not {count} pods: {status}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Plays the scheduler and the kubelets for the DaemonSet's pods. Returns the nodes.
    fn run_pods(&self) -> Vec<String> {
        let (namespace, _) = self.driver_set();
        let list = self.read(&format!("/api/v1/namespaces/{namespace}/pods"));
        let mut nodes = Vec::new();
        for pod in list["items"].as_array().unwrap() {
            let name = pod["metadata"]["name"].as_str().unwrap();
            // The controller assigns pods to nodes by node affinity.
            let affinity = &pod["spec"]["affinity"]["nodeAffinity"];
            let required = &affinity["requiredDuringSchedulingIgnoredDuringExecution"];
            let field = &required["nodeSelectorTerms"][0]["matchFields"][0];
            let node = field["values"][0].as_str().unwrap();
            self.bind(namespace, name, node);
            nodes.push(node.to_owned());
        }
        nodes.sort();
        nodes
    }

    fn bind(&self, namespace: &str, pod: &str, node: &str) {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let pod = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
        let path = format!("{pod}/binding");
        self.control_plane.post(&path, &binding).unwrap();
        let status = json!({"status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
        }});
        self.patch_status(&pod, &status);
    }

    /// Returns whether the driver's ServiceAccount has this permission.
    fn may(&self, [verb, resource, name, namespace]: [&str; 4]) -> bool {
        let (of, account) = self.driver_set();
        let accounts = "system:serviceaccounts";
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
                "user": format!("system:serviceaccount:{of}:{account}"),
                "groups": [accounts, &format!("{accounts}:{of}"), "system:authenticated"],
                "resourceAttributes": {
                    "verb": verb, "resource": resource, "name": name, "namespace": namespace,
                },
            },
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = self.control_plane.post(path, &review).unwrap();
        answer["status"]["allowed"].as_bool().unwrap()
    }

    fn sample(&self, form: &Form) -> std::path::PathBuf {
        root().join(&self.driver.folder).join(&form.folder)
    }

    /// Asserts that the driver's row names the DaemonSet with this form's pipes, and that it has no findings.
    fn assert_found(&self, report: &Report, form: &Form) {
        let row = report.driver(&self.driver.name);
        assert_eq!(row["daemonSet"], self.driver.key());
        assert_eq!(row["csiProxyPipes"], json!(form.pipes));
        assert!(report.complaints().is_empty(), "{:?}", report.complaints());
    }

    /// Asserts that the driver's ServiceAccount has the permissions from the sample's README, and no others.
    fn assert_rights(&self) {
        let folder = &*self.driver.folder;
        let (namespace, _) = self.driver_set();
        assert_eq!(self.may(["get", "nodes", "", ""]), folder != "smb");
        let in_workloads = ["get", "secrets", "", WORKLOADS];
        assert_eq!(self.may(in_workloads), folder == "azure-file");
        let configuration = ["get", "secrets", "azure-cloud-provider", "kube-system"];
        assert_eq!(self.may(configuration), folder.starts_with("azure-"));
        for refused in [
            ["get", "secrets", "", "kube-system"],
            ["list", "secrets", "", ""],
            ["patch", "nodes", "", ""],
            ["create", "pods", "", namespace],
        ] {
            assert!(!self.may(refused), "{refused:?}");
        }
    }

    /// Asserts that without its tolerations the DaemonSet gets no pods, and that `check` reports the cause.
    fn assert_found_out_without_tolerations(&self) {
        let (namespace, _) = self.driver_set();
        let path = self.driver_path();
        let without = json!({"spec": {"template": {"spec": {"tolerations": null}}}});
        self.control_plane.patch(&path, &without).unwrap();
        self.await_scheduled(0);
        let pods = format!("/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0");
        self.control_plane.delete(&pods).unwrap();
        for node in WINDOWS {
            self.register(node, &[]);
        }
        let report = self.check();
        let object = format!("DaemonSet/{}", self.driver.key());
        assert_eq!(
            report.complaints(),
            [("TaintNotTolerated", object.as_str())]
        );
    }
}

/// Applies the samples of one driver step by step.
fn walk(folder: &str) {
    let cluster = Cluster::start(folder);
    let driver = cluster.driver;
    let name = &*driver.name;
    cluster.apply(&root().join("namespace"));
    if driver.is_migrated_to {
        cluster.apply(&driver.in_tree());
        cluster.bind(WORKLOADS, &format!("in-tree-{folder}"), WINDOWS[0]);
        let held = cluster.check();
        assert_eq!(held.verdict(), ("False", "DriversMissing"));
        let codes = held.findings();
        assert!(
            codes.iter().any(|(code, _)| *code == "DaemonSetMissing"),
            "{codes:?}"
        );
    }

    // The DaemonSet tolerates the taint of both Windows nodes and does not select the Linux node.
    let first = &driver.forms[0];
    cluster.apply(&cluster.sample(first));
    let again = cluster.apply(&cluster.sample(first));
    for line in again.lines() {
        // The API server adds its own tolerations to a pod, so a second apply always changes it.
        assert!(
            line.ends_with("unchanged") || line.starts_with("pod/"),
            "{line}"
        );
    }
    cluster.await_scheduled(WINDOWS.len());
    assert_eq!(cluster.run_pods(), WINDOWS);
    cluster.bind(WORKLOADS, folder, WINDOWS[1]);

    let held = cluster.check();
    cluster.assert_found(&held, first);
    if driver.is_migrated_to {
        assert_eq!(held.status, Some(3));
        assert_eq!(held.verdict(), ("False", "DriversMissing"));
        let says = format!("needs {name}, missing on {}", WINDOWS.join(", "));
        assert!(held.message().contains(&says), "{}", held.message());
        // One of two nodes is not enough.
        cluster.register(WINDOWS[0], &[name]);
        let held = cluster.check();
        let says = format!("needs {name}, missing on {}", WINDOWS[1]);
        assert!(held.message().contains(&says), "{}", held.message());
    }
    for node in WINDOWS {
        cluster.register(node, &[name]);
    }
    let open = cluster.check();
    cluster.assert_found(&open, first);
    assert_eq!(open.status, Some(0));
    assert_eq!(open.verdict().0, "True");
    assert_eq!(open.driver(name)["registeredOn"], json!(WINDOWS));
    // Kubernetes reads the CSIDriver to know how to attach volumes. The driver's controller installs it.
    let object = format!("CSIDriver/{name}");
    let findings = open.findings();
    assert!(
        findings.contains(&("CSIDriverMissing", &object)),
        "{findings:?}"
    );

    cluster.assert_rights();

    // The other form replaces the first.
    let last = driver.forms.last().unwrap();
    cluster.apply(&cluster.sample(last));
    let switched = cluster.check();
    cluster.assert_found(&switched, last);
    assert_eq!(switched.verdict().0, "True");

    cluster.assert_found_out_without_tolerations();
}

macro_rules! walks {
    ($($test:ident: $folder:literal;)+) => {
        $(
            #[test]
            fn $test() {
                walk($folder);
            }
        )+
    };
}

walks! {
    aws_ebs: "aws-ebs";
    azure_disk: "azure-disk";
    azure_file: "azure-file";
    gce_pd: "gce-pd";
    smb: "smb";
    vsphere: "vsphere";
}
