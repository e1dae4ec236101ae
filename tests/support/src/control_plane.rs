//! A Kubernetes control plane of a real etcd and a real kube-apiserver, without a kubelet.

mod audit;
mod clients;
mod content;
mod faults;
mod pki;
mod requests;

use std::fmt::Display;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

pub use self::audit::Request;
pub use self::content::Content;
pub use self::faults::Issuer;
use self::pki::{Authority, Identity};
use self::requests::Administrator;
pub use self::requests::User;
use crate::cleanup::Guardian;
use crate::parts::part;

/// Timeout for the start of a server: far longer than it needs, for a machine that builds at the same time.
const START_DEADLINE: Duration = Duration::from_secs(300);

/// A running control plane. It is stopped and its files are removed when it is dropped or when this process ends.
#[derive(Debug)]
pub struct ControlPlane {
    /// Taken only in `drop`.
    guardian: Option<Guardian>,
    dir: PathBuf,
    authority: Authority,
    /// The authority that may replace it.
    successor: Authority,
    admin: Identity,
    administrator: Administrator,
    api_address: SocketAddr,
    server: String,
    etcd: String,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    kubeconfigs: AtomicU32,
    children: Mutex<Children>,
    /// Whether the API server's certificate or arguments differ from those at the start.
    is_changed: AtomicBool,
    /// Earlier requests in the audit log are ignored. In the time format of the log.
    noted_since: Mutex<String>,
}

#[derive(Debug, Default)]
struct Children {
    etcd: Option<Child>,
    api_server: Option<Child>,
    controller_manager: Option<Child>,
}

impl ControlPlane {
    /// Starts etcd and kube-apiserver on free ports of 127.0.0.1, and returns when the API is ready.
    pub fn start() -> Result<Self> {
        static BOOTSTRAPPED: Mutex<Option<Arc<Content>>> = Mutex::new(None);
        Self::start_like(&BOOTSTRAPPED, || Self::start_with(None))
    }

    /// Starts a control plane with the content of the one that `make` has made first, which takes half the CPU time.
    pub fn start_like(
        first: &Mutex<Option<Arc<Content>>>,
        make: impl FnOnce() -> Result<Self>,
    ) -> Result<Self> {
        let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = first.clone() {
            drop(first);
            return Self::start_with_content(&content);
        }
        let control_plane = make()?;
        *first = Some(Arc::new(control_plane.content()?));
        Ok(control_plane)
    }

    /// Starts a control plane with this content.
    fn start_with_content(content: &Content) -> Result<Self> {
        let control_plane = Self::start_with(Some(content))?;
        control_plane.await_definitions()?;
        Ok(control_plane)
    }

    fn start_with(content: Option<&Content>) -> Result<Self> {
        at_free_addresses(|addresses| Self::try_start(content, addresses))
    }

    fn try_start(
        content: Option<&Content>,
        [etcd_address, api_address]: [SocketAddr; 2],
    ) -> Result<Self> {
        let guardian = Guardian::temp("control-plane")?;
        let dir = guardian.dir().to_owned();
        let authority = Authority::new()?;
        let admin = authority.client("admin", &["system:masters"])?;
        let successor = Authority::new()?;
        let mut control_plane = Self {
            guardian: Some(guardian),
            administrator: Administrator::new([&authority, &successor], &admin)?,
            authority,
            successor,
            admin,
            api_address,
            server: format!("https://{api_address}"),
            etcd: format!("http://{etcd_address}"),
            kubectl: part("kubectl")?,
            kubeconfig: PathBuf::new(),
            kubeconfigs: AtomicU32::new(0),
            children: Mutex::default(),
            is_changed: AtomicBool::new(false),
            noted_since: Mutex::default(),
            dir,
        };
        control_plane.write_keys()?;
        // Trusts both authorities, so that it works even after the server's certificate is replaced.
        control_plane.kubeconfig = control_plane.write_kubeconfig(
            "admin",
            &control_plane.authorities(&[Issuer::First, Issuer::Successor])?,
            &clients::client_keys(&control_plane.admin)?,
        )?;
        let etcd = control_plane.start_etcd()?;
        control_plane.children().etcd = Some(etcd);
        if let Some(content) = content {
            control_plane.store(content)?;
        }
        control_plane.start_api_server()?;
        Ok(control_plane)
    }

    /// Returns the address of the API, as `https://127.0.0.1:PORT`.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the address of etcd, as `http://127.0.0.1:PORT`.
    pub fn etcd(&self) -> &str {
        &self.etcd
    }

