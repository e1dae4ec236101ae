//! Hosts that share a port and a login, like the nodes of a cluster.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use super::WindowsHost;
use super::sshd::{OpenSsh, USER, is_free, make_key};
use super::template::Template;
use crate::cleanup::Guardian;

/// What the hosts of a fleet share. It lives as long as the last host.
#[derive(Debug)]
pub(super) struct Shared {
    pub template: Template,
    pub open_ssh: OpenSsh,
    pub port: u16,
    /// The port of sshd itself, behind the relay.
    pub inner_port: u16,
    pub login: Arc<Login>,
    network: [u8; 3],
    hosts: AtomicU8,
    /// Claims these ports in this network against other fleets.
    _claim: [TcpListener; 2],
}

/// The SSH keys for all hosts.
#[derive(Debug)]
pub(super) struct Login {
    rsa: String,
    ed25519: String,
    pub authorized_keys: String,
    files: Guardian,
}

impl Login {
    /// Returns the keys, which all fleets of a process share: creating an RSA key takes a good part of a second.
    fn get() -> Result<Arc<Self>> {
        static MADE: Mutex<Option<Arc<Login>>> = Mutex::new(None);
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(login) = &*made {
            return Ok(Arc::clone(login));
        }
        let files = Guardian::temp("login")?;
        let (rsa, ed25519) = (files.dir().join("rsa"), files.dir().join("ed25519"));
        make_key(&rsa, &["-t", "rsa", "-b", "2048", "-m", "PEM"])?;
        make_key(&ed25519, &["-t", "ed25519"])?;
        let read = |path: &Path| {
            fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
        };
        let public = |path: &Path| read(&path.with_extension("pub"));
        let login = Arc::new(Self {
            rsa: read(&rsa)?,
            ed25519: read(&ed25519)?,
            authorized_keys: public(&rsa)? + &public(&ed25519)?,
            files,
        });
        *made = Some(Arc::clone(&login));
        Ok(login)
    }
}

/// Windows hosts, each with its own address. They share the SSH port and the login.
#[derive(Debug)]
pub struct Fleet {
    shared: Arc<Shared>,
}

impl Fleet {
    /// Creates a fleet without hosts. Several fleets, in one process or many, do not conflict.
    pub fn new() -> Result<Self> {
        let template = Template::get()?;
        let open_ssh = OpenSsh::find()?;
        let (network, claim) = claim_network()?;
        Ok(Self {
            shared: Arc::new(Shared {
                template,
                open_ssh,
                port: claim[0].local_addr()?.port(),
                inner_port: claim[1].local_addr()?.port(),
                login: Login::get()?,
                network,
                hosts: AtomicU8::new(0),
                _claim: claim,
            }),
        })
    }

    /// Returns the SSH port of every host.
    pub fn port(&self) -> u16 {
        self.shared.port
    }

    /// Returns the login name.
    pub fn user(&self) -> &str {
        USER
    }

    /// Returns an RSA private key for all hosts, in PEM.
    pub fn private_key_pem(&self) -> &str {
        &self.shared.login.rsa
    }

    /// Returns an Ed25519 private key for all hosts, in OpenSSH's format.
    pub fn private_key_openssh(&self) -> &str {
        &self.shared.login.ed25519
    }

    /// Returns the file with [`Fleet::private_key_openssh`], for `ssh -i`.
    pub fn private_key_file(&self) -> PathBuf {
        self.shared.login.files.dir().join("ed25519")
    }

    /// Boots another host. Its name is not resolvable: use its address.
    pub fn add_host(&self, name: &str) -> Result<WindowsHost> {
        let number = self.shared.hosts.fetch_add(1, Ordering::Relaxed) + 1;
        if number >= CLAIM_ADDRESS {
            bail!("a fleet has at most {} hosts", CLAIM_ADDRESS - 1);
        }
        let [a, b, c] = self.shared.network;
        let address = IpAddr::V4(Ipv4Addr::new(a, b, c, number));
        WindowsHost::boot(Arc::clone(&self.shared), name, address)
            .with_context(|| format!("booting Windows host {name}"))
    }
}

/// Last number of the address that is reserved for claiming the network.
const CLAIM_ADDRESS: u8 = 254;

/// Claims a network 127.x.y.0 and two ports in it that are free on its first and last addresses.
fn claim_network() -> Result<([u8; 3], [TcpListener; 2])> {
    for attempt in 0..100_u8 {
        // Each RandomState has different keys, so this gives random numbers without another crate.
        let random = RandomState::new().hash_one(attempt).to_be_bytes();
        // 127.0 is skipped because everything else uses it.
        let network = [127, random[0].max(1), random[1]];
        let [a, b, c] = network;
        let last = IpAddr::V4(Ipv4Addr::new(a, b, c, CLAIM_ADDRESS));
        let first = IpAddr::V4(Ipv4Addr::new(a, b, c, 1));
        let claim = [
            TcpListener::bind((last, 0)).with_context(|| format!("listening at {last}"))?,
            TcpListener::bind((last, 0))?,
        ];
        let mut free = true;
        for listener in &claim {
            free &= is_free(first, listener.local_addr()?.port());
        }
        if free {
            return Ok((network, claim));
        }
    }
    bail!("no free loopback network")
}
