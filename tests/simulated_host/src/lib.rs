//! Simulated Windows hosts, hundreds in one process: each has an SSH server at its own address and an agent that only
//! reports what the real one would, and can have faults that real hosts cannot be made to have at a chosen moment.
//!
//! The `windows_host` of `tests/support` is the reference for Windows' behaviour; `tests/testbed/simulated_host.rs` there
//! compares the two.

mod agent;
mod disk;
mod distance;
mod faults;
mod file;
mod gauge;
mod handed;
mod host;
mod listening;
mod penalty;
mod profile;
mod server;
mod sftp;
mod sharing;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use protocol::paths::{AGENT_EXE, AGENT_PREVIOUS, AGENT_RETIRED, CSI_PROXY_EXE};
use russh::keys::ssh_key::LineEnding;
use russh::keys::{PrivateKey, decode_secret_key};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use agent::PLANTED;

pub use disk::Disk;
pub use distance::LostLine;
pub use faults::{Counters, Faults, Greeting, Moment, Speech};
pub use file::File;
pub use gauge::{Gauge, Gauges};
use penalty::Penalty;
pub use profile::{Profile, Shell};

use host::Host;
use listening::{bind, claim_network, serve};

/// Longer than any step takes on a loaded machine; only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(60);
const USER: &str = "Administrator";
/// Hosts per fleet: two bytes of the address, of which the highest are reserved for claiming the network.
const MOST_HOSTS: u16 = u16::MAX - 256;

/// The type of a host key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// `ssh-ed25519`.
    Ed25519,
    /// `ecdsa-sha2-nistp256`.
    Ecdsa256,
    /// `ssh-rsa`, with SHA-2.
    Rsa,
}

/// Creates a new key.
pub fn new_key(kind: KeyKind) -> Result<PrivateKey> {
    use openssl::ec::{EcGroup, EcKey};
    use openssl::nid::Nid;
    use openssl::pkey::PKey;
    let key = match kind {
        KeyKind::Ed25519 => PKey::generate_ed25519()?,
        KeyKind::Ecdsa256 => {
            let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
            PKey::from_ec_key(EcKey::generate(&group)?)?
        }
        KeyKind::Rsa => PKey::from_rsa(openssl::rsa::Rsa::generate(2048)?)?,
    };
    let pem = String::from_utf8(key.private_key_to_pem_pkcs8()?)?;
    decode_secret_key(&pem, None).context("making a key")
}

/// A fleet of simulated hosts, each with its own address. They share the SSH port and the login.
#[derive(Debug)]
pub struct SimulatedFleet {
    runtime: Option<Runtime>,
    login: PrivateKey,
    network: u8,
    port: u16,
    hosts: AtomicU16,
    gauges: Arc<Gauges>,
    /// Claims this port in this network against other fleets.
    _claim: TcpListener,
}

impl SimulatedFleet {
    /// Creates a fleet without hosts. Several fleets, in one process or many, do not conflict.
    pub fn new() -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("simulated-hosts")
            .enable_all()
            .build()?;
        let (network, claim) = claim_network()?;
        Ok(Self {
            runtime: Some(runtime),
            login: new_key(KeyKind::Ed25519)?,
            network,
            port: claim.local_addr()?.port(),
            hosts: AtomicU16::new(0),
            gauges: Arc::default(),
            _claim: claim,
        })
    }

    /// Returns the SSH port of every host.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the login name.
    pub fn user(&self) -> &str {
        USER
    }

    /// Returns the private key for all hosts, in OpenSSH's format.
    pub fn private_key(&self) -> Result<String> {
        Ok(self.login.to_openssh(LineEnding::LF)?.to_string())
    }

    /// Returns the gauges over all hosts: current and maximum numbers, such as of connections.
    pub fn gauges(&self) -> &Gauges {
        &self.gauges
    }

    /// Starts another host, with an Ed25519 host key.
    pub fn add_host(&self, name: &str) -> Result<SimulatedHost> {
        let number = self.hosts.fetch_add(1, Ordering::Relaxed) + 1;
        if number > MOST_HOSTS {
            bail!("a fleet has at most {MOST_HOSTS} hosts");
        }
        let [high, low] = number.to_be_bytes();
        let address = IpAddr::V4(Ipv4Addr::new(127, self.network, high, low));
        let runtime = self.runtime.as_ref().context("the fleet is ending")?;
        let keys = vec![new_key(KeyKind::Ed25519)?];
        let gauges = Arc::clone(&self.gauges);
        let host = Arc::new(Host::new(self.login.public_key().clone(), keys, gauges));
        let place = SocketAddr::new(address, self.port);
        // It accepts connections from here on, whenever the task starts.
        host.count(|counters| counters.listening = true);
        let serving = runtime.spawn(serve(Arc::clone(&host), bind(place)?, place));
        Ok(SimulatedHost {
            name: name.to_owned(),
            place,
            host,
            serving: Mutex::new(Some(serving)),
        })
    }
}

impl Drop for SimulatedFleet {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Does not block, because the fleet may be dropped inside another runtime.
            runtime.shutdown_background();
        }
    }
}

/// One simulated host, which is removed when this is dropped.
#[derive(Debug)]
pub struct SimulatedHost {
    name: String,
    place: SocketAddr,
    host: Arc<Host>,
    serving: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for SimulatedHost {
    fn drop(&mut self) {
        let serving = self.serving.get_mut();
        if let Some(serving) = serving.unwrap_or_else(PoisonError::into_inner).take() {
            serving.abort();
        }
        self.host.cut_connections();
    }
}

impl SimulatedHost {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the loopback address of its SSH server.
    pub fn address(&self) -> IpAddr {
        self.place.ip()
    }