    /// Returns a self-contained kubeconfig with all rights.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the control plane's directory with logs, keys and kubeconfigs. It is removed with the control plane.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts the API server, which must not be running, and returns when it is ready.
    pub fn start_api_server(&self) -> Result<()> {
        self.start_api_server_with(&[])
    }

    /// Starts the API server with additional arguments.
    fn start_api_server_with(&self, more: &[String]) -> Result<()> {
        let file = |name: &str| self.dir.join(name);
        let mut command = self.guarded(&part(&api_server())?);
        option(&mut command, "etcd-servers", &self.etcd);
        option(&mut command, "secure-port", self.api_address.port());
        option(&mut command, "cert-dir", file("cert-dir").display());
        option(&mut command, "tls-cert-file", file("server.crt").display());
        option(
            &mut command,
            "tls-private-key-file",
            file("server.key").display(),
        );
        option(&mut command, "client-ca-file", file("ca.crt").display());
        option(
            &mut command,
            "service-account-key-file",
            file("service-account.pub").display(),
        );
        option(
            &mut command,
            "service-account-signing-key-file",
            file("service-account.key").display(),
        );
        command.args([
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            // One client at a time is as fair.
            "--enable-priority-and-fairness=false",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            // Without a controller, the account `default` does not exist, and pods would be refused.
            "--disable-admission-plugins=ServiceAccount",
            // In MB. A rotated log would lose earlier requests.
            "--audit-log-maxsize=100000",
        ]);
        command.args(more);
        let policy = self.write_audit_policy()?;
        option(&mut command, "audit-policy-file", policy.display());
        option(&mut command, "audit-log-path", self.audit_log().display());
        let mut children = self.children();
        ensure!(children.api_server.is_none(), "kube-apiserver runs already");
        let mut child = self.spawn("kube-apiserver", command)?;
        let ready = self.wait_until_ready("kube-apiserver", &mut child, || {
            let ok = |path| self.answers(self.api_address, path);
            // The namespace is created a moment after readiness.
            ok("/readyz") && ok("/api/v1/namespaces/default")
        });
        children.api_server = Some(child);
        ready
    }

    /// Kills the API server, as a crash would.
    pub fn stop_api_server(&self) -> Result<()> {
        self.children()
            .api_server
            .take()
            .as_mut()
            .map_or(Ok(()), Guardian::stop)
    }

    /// Kills the API server and starts it again at the same address.
    pub fn restart_api_server(&self) -> Result<()> {
        self.stop_api_server()?;
        self.start_api_server()
    }

    /// Starts kube-controller-manager with only the given controllers, in the format of `--controllers`, for instance
    /// `garbage-collector-controller,deployment-controller`. It replaces a running one.
    pub fn start_controller_manager(&self, controllers: &str) -> Result<()> {
        at_free_addresses(|[address]| self.start_controller_manager_at(address, controllers))
    }

    fn start_controller_manager_at(&self, address: SocketAddr, controllers: &str) -> Result<()> {
        let mut command = self.guarded(&part("kube-controller-manager")?);
        option(&mut command, "kubeconfig", self.kubeconfig.display());
        option(&mut command, "controllers", controllers);
        option(
            &mut command,
            "root-ca-file",
            self.dir.join("ca.crt").display(),
        );
        option(
            &mut command,
            "service-account-private-key-file",
            self.dir.join("service-account.key").display(),
        );
        option(&mut command, "secure-port", address.port());
        option(
            &mut command,
            "tls-cert-file",
            self.dir.join("server.crt").display(),
        );
        option(
            &mut command,
            "tls-private-key-file",
            self.dir.join("server.key").display(),
        );
        command.args(["--leader-elect=false", "--bind-address=127.0.0.1"]);
        self.stop_controller_manager()?;
        let mut children = self.children();
        let mut child = self.spawn("kube-controller-manager", command)?;
        let ready = self.wait_until_ready("kube-controller-manager", &mut child, || {
            self.answers(address, "/healthz")
        });
        children.controller_manager = Some(child);
        ready
    }

    /// Stops kube-controller-manager if it is running.
    pub fn stop_controller_manager(&self) -> Result<()> {
        self.children()
            .controller_manager
            .take()
            .as_mut()
            .map_or(Ok(()), Guardian::stop)
    }

    /// Returns whether the API server runs with its initial configuration. A plain restart does not change this.
    pub fn is_as_started(&self) -> bool {
        self.children().api_server.is_some() && !self.is_changed.load(Ordering::Relaxed)
    }

