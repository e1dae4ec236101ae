//! Where the commands of a page run: a cluster with two Windows nodes, its own home folder, and the operator.
//!
//! It is the cluster of `make run`. Compared with a real cluster it has no kubelet, so no pods run. The operator runs
//! as a process, with the rights that the manifests give to its pod.

mod others;

use std::cell::RefCell;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use std::{fs, thread};

use tempfile::TempDir;
use testbed::commands::printed;
use testbed::control_plane::ControlPlane;
use testbed::olm::Olm;
use testbed::parts::part;
use testbed::reused::Reused;
use testbed::sandbox::{Operator, Sandbox};
use testbed::windows_host::{Fleet, WindowsHost};
use testbed::{markdown, objects};

use crate::docs::blocks::{Block, page};
use crate::docs::output::is_as_shown;
use crate::docs::root;

/// How long it may take on a loaded machine until the output is as the page shows it.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time limit of a block, in seconds.
const LIMIT: &str = "180";
/// kubectl's error when an API server on a loaded machine has cut off a request.
const CUT_OFF: &str = "Unable to connect to the server: stream error";
/// How often a command is tried if its request is cut off.
const ATTEMPTS: u32 = 3;
/// Commands that only read, and so may be repeated until the cluster is as the page shows it.
const READS: [&str; 5] = [
    "kubectl get ",
    "kubectl describe ",
    "kubectl explain ",
    "kubectl auth ",
    "windows-storage-operator check",
];

/// The state of the cluster when a page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// As in `make run`: both nodes have csi-proxy, a pod's in-tree volume lacks its driver, and OLM is installed.
    Held,
    /// The same nodes and the same pod, without the operator and OLM.
    Bare,
    /// The same objects without hosts behind them, the CRDs and RBAC, and the vSphere driver with its feature switch
    /// off. No operator runs, and there is no SSH key.
    Objects,
    /// A Linux node and the namespaces and definitions of others. No operator runs; controllers finish deletions.
    Empty,
    /// The nodes of the Windows Machine Config Operator, and OLM, beside what `Empty` has.
    OpenShift,
    /// The nodes of Rancher.
    Rancher,
    /// The nodes of AKS, with its driver.
    Cloud,
}

impl Scene {
    /// Returns the label by which its nodes belong to another owner.
    fn label(self) -> Option<&'static str> {
        match self {
            Self::OpenShift => Some("node.openshift.io/os_id=Windows"),
            Self::Rancher => Some("cattle.io/os=windows"),
            Self::Cloud => Some("kubernetes.azure.com/node-image-version=AKSWindows-2022"),
            Self::Held | Self::Bare | Self::Objects | Self::Empty => None,
        }
    }

    /// Returns whether its nodes are real hosts.
    fn has_hosts(self) -> bool {
        matches!(self, Self::Held | Self::Bare)
    }
}

/// Namespaces that pages assume: of drivers' Linux parts, and of the Windows Machine Config Operator.
const NAMESPACES: [&str; 3] = [
    "vmware-system-csi",
    "openshift-cluster-csi-drivers",
    "openshift-windows-machine-config-operator",
];

/// The Windows nodes.
const NODES: [&str; 2] = ["win-1", "win-2"];

/// A cluster and a shell for it.
pub struct World {
    hosts: Vec<WindowsHost>,
    // Dropped before the cluster that it works on.
    operator: RefCell<Option<Operator>>,
    _olm: Option<Olm>,
    sandbox: Sandbox,
    folder: TempDir,
    home: TempDir,
    scene: Scene,
}

