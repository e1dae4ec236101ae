//! A whole cluster for the operator: a control plane with everything installed, Windows hosts, and the operator itself.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::cleanup::Guardian;
use crate::control_plane::{Content, ControlPlane};
use crate::objects;
use crate::olm::Olm;
use crate::reused::Reused;
use crate::windows_host::{Fleet, WindowsHost};

/// How long to wait for an operator to exit.
const END: Duration = Duration::from_secs(120);

/// A control plane with the operator's CRDs, namespace, RBAC and an `OperatorCondition`, and a fleet of Windows hosts.
#[derive(Debug)]
pub struct Sandbox {
    /// The Windows hosts. Dropped before the control plane.
    pub fleet: Fleet,
    /// The control plane.
    pub control_plane: Reused,
}

/// Starts a control plane on which everything that the operator needs is installed.
pub fn installed() -> Result<ControlPlane> {
    static INSTALLED: Mutex<Option<Arc<Content>>> = Mutex::new(None);
    ControlPlane::start_like(&INSTALLED, || {
        let control_plane = ControlPlane::start()?;
        install(&control_plane)?;
        Ok(control_plane)
    })
}

/// Installs everything that the operator needs on a control plane.
pub fn install(control_plane: &ControlPlane) -> Result<()> {
    install_from(
        control_plane,
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."),
    )
}

