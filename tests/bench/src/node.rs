//! A sandboxed Windows host, and the operator's own code to connect to it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use protocol::Request;
use testbed::windows_host::{Fleet, WindowsHost};
use tokio::runtime::Runtime;
use windows_storage_operator::api::PrivateKeySecretRef;
use windows_storage_operator::index::Secret;
use windows_storage_operator::node::payload::Payload;
use windows_storage_operator::node::{
    Context, Cutter, Desired, HANDSHAKE, Host, HostKey, HostKeyPolicy, Pins, PrivateKey, Purpose,
    Reconciled, RolloutSlots, Target, check_private_key, connect, reconcile_node,
};
use windows_storage_operator::services::{CSI_PROXY_PIPES, csi_proxy_flags};
use zeroize::Zeroizing;

/// A host, with the payload and credentials that the operator uses.
pub struct Node {
    pub host: WindowsHost,
    pub payload: Payload,
    key: PrivateKey,
    user: String,
}

impl Node {
    /// Starts a fresh host.
    pub fn new(fleet: &Fleet, name: &str) -> Result<Self> {
        let pem = Zeroizing::new(fleet.private_key_openssh().as_bytes().to_vec());
        let data = [("private-key.pem".to_owned(), pem)].into();
        Ok(Self {
            host: fleet.add_host(name)?,
            payload: Payload::load(&crate::payload()?)?,
            key: check_private_key(
                Some(&Secret::Data(data)),
                "ns",
                &PrivateKeySecretRef::default(),
            )
            .map_err(|error| anyhow!(error))?,
            user: fleet.user().to_owned(),
        })
    }

    /// Connects and logs in. Dropping the cutter cuts the connection.
    pub fn log_in(&self, runtime: &Runtime) -> Result<(Host, Cutter)> {
        let address = self.host.address().to_string();
        let server = (address.as_str(), self.host.port());
        let connected = runtime.block_on(connect(server, &HostKeyPolicy::default(), HANDSHAKE))?;
        let (session, payload) = (connected.session, self.payload.clone());
        let host = Host::new(session, payload);
        host.session.login(&self.user, &self.key)?;
        Ok((host, connected.cutter))
    }

    /// Returns a request for csi-proxy.
    pub fn request(&self, id: &str) -> Result<Request> {
        Ok(Request {
            id: id.to_owned(),
            sha256: self.payload.csi_proxy.sha256.clone(),
            upload: None,
            packed: None,
            attempt: String::new(),
            flags: csi_proxy_flags(&[])?,
            replace_foreign: false,
            pipes: CSI_PROXY_PIPES.map(str::to_owned).to_vec(),
            stop_timeout_seconds: 30,
            start_timeout_seconds: 60,
        })
    }

    /// Reconciles the host as an operator that already knows its host key.
    pub fn reconcile(&self, request: Request) -> Result<Reconciled> {
        let runtime = Runtime::new()?;
        runtime.block_on(async {
            // Nothing listens on this port: with a known host key, the API is not called.
            let config = kube::Config::new("http://127.0.0.1:9".parse()?);
            let client = kube::Client::try_from(config)?;
            let slots = RolloutSlots::default();
            slots.decide(|_| ([self.host.name().to_owned()].into(), ()));
            let context = Context::new(
                self.payload.clone(),
                Pins::new(kube::Api::namespaced(client, "ns"), "ns".to_owned()),
                slots,
            );
            let reconciled = reconcile_node(&self.target(request)?, &context).await?;
            match reconciled.problem {
                Some(problem) => Err(problem.into()),
                None => Ok(reconciled),
            }
        })
    }

    fn target(&self, request: Request) -> Result<Target> {
        Ok(Target {
            node: self.host.name().to_owned(),
            uid: String::new(),
            boot_id: String::new(),
            address: self.host.address().to_string(),
            port: self.host.port(),
            user: self.user.clone(),
            key: self.key.clone(),
            host_keys: HostKeyPolicy {
                pin: Some(HostKey::parse(&self.host.host_key()?)),
                ..HostKeyPolicy::default()
            },
            is_given: false,
            is_ours: self.has_agent(),
            purpose: Purpose::default(),
            desired: Ok(Arc::new(Desired {
                revision: request.id.clone(),
                agent_sha256: self.payload.agent.sha256.clone(),
                request,
            })),
        })
    }

    /// Returns whether the host has the agent, which the operator knows from the node's status.
    fn has_agent(&self) -> bool {
        self.host
            .drive_c()
            .join("k/windows-storage-agent.exe")
            .exists()
    }

    /// Returns the path of the host's csi-proxy.exe on this machine.
    pub fn csi_proxy(&self) -> PathBuf {
        self.host.drive_c().join("k/csi-proxy.exe")
    }

    /// Checks that csi-proxy.exe on the host is the one of the payload.
    pub fn check(&self) -> Result<()> {
        let there = fs::read(self.csi_proxy()).context("reading what was brought")?;
        let payload = fs::read(crate::payload()?.join("csi-proxy.exe"))?;
        anyhow::ensure!(there == payload, "what was brought is something else");
        Ok(())
    }
}