    fn start_etcd(&self) -> Result<Child> {
        let mut command = self.guarded(&part("etcd")?);
        let name = self.dir.display().to_string();
        option(&mut command, "name", &name);
        option(&mut command, "data-dir", self.dir.join("etcd").display());
        option(&mut command, "listen-client-urls", &self.etcd);
        option(&mut command, "advertise-client-urls", &self.etcd);
        command.args([
            "--listen-peer-urls=http://127.0.0.1:0",
            "--unsafe-no-fsync",
            // The maximum that etcd recommends, for the cluster with 150,000 pods.
            "--quota-backend-bytes=8589934592",
            "--log-level=warn",
        ]);
        let mut child = self.spawn("etcd", command)?;
        // Another process may have taken the address meanwhile, such as another etcd, which would then be shared.
        self.wait_until_ready("etcd", &mut child, || {
            let members = self.ask_etcd("/v3/cluster/member/list", &json!({}));
            members.is_ok_and(|members| members["members"][0]["name"] == *name)
        })?;
        Ok(child)
    }

    fn write_keys(&self) -> Result<()> {
        let service_account = pki::new_key()?;
        let server = self.authority.server()?;
        for (name, content) in [
            ("ca.crt", self.authority.certificate_pem()?),
            ("server.crt", server.certificate_pem()?),
            ("server.key", server.key_pem()?),
            (
                "service-account.key",
                service_account.private_key_to_pem_pkcs8()?,
            ),
            ("service-account.pub", service_account.public_key_to_pem()?),
        ] {
            pki::write_private(&self.dir.join(name), &content)?;
        }
        Ok(())
    }

    fn guarded(&self, program: &Path) -> Command {
        // Only `drop` takes the guardian, and nothing starts after that.
        self.guardian.as_ref().map_or_else(
            || Command::new("false"),
            |guardian| guardian.command(program),
        )
    }

    fn children(&self) -> MutexGuard<'_, Children> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.log"))
    }

    /// Starts a server with its log in the directory rather than on this process's streams.
    fn spawn(&self, name: &str, mut command: Command) -> Result<Child> {
        let log = fs::File::create(self.log(name))?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        command.spawn().with_context(|| format!("starting {name}"))
    }

    fn wait_until_ready(
        &self,
        name: &str,
        child: &mut Child,
        mut is_ready: impl FnMut() -> bool,
    ) -> Result<()> {
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                bail!(
                    "{name} ended with {status}; its last words:\n{}",
                    self.last_words(name)
                );
            }
            if is_ready() {
                return Ok(());
            }
            if start.elapsed() > START_DEADLINE {
                let _ = Guardian::stop(child);
                bail!(
                    "{name} is not ready after {START_DEADLINE:?}; its last words:\n{}",
                    self.last_words(name)
                );
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn last_words(&self, name: &str) -> String {
        let log = fs::read(self.log(name)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        drop(self.guardian.take());
        let Children {
            etcd,
            api_server,
            controller_manager,
        } = &mut *self.children();
        for child in [etcd, api_server, controller_manager].into_iter().flatten() {
            // The guardian has killed it; waiting reaps the zombie.
            let _ = child.wait();
        }
    }
}

/// Returns the API server part: the newest, or the minor version that `TEST_KUBERNETES` names, such as `1.24`.
fn api_server() -> String {
    let version = std::env::var("TEST_KUBERNETES").ok();
    version.map_or_else(
        || "kube-apiserver".to_owned(),
        |version| format!("kube-apiserver-{version}"),
    )
}

fn option(command: &mut Command, name: &str, value: impl Display) {
    command.arg(format!("--{name}={value}"));
}

/// Calls `start` with free addresses, and with others if another process has taken one before it is used.
fn at_free_addresses<const N: usize, T>(start: impl Fn([SocketAddr; N]) -> Result<T>) -> Result<T> {
    let mut attempts = 3;
    loop {
        match start(free_addresses()?) {
            Err(error)
                if attempts > 1 && format!("{error:#}").contains("address already in use") =>
            {
                attempts -= 1;
            }
            result => return result,
        }
    }
}

/// Returns free addresses. Their ports are below those that Linux gives out itself, so that nobody takes one while a server
/// starts again.
pub fn free_addresses<const N: usize>() -> Result<[SocketAddr; N]> {
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    // All are held until the last is chosen, so that they differ.
    let mut listeners = Vec::new();
    for address in &mut addresses {
        let listener = loop {
            let random = RandomState::new().build_hasher().finish();
            let port = u16::try_from(random % 12_000)? + 20_000;
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                listener => break listener?,
            }
        };
        *address = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_etcd_at_its_address_is_not_taken_for_its_own() {
        let first = ControlPlane::start().unwrap();
        let [_, free] = free_addresses().unwrap();
        let taken = first.etcd().trim_start_matches("http://").parse().unwrap();
        let error = ControlPlane::try_start(None, [taken, free]).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("address already in use"), "{error}");
    }
}
