//! Simulated Windows hosts, hundreds in one process: an SSH server with an agent that only says what the real one
//! would, an address each, and faults that real hosts cannot be made to have at a chosen moment.
//!
//! What is true of Windows is judged by [`crate::windows_host`]; `tests/simulated_host.rs` holds the two together.

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
use russh::keys::ssh_key::LineEnding;
use russh::keys::{PrivateKey, decode_secret_key};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

pub use disk::Disk;
pub use distance::LostLine;
pub use faults::{Counters, Faults, Greeting, Moment, Speech};
pub use file::File;
pub use gauge::{Gauge, Gauges};
use penalty::Penalty;
pub use profile::{Profile, Shell};

use host::Host;
use listening::{bind, claim_network, serve};

/// Longer than anything takes on a loaded machine; only failures wait for it.
const PATIENCE: Duration = Duration::from_secs(60);
const USER: &str = "Administrator";
/// Hosts of one fleet: two bytes of the address, of which the highest stand for the whole network.
const MOST_HOSTS: u16 = u16::MAX - 256;

/// The kind of a host key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// `ssh-ed25519`.
    Ed25519,
    /// `ecdsa-sha2-nistp256`.
    Ecdsa256,
    /// `ssh-rsa`, with SHA-2.
    Rsa,
}

/// A new key.
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

/// Simulated hosts with addresses of their own, one SSH port, and one login.
#[derive(Debug)]
pub struct SimulatedFleet {
    runtime: Option<Runtime>,
    login: PrivateKey,
    network: u8,
    port: u16,
    hosts: AtomicU16,
    gauges: Arc<Gauges>,
    /// Keeps other fleets away from this port in this network.
    _claim: TcpListener,
}

impl SimulatedFleet {
    /// A fleet without hosts. Several at once, of one process or many, do not meet.
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

    /// The SSH port of every host.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The login name.
    #[must_use]
    pub fn user(&self) -> &str {
        USER
    }

    /// The private key that opens every host, in the format of OpenSSH.
    pub fn private_key(&self) -> Result<String> {
        Ok(self.login.to_openssh(LineEnding::LF)?.to_string())
    }

    /// How many connections there are, and were at most, over all hosts.
    #[must_use]
    pub fn gauges(&self) -> &Gauges {
        &self.gauges
    }

    /// Starts one more host, with an Ed25519 host key.
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
        // It takes connections from here on, whenever the task begins.
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
            // Also where it is dropped within another runtime, which may not wait.
            runtime.shutdown_background();
        }
    }
}

/// One simulated host. Dropped, it is gone.
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
    /// The name it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The loopback address of its SSH server.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.place.ip()
    }

    /// The port of its SSH server, the same for the whole fleet.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.place.port()
    }

    /// The public host keys that a connection made now is shown, as OpenSSH writes them: type and base64.
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

    /// Gives the host other host keys from its `connection`th connection on; the first is number 1.
    pub fn change_host_keys_from(&self, connection: u64, kinds: &[KeyKind]) -> Result<()> {
        let keys = kinds.iter().copied().map(new_key).collect::<Result<_>>()?;
        self.host
            .change(|state| state.keys.push((connection, keys)));
        Ok(())
    }

    /// Gives the host other host keys, as a new installation would have.
    pub fn change_host_keys(&self, kinds: &[KeyKind]) -> Result<()> {
        self.change_host_keys_from(0, kinds)
    }

    /// Gives the host an SSH server of that version, which runs commands in that shell.
    pub fn become_like(&self, profile: Profile, shell: Shell) {
        self.host.change(|state| {
            state.profile = profile;
            state.shell = shell;
        });
    }

    /// Says what is wrong with the host.
    pub fn set_faults(&self, change: impl FnOnce(&mut Faults)) {
        self.host.change(|state| change(&mut state.faults));
    }

    /// The command line of a service that the agent keeps.
    #[must_use]
    pub fn command_of(&self, service: &str) -> Option<String> {
        self.host.change(|state| state.agent.command_of(service))
    }

    /// A service that another owner has made is on the host from now on.
    pub fn add_service(&self, name: &str, program: &str) {
        self.host.change(|state| {
            let others = &mut state.agent.others;
            others.insert(name.to_owned(), program.to_owned());
        });
    }

    /// Looks at the disk, or changes it.
    pub fn with_disk<T>(&self, change: impl FnOnce(&mut Disk) -> T) -> T {
        self.host.change(|state| change(&mut state.disk))
    }

    /// Gives the host what is on the disk of another one, and in its agent's memory.
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

    /// Cuts the connection at the `k`th request from now on, the first being number 1. Once.
    pub fn cut_at(&self, k: u64, moment: Moment) {
        let number = self.counters().requests + k;
        self.set_faults(|faults| faults.cut = Some((number, moment)));
    }

    /// Whether a cut still waits for its request.
    #[must_use]
    pub fn waits_to_cut(&self) -> bool {
        self.host.faults().cut.is_some()
    }

    /// Takes back a cut that has not happened.
    pub fn do_not_cut(&self) {
        self.set_faults(|faults| faults.cut = None);
    }

    /// Holds the `k`th request from now on until [`SimulatedHost::release`].
    pub fn hold_at(&self, k: u64) {
        let number = self.counters().requests + k;
        self.set_faults(|faults| faults.hold = Some(number));
    }

    /// Lets what is held go on.
    pub fn release(&self) {
        self.host.release();
    }

    /// Breaks all connections; new ones can be made at once.
    pub fn cut_connections(&self) {
        self.host.cut_connections();
    }

    /// Cuts the power: connections break, new ones are refused.
    pub async fn power_off(&self) -> Result<()> {
        self.host.set_down(true);
        self.wait_until(|seen| !seen.listening).await.map(drop)
    }

    /// Cuts the power and the line: nobody says so to those who try to connect. It does not boot again before
    /// what this returns is dropped.
    pub async fn lose_line(&self) -> Result<LostLine> {
        self.power_off().await?;
        LostLine::at(self.place)
    }

    /// Boots again: what a request was in the middle of is undone.
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

    /// When csi-proxy was stopped for the sake of a change.
    #[must_use]
    pub fn interruptions(&self) -> Vec<SystemTime> {
        self.host.change(|state| state.interruptions.clone())
    }

    /// The counters now.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.host.counters().borrow().clone()
    }

    /// The names of all requests so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<&'static str> {
        self.host.change(|state| state.requests.clone())
    }

    /// Waits until the counters are as asked for.
    pub async fn wait_until(&self, holds: impl FnMut(&Counters) -> bool) -> Result<Counters> {
        self.host.wait_until(holds).await
    }
}