impl World {
    pub fn new(scene: Scene) -> Self {
        let sandbox = match scene {
            Scene::Held | Scene::Objects => Sandbox::reuse().unwrap(),
            _ => Sandbox {
                control_plane: Reused::once(ControlPlane::start().unwrap()).unwrap(),
                fleet: Fleet::new().unwrap(),
            },
        };
        let mut hosts = Vec::new();
        if matches!(scene, Scene::Empty | Scene::OpenShift) {
            add_what_others_bring(&sandbox.control_plane);
        }
        if scene != Scene::Empty {
            for name in NODES {
                if scene.has_hosts() {
                    hosts.push(sandbox.add_windows_node(name).unwrap());
                } else {
                    sandbox.add_node(name, None).unwrap();
                    let drivers = (scene == Scene::Cloud).then_some("disk.csi.azure.com");
                    sandbox.register(name, drivers.as_slice()).unwrap();
                }
                if let Some(label) = scene.label() {
                    let label = ["label", "node", name, label];
                    sandbox.control_plane.kubectl(&label).unwrap();
                }
            }
            let workload = objects::azure_disk_workload("win-1");
            sandbox.control_plane.apply(&workload).unwrap();
        }
        let world = Self {
            hosts,
            operator: RefCell::default(),
            _olm: matches!(scene, Scene::Held | Scene::OpenShift)
                .then(|| sandbox.add_olm().unwrap()),
            folder: project(),
            home: home(&sandbox, scene),
            sandbox,
            scene,
        };
        if scene == Scene::Objects {
            let fleet = &world.sandbox.fleet;
            let settings = objects::settings(fleet.port(), fleet.user());
            world.sandbox.control_plane.apply(&settings).unwrap();
            world.add_vsphere();
        }
        if scene == Scene::Held {
            world.sandbox.give_access().unwrap();
            world.start_operator(true);
            for node in NODES {
                let node = format!("windowsnodestorage/{node}");
                world.wait_for(&node, "condition=CSIProxyReady");
            }
            world.wait_for(
                "windowsstorage/cluster",
                r#"jsonpath={.status.conditions[?(@.type=="OperatorConditionWritten")].reason}=Confirmed"#,
            );
        }
        world
    }

    /// Runs the commands of a page from top to bottom.
    pub fn follow_page(&self, path: &str) {
        for block in page(path).blocks.iter().filter(|it| !it.is_let_alone()) {
            if self.operator.borrow().is_none() && block.code.contains("kubectl wait") {
                self.say_upgradeable();
            }
            self.follow(block);
        }
    }

    /// Runs or writes a block of a page.
    fn follow(&self, block: &Block) {
        match block.language.as_str() {
            "yaml" => self.write(block),
            "sh" => self.script(block),
            "console" => self.examples(block),
            "bat" => self.on_node(block),
            _ => {}
        }
        if self.scene != Scene::Empty {
            self.let_others_act();
        }
    }

    /// Returns a part of what kubectl finds.
    pub fn get(&self, what: &str, part: &str) -> String {
        let output = format!("--output=jsonpath={part}");
        let words: Vec<&str> = what.split(' ').collect();
        let arguments = [&["get"], &words[..], &[&output]].concat();
        self.sandbox.control_plane.kubectl(&arguments).unwrap()
    }

    /// Returns the folder in which the commands run.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sets the verdict in place of the operator, where none runs.
    fn say_upgradeable(&self) {
        let control_plane = &self.sandbox.control_plane;
        let settings = objects::settings(22, "Administrator");
        control_plane.apply(&settings).unwrap();
        let condition = serde_json::json!({
            "type": "Upgradeable", "status": "True", "reason": "NoWindowsNodes", "message": "none",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let status = serde_json::json!({"status": {"conditions": [condition]}});
        let path = "/apis/windowsstorage.dev/v1alpha1/windowsstorages/cluster/status";
        control_plane.patch(path, &status).unwrap();
    }

    /// Installs the driver of the cluster that `must-gather.local.123` was gathered from.
    fn add_vsphere(&self) {
        let control_plane = &self.sandbox.control_plane;
        let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: vmware-system-csi}\n";
        control_plane.apply(namespace).unwrap();
        for file in ["driver-linux.yaml", "driver-windows.yaml"] {
            let path = self.folder.path().join("must-gather.local.123").join(file);
            let objects = fs::read_to_string(path).unwrap();
            // The API server assigns the uids.
            let lines = objects.lines().filter(|line| !line.starts_with("  uid: "));
            let objects: Vec<&str> = lines.collect();
            control_plane.apply(&objects.join("\n")).unwrap();
        }
    }

    fn wait_for(&self, object: &str, condition: &str) {
        let waited = self.sandbox.wait_for(object, condition, 120);
        waited.unwrap_or_else(|error| panic!("{error:#}\n{}", self.log()));
    }

    /// Writes a YAML block to the file that its first line names, if it names one.
    fn write(&self, block: &Block) {
        let first = block.code.lines().next().unwrap_or_default();
        if let Some(name) = first.strip_prefix("# ")
            && Path::new(name).extension().is_some_and(|end| end == "yaml")
        {
            let file = self.folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, &block.code).unwrap();
        }
    }

    /// Runs a block as one script. Commands may fail only with the exit status that the page names, and one has to.
    fn script(&self, block: &Block) {
        let (allowed, end) = match block.exit_status() {
            Some(status) => (
                format!("{status}) seen=yes ;;"),
                "[ \"${seen:-}\" = yes ] || exit 99\n",
            ),
            None => (String::new(), ""),
        };
        let script = format!(
            "trap 'status=$?; case $status in {allowed} *) exit $status ;; esac' ERR\n{}\n{end}",
            block.code
        );
        let output = self.shell(&script);
        let (place, printed, log) = (&block.place, text(&output), self.log());
        assert!(
            output.status.success(),
            "{place}: {script}\n{printed}\nthe operator's log:\n{log}"
        );
    }

