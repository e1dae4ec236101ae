//! `verify-node`: tries on one host everything that the operator does with a node.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::json;
use windows_storage_operator::assess::report::Upgradeable;
use windows_storage_operator::node::payload::Payload;
use windows_storage_operator::node::{
    HostKeyPolicy, KeySource, KnownHosts, PrivateKey, Purpose, Reason, Target, Tried, Verification,
};
use windows_storage_operator::visible::visible;
use zeroize::Zeroizing;

use crate::cli::VerifyNodeArgs;
use crate::command::progress::spinner;
use crate::command::{print, report_line, runtime};

/// Runs all checks. Returns `False` on a deviation, as for a held upgrade.
pub fn verify_node(arguments: &VerifyNodeArgs) -> anyhow::Result<Upgradeable> {
    let payload = Payload::load(&arguments.payload_dir)?;
    let mut described = json!({
        "operator": env!("CARGO_PKG_VERSION"),
        "csiProxy": payload.csi_proxy.version,
        "agent": payload.agent.version,
    });
    let verification = Verification::new(
        target(arguments)?,
        payload,
        arguments.other_csi_proxy.as_deref(),
        arguments.slow_line * 1000,
    )?;
    let runtime = runtime()?;
    let before = runtime.block_on(verification.look())?;
    if let (Some(why), false) = (&before.in_use, arguments.destructive) {
        bail!(
            "the host is in use: {}; nothing was changed there. Take a host that is no node, or give --destructive: csi-proxy and \
             the agent are removed at the end, and pods there lose their storage",
            visible(why)
        );
    }
    described["sshServer"] = before.server.into();
    described["slowLineBytesPerSecond"] = (arguments.slow_line * 1000).into();
    print(&format!("{described}\n"))?;
    let bar = spinner();
    let (mut all_fit, mut printed) = (true, Ok(()));
    runtime.block_on(verification.run(
        &mut |step| bar.set_message(format!("{step} …")),
        &mut |tried| {
            all_fit &= tried.fits;
            let line = bar.suspend(|| report(tried));
            printed = std::mem::replace(&mut printed, Ok(())).and(line);
        },
    ));
    bar.finish_and_clear();
    printed?;
    Ok(if all_fit {
        Upgradeable::True
    } else {
        Upgradeable::False
    })
}

fn report(tried: &Tried) -> anyhow::Result<()> {
    let line = serde_json::to_string(tried).context("a line cannot be written as JSON")?;
    print(&format!("{line}\n"))?;
    if !tried.fits {
        report_line(format!(
            "{}: expected \"{}\", observed \"{}\"",
            tried.id,
            tried.expected,
            visible(&tried.observed)
        ));
    }
    Ok(())
}

/// Returns the host, with the private key for the login and the host keys that it may show.
fn target(arguments: &VerifyNodeArgs) -> anyhow::Result<Target> {
    let host = &arguments.place.host;
    let known_hosts = match &arguments.known_hosts {
        Some(path) => path.clone(),
        None => home()?.join(".ssh/known_hosts"),
    };
    let lines = std::fs::read(&known_hosts).with_context(|| {
        let path = known_hosts.display();
        format!("cannot read {path}, which is to have the host's SSH keys; ssh-keyscan prints them")
    })?;
    let lines = KnownHosts::parse(&String::from_utf8_lossy(&lines));
    let known = lines.look_up(host, arguments.port);
    if known.keys.is_empty() {
        bail!(
            "{} has no key of {}; add what ssh-keyscan -p {} {} prints, once you have compared it with the host's own",
            known_hosts.display(),
            visible(host),
            arguments.port,
            visible(host)
        );
    }
    Ok(Target {
        node: host.clone(),
        uid: String::new(),
        boot_id: String::new(),
        address: host.clone(),
        port: arguments.port,
        user: arguments.place.user.clone(),
        key: private_key(
            &arguments.identity_file,
            arguments.passphrase_file.as_deref(),
        )?,
        host_keys: HostKeyPolicy {
            known,
            ..HostKeyPolicy::default()
        },
        // What is on the host was checked before.
        is_given: true,
        is_ours: false,
        purpose: Purpose::Reconcile,
        desired: Err(Reason::InvalidServices.error("no step has begun")),
    })
}

fn private_key(path: &Path, passphrase: Option<&Path>) -> anyhow::Result<PrivateKey> {
    let read = |path: &Path| {
        let content = std::fs::read(path).map(Zeroizing::new);
        content.with_context(|| format!("cannot read {}", path.display()))
    };
    let (text, passphrase) = (read(path)?, passphrase.map(read).transpose()?);
    let source = KeySource {
        key: path.display().to_string(),
        passphrase: "in the file that --passphrase-file names".to_owned(),
    };
    let passphrase = passphrase.as_ref().map(|bytes| bytes.as_slice());
    Ok(PrivateKey::read(&text, passphrase, source)?)
}

fn home() -> anyhow::Result<PathBuf> {
    std::env::home_dir().context("there is no home folder; give --known-hosts")
}