    /// Returns the port of its SSH server, the same for the whole fleet.
    pub fn port(&self) -> u16 {
        self.place.port()
    }

    /// Returns the public host keys for a new connection, in OpenSSH's format: type and base64.
    pub fn host_keys(&self) -> Result<Vec<String>> {
        let shown = self.host.host_keys();
        shown
            .iter()
            .map(|key| {
                let line = key.public_key().to_openssh()?;
                Ok(line.split(' ').take(2).collect::<Vec<_>>().join(" "))
            })
            .collect()
    }

    /// Changes the host keys from the `connection`th connection on; the first is number 1.
    pub fn change_host_keys_from(&self, connection: u64, kinds: &[KeyKind]) -> Result<()> {
        let keys = kinds.iter().copied().map(new_key).collect::<Result<_>>()?;
        self.host
            .change(|state| state.keys.push((connection, keys)));
        Ok(())
    }

    /// Changes the host keys, as a reinstallation would.
    pub fn change_host_keys(&self, kinds: &[KeyKind]) -> Result<()> {
        self.change_host_keys_from(0, kinds)
    }

    /// Gives the host this version of the SSH server, which runs commands in this shell.
    pub fn become_like(&self, profile: Profile, shell: Shell) {
        self.host.change(|state| {
            state.profile = profile;
            state.shell = shell;
        });
    }

    /// Changes the faults of the host.
    pub fn set_faults(&self, change: impl FnOnce(&mut Faults)) {
        self.host.change(|state| change(&mut state.faults));
    }

    /// Returns the command line of a service that the agent keeps.
    pub fn command(&self) -> Option<String> {
        self.host.change(|state| state.agent.command())
    }

    /// Adds a service of another owner to the host.
    pub fn add_service(&self, name: &str, program: &str) {
        self.host.change(|state| {
            let others = &mut state.agent.others;
            others.insert(name.to_owned(), program.to_owned());
        });
    }

    /// Removes the agent and its service, and leaves csi-proxy.
    pub fn lose_agent(&self) {
        self.host
            .change(|state| state.agent.uninstall(&mut state.disk, true));
    }

    /// Puts programs where an ordinary account of a new Windows could: everywhere that ours are, except below `C:\Windows`.
    pub fn plant(&self) {
        for path in [AGENT_EXE, AGENT_PREVIOUS, AGENT_RETIRED, CSI_PROXY_EXE] {
            self.with_disk(|disk| disk.put(path, File::new(PLANTED)));
        }
    }

    /// Returns the commands that ran one of them.
    pub fn planted_runs(&self) -> Vec<String> {
        self.host.change(|state| state.agent.planted_runs.clone())
    }

    /// Reads or changes the disk.
    pub fn with_disk<T>(&self, change: impl FnOnce(&mut Disk) -> T) -> T {
        self.host.change(|state| change(&mut state.disk))
    }

    /// Copies the disk and the agent's state of another host.
    pub fn copy_from(&self, other: &Self) {
        let (disk, agent) = other
            .host
            .change(|state| (state.disk.clone(), state.agent.clone()));
        self.host.change(|state| {
            state.disk = disk;
            state.disk.close_all();
            state.agent = agent;
        });
    }

    /// Cuts the connection once, at the `k`th request from now on; the first is number 1.
    pub fn cut_at(&self, k: u64, moment: Moment) {
        let number = self.counters().requests + k;
        self.set_faults(|faults| faults.cut = Some((number, moment)));
    }

    /// Returns whether a cut is still pending.
    pub fn waits_to_cut(&self) -> bool {
        self.host.faults().cut.is_some()
    }

    /// Holds the `k`th request from now on until [`SimulatedHost::release`].
    pub fn hold_at(&self, k: u64) {
        let number = self.counters().requests + k;
        self.set_faults(|faults| faults.hold = Some(number));
    }

    /// Continues everything that is held.
    pub fn release(&self) {
        self.host.release();
    }

    /// Breaks all connections; new ones are accepted immediately.
    pub fn cut_connections(&self) {
        self.host.cut_connections();
    }

    /// Cuts the power: connections break, new ones are refused.
    pub async fn power_off(&self) -> Result<()> {
        self.host.set_down(true);
        self.wait_until(|seen| !seen.listening).await.map(drop)
    }

    /// Cuts the power and the line: connection attempts get no answer at all. Before the host can boot again, the
    /// returned value must be dropped.
    pub async fn lose_line(&self) -> Result<LostLine> {
        self.power_off().await?;
        LostLine::at(self.place)
    }

    /// Boots the host again; an interrupted request is rolled back.
    pub async fn boot(&self) -> Result<()> {
        self.wait_until(|seen| !seen.listening).await?;
        self.host.change(|state| {
            state.disk.close_all();
            state.penalty = Penalty::default();
            state.agent.recover();
            state.stopped = None;
        });
        self.host.set_down(false);
        self.wait_until(|seen| seen.listening).await.map(drop)
    }

    /// Returns when csi-proxy was stopped for a change.
    pub fn interruptions(&self) -> Vec<SystemTime> {
        self.host.change(|state| state.interruptions.clone())
    }

    /// Returns the current counters.
    pub fn counters(&self) -> Counters {
        self.host.counters().borrow().clone()
    }

    /// Returns the names of all requests so far, in order.
    pub fn requests(&self) -> Vec<&'static str> {
        self.host.change(|state| state.requests.clone())
    }

    /// Waits until `holds` returns true for the counters.
    pub async fn wait_until(&self, holds: impl FnMut(&Counters) -> bool) -> Result<Counters> {
        self.host.wait_until(holds).await
    }
}