    /// Runs the commands of a block one by one and compares their output with the page.
    fn examples(&self, block: &Block) {
        let (place, code) = (&block.place, &block.code);
        assert!(code.starts_with("$ "), "{place}: output first");
        for (command, shown) in markdown::examples(code) {
            let started = Instant::now();
            loop {
                let output = self.shell(&command);
                let printed = text(&output);
                let status = output.status.code().unwrap_or(-1);
                let is_expected = status == 0 || Some(status) == block.exit_status();
                if is_expected && is_as_shown(&shown, &printed) {
                    break;
                }
                let reads = READS.iter().any(|read| command.starts_with(read));
                let log = self.log();
                assert!(
                    reads && started.elapsed() < PATIENCE,
                    "{place}: {command}\nended with {status} and printed\n{printed}\nbut the page shows\n{shown}\n{log}"
                );
                thread::sleep(Duration::from_millis(500));
            }
        }
    }

    /// Runs the lines of a block at the command prompt of win-1.
    fn on_node(&self, block: &Block) {
        for line in block.code.lines().filter(|line| !line.trim().is_empty()) {
            let output = self.hosts[0].run(line).unwrap();
            let (place, printed) = (&block.place, text(&output));
            assert!(output.status.success(), "{place}: {line}\n{printed}");
        }
    }

    fn shell(&self, script: &str) -> Output {
        let mut attempt = 1;
        loop {
            let output = self.shell_once(script);
            if attempt == ATTEMPTS || !text(&output).contains(CUT_OFF) {
                return output;
            }
            attempt += 1;
            thread::sleep(Duration::from_secs(2));
        }
    }

    fn shell_once(&self, script: &str) -> Output {
        let home = self.home.path().to_str().unwrap();
        Command::new("timeout")
            .args([LIMIT, "bash", "-uo", "pipefail", "-c", script])
            .current_dir(self.folder.path())
            .env_clear()
            .env("LANG", "C.UTF-8")
            .env("PATH", format!("{home}/bin:/usr/bin:/bin"))
            .env("HOME", home)
            .env("KUBECONFIG", self.sandbox.control_plane.kubeconfig())
            .output()
            .unwrap()
    }

    fn log_file(&self) -> PathBuf {
        self.sandbox.control_plane.dir().join("operator.log")
    }

    fn log(&self) -> String {
        let log = fs::read_to_string(self.log_file()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

fn add_what_others_bring(control_plane: &ControlPlane) {
    Olm::install_definitions(control_plane).unwrap();
    control_plane.apply(&objects::linux_node()).unwrap();
    // `kubectl delete` waits for what these controllers finish.
    let controllers = "namespace-controller,persistentvolumeclaim-protection-controller";
    control_plane.start_controller_manager(controllers).unwrap();
    for namespace in NAMESPACES {
        let create = ["create", "namespace", namespace];
        control_plane.kubectl(&create).unwrap();
    }
}

/// Copies the parts of the project's tree that the pages use.
fn project() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    // With the folder that `oc adm must-gather` would leave.
    let script = r#"cp -r --parents manifests crds tests/check/input "$0"
        cp -r tests/check/input/vsphere-1.26 "$0/must-gather.local.123""#;
    let mut copy = Command::new("bash");
    copy.args(["-euc", script])
        .arg(folder.path())
        .current_dir(root());
    printed(&mut copy).unwrap();
    folder
}

/// Creates a home folder with the programs and the SSH key that the pages refer to, unless they make it.
fn home(sandbox: &Sandbox, scene: Scene) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let (bin, ssh) = (home.path().join("bin"), home.path().join(".ssh"));
    for folder in [&bin, &ssh] {
        fs::create_dir(folder).unwrap();
    }
    symlink(part("kubectl").unwrap(), bin.join("kubectl")).unwrap();
    let operator = env!("CARGO_BIN_EXE_windows-storage-operator");
    symlink(operator, bin.join("windows-storage-operator")).unwrap();
    if scene != Scene::Bare {
        let key = sandbox.fleet.private_key_pem();
        fs::write(ssh.join("windows_rsa"), key).unwrap();
    }
    home
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|stream| String::from_utf8_lossy(stream).into_owned())
        .concat()
}