/// Installs the version in this folder; a version that is already installed is upgraded or downgraded to it.
pub fn install_from(control_plane: &ControlPlane, root: &Path) -> Result<()> {
    control_plane.install_operator_condition_crd()?;
    let read = |file: &str| {
        let path = root.join(file);
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    for file in [
        "crds/windowsstorage.dev_windowsstorages.yaml",
        "crds/windowsstorage.dev_windowsnodestorages.yaml",
        "manifests/namespace.yaml",
        "manifests/rbac.yaml",
    ] {
        control_plane.apply(&read(file)?)?;
    }
    control_plane.await_definitions()?;
    control_plane.apply(&objects::linux_node())?;
    control_plane.apply(&objects::operator_condition())?;
    Ok(())
}

impl Sandbox {
    /// Starts everything, without nodes and without an operator.
    pub fn start() -> Result<Self> {
        Ok(Self {
            fleet: Fleet::new()?,
            control_plane: Reused::once(installed()?)?,
        })
    }

    /// Starts a sandbox with the manifests of the version in this folder.
    pub fn start_from(root: &Path) -> Result<Self> {
        let control_plane = ControlPlane::start()?;
        install_from(&control_plane, root)?;
        Ok(Self {
            fleet: Fleet::new()?,
            control_plane: Reused::once(control_plane)?,
        })
    }

    /// Starts a sandbox with a control plane that another test of this process has used before, if one is idle.
    pub fn reuse() -> Result<Self> {
        Ok(Self {
            fleet: Fleet::new()?,
            control_plane: Reused::take(installed)?,
        })
    }

    /// Starts the real OLM, which processes what is written to the `OperatorCondition`.
    pub fn add_olm(&self) -> Result<Olm> {
        Olm::install_definitions(&self.control_plane)?;
        Olm::start(&self.control_plane)
    }

    /// Applies the Secret with the fleet's SSH key, and the settings to reach it.
    pub fn give_access(&self) -> Result<()> {
        self.control_plane
            .apply(&objects::ssh_secret(self.fleet.private_key_pem()))?;
        self.control_plane
            .apply(&objects::settings(self.fleet.port(), self.fleet.user()))?;
        Ok(())
    }

    /// Adds a Windows host that has joined the cluster: its Node with address, and a CSINode without drivers.
    pub fn add_windows_node(&self, name: &str) -> Result<WindowsHost> {
        let host = self.fleet.add_host(name)?;
        self.add_node(name, Some(&host.address().to_string()))?;
        self.register(name, &[])?;
        Ok(host)
    }

    /// Adds a Windows Node object, with or without an address.
    pub fn add_node(&self, name: &str, address: Option<&str>) -> Result<()> {
        self.control_plane.apply(&objects::windows_node(name))?;
        if let Some(address) = address {
            let status = serde_json::from_str(&objects::node_status(address))?;
            let path = format!("/api/v1/nodes/{name}/status");
            self.control_plane.patch(&path, &status)?;
        }
        Ok(())
    }

    /// Sets the drivers of the node's CSINode.
    pub fn register(&self, node: &str, drivers: &[&str]) -> Result<()> {
        self.control_plane.apply(&objects::csi_node(node, drivers))
    }

    /// Returns the command that starts the operator as its ServiceAccount.
    pub fn operator(&self, binary: &Path, payload: &Path) -> Result<OperatorCommand> {
        OperatorCommand::new(&self.control_plane, binary, payload)
    }

    /// Waits until the object exists and `kubectl wait --for=CONDITION` succeeds.
    pub fn wait_for(&self, object: &str, condition: &str, seconds: u32) -> Result<()> {
        let started = Instant::now();
        let (condition, timeout) = (
            format!("--for={condition}"),
            format!("--timeout={seconds}s"),
        );
        let arguments = [
            "wait",
            object,
            &condition,
            &timeout,
            "--namespace",
            objects::NAMESPACE,
        ];
        loop {
            match self.control_plane.kubectl(&arguments) {
                // Only newer versions of `kubectl wait` can wait for an object to be created, by a flag.
                Err(error)
                    if error.to_string().contains("NotFound")
                        && started.elapsed() < Duration::from_secs(seconds.into()) =>
                {
                    std::thread::sleep(Duration::from_millis(50));
                }
                waited => return waited.map(drop),
            }
        }
    }

    /// Waits until the gate has this status.
    pub fn wait_for_gate(&self, status: &str, seconds: u32) -> Result<()> {
        let condition =
            format!(r#"jsonpath={{.spec.conditions[?(@.type=="Upgradeable")].status}}={status}"#);
        self.wait_for(
            &format!("operatorcondition/{}", objects::OPERATOR_CONDITION),
            &condition,
            seconds,
        )
    }

    /// Returns the gate's message.
    pub fn gate_message(&self) -> Result<String> {
        self.control_plane.kubectl(&[
            "get",
            "operatorcondition",
            objects::OPERATOR_CONDITION,
            "--namespace",
            objects::NAMESPACE,
            "-o",
            r#"jsonpath={.spec.conditions[?(@.type=="Upgradeable")].message}"#,
        ])
    }
}

/// A command that starts the operator.
#[derive(Clone, Debug)]
pub struct OperatorCommand {
    binary: PathBuf,
    payload: PathBuf,
    kubeconfig: PathBuf,
    variables: Vec<(String, String)>,
}

impl OperatorCommand {
    /// Prepares the operator on a control plane that [`install`] has prepared.
    pub fn new(control_plane: &ControlPlane, binary: &Path, payload: &Path) -> Result<Self> {
        Self::in_namespace(control_plane, objects::NAMESPACE, binary, payload)
    }

    /// Prepares the operator that is installed in this namespace.
    pub fn in_namespace(
        control_plane: &ControlPlane,
        namespace: &str,
        binary: &Path,
        payload: &Path,
    ) -> Result<Self> {
        let kubeconfig =
            control_plane.kubeconfig_for_service_account(namespace, "windows-storage-operator")?;
        Ok(Self {
            binary: binary.to_owned(),
            payload: payload.to_owned(),
            kubeconfig,
            variables: vec![("POD_NAMESPACE".to_owned(), namespace.to_owned())],
        })
    }

    /// Returns the operator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Replaces the kubeconfig.
    pub fn with_kubeconfig(&self, kubeconfig: &Path) -> Self {
        Self {
            kubeconfig: kubeconfig.to_owned(),
            ..self.clone()
        }
    }

    /// Adds environment variables.
    pub fn with_variables(&self, variables: &[(&str, &str)]) -> Self {
        let added = variables.iter();
        let added = added.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self {
            variables: self.variables.iter().cloned().chain(added).collect(),
            ..self.clone()
        }
    }

    /// Replaces the payload, for instance by one with an older csi-proxy.
    pub fn with_payload(&self, payload: &Path) -> Self {
        Self {
            payload: payload.to_owned(),
            ..self.clone()
        }
    }

    /// Starts the operator. Its output goes to `log`, or to this process's standard error. Health is served only if the
    /// arguments say where.
    pub fn start(
        &self,
        log: Option<&Path>,
        arguments: &[&str],
        with_olm: bool,
    ) -> Result<Operator> {
        let guardian = Guardian::temp("operator")?;
        let mut command: Command = guardian.command(&self.binary);
        command
            .arg("run")
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .arg(format!("--payload-dir={}", self.payload.display()))
            .args(arguments)
            .env_remove("KUBECONFIG")
            .env_remove("POD_NAMESPACE")
            .env_remove("OPERATOR_CONDITION_NAME")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        // On a busy machine a leader may fail to renew its lease in time, and nobody would start it again here.
        for default in [
            "--serve-address=none",
            "--leader-elect=false",
            "--probe-interval=10",
        ] {
            let (option, _) = default.split_once('=').unwrap_or((default, ""));
            if !arguments.iter().any(|given| given.starts_with(option)) {
                command.arg(default);
            }
        }
        if with_olm {
            command.env("OPERATOR_CONDITION_NAME", objects::OPERATOR_CONDITION);
        }
        if let Some(log) = log {
            let file = File::options().create(true).append(true).open(log)?;
            command.stdout(file.try_clone()?).stderr(file);
        }
        let child = command
            .spawn()
            .with_context(|| format!("starting {}", self.binary.display()))?;
        Ok(Operator {
            child,
            _guardian: guardian,
        })
    }
}

/// A running operator, which is killed when this is dropped.
#[derive(Debug)]
pub struct Operator {
    child: Child,
    /// Kills the process even if this one dies.
    _guardian: Guardian,
}

impl Operator {
    /// Returns its process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it without warning, as a node failure or `kill -9` would.
    pub fn kill(mut self) -> Result<()> {
        Guardian::stop(&mut self.child)
    }

    /// Sends SIGTERM, as a kubelet does, and waits for the exit.
    pub fn terminate(mut self) -> Result<ExitStatus> {
        let status = Command::new("sh")
            .args(["-c", "kill -s TERM \"$0\"", &self.child.id().to_string()])
            .status()?;
        anyhow::ensure!(
            status.success(),
            "the operator could not be asked to stop: {status}"
        );
        self.wait()
    }

    /// Pauses the process, like a machine that goes to sleep, or resumes it.
    pub fn pause(&self, is_paused: bool) -> Result<()> {
        Guardian::signal(&self.child, if is_paused { "STOP" } else { "CONT" })?;
        // The first thread to receive the signal stops the others. On a busy machine, they may run on until then.
        let begin = Instant::now();
        while is_paused && !self.is_stopped()? {
            anyhow::ensure!(begin.elapsed() < END, "it does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn is_stopped(&self) -> Result<bool> {
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            // A thread that has ended in the meantime counts as stopped.
            let stat = std::fs::read_to_string(thread?.path().join("stat")).unwrap_or_default();
            let state = stat.rsplit_once(") ").map_or("T", |(_, state)| state);
            if !state.starts_with('T') {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the peak of its resident set so far, in bytes.
    pub fn peak_memory(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .and_then(|rest| rest.trim().strip_suffix("kB"))
            .context("the kernel does not tell the peak of the resident set")?;
        Ok(peak.trim().parse::<u64>()? * 1024)
    }

    /// Waits for its exit, for two minutes at most.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            anyhow::ensure!(
                begin.elapsed() < END,
                "the operator is still there after {END:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns its exit status, if it has exited.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }
}
