//! `make run`: starts everything in the foreground, until Ctrl-C.

use std::fs;
use std::sync::mpsc;

use anyhow::{Context, Result, bail};
use testbed::objects;
use testbed::parts::part;
use testbed::sandbox::Sandbox;

use crate::{operator_binary, payload, root};

/// Runs until Ctrl-C, or until the operator exits.
pub fn run() -> Result<()> {
    let (sender, stop) = mpsc::channel();
    ctrlc::set_handler(move || {
        // The receiver lives as long as this function; a second Ctrl-C has no effect.
        let _ = sender.send(());
    })
    .context("cannot listen to Ctrl-C")?;
    let folder = root().join("target/run");
    fs::create_dir_all(&folder)?;
    // Another run would get this one's kubeconfig. The lock ends with the process.
    let lock = fs::File::create(folder.join("lock"))?;
    if lock.try_lock().is_err() {
        bail!("make run is already running in this clone; end it with Ctrl-C first");
    }
    let (binary, payload) = (operator_binary()?, payload()?);

    eprintln!("== starting etcd and kube-apiserver");
    let sandbox = Sandbox::start()?;
    // As make run OLM=0 says.
    let with_olm = std::env::var_os("OLM").is_none_or(|value| value != "0");
    eprintln!(
        "== {}",
        if with_olm {
            "starting OLM"
        } else {
            "without OLM: the operator sets the condition, and nothing acts on it"
        }
    );
    let olm = with_olm.then(|| sandbox.add_olm()).transpose()?;
    eprintln!("== starting two Windows hosts (OpenSSH and Wine)");
    let hosts = [
        sandbox.add_windows_node("win-1")?,
        sandbox.add_windows_node("win-2")?,
    ];
    sandbox.give_access()?;
    sandbox
        .control_plane
        .apply(&objects::azure_disk_workload("win-1"))?;

    let kubeconfig = folder.join("kubeconfig");
    fs::copy(sandbox.control_plane.kubeconfig(), &kubeconfig)?;
    let kubectl = part("kubectl")?;
    let on_path = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join("kubectl").exists()));
    let alias = if on_path {
        String::new()
    } else {
        format!("  alias kubectl={}\n", kubectl.display())
    };
    eprintln!(
        "== ready: the pod {workloads}/web-0 on win-1 uses an in-tree Azure Disk volume, and no driver is there yet.
   Try in another terminal:

  export KUBECONFIG={kubeconfig}
{alias}  {operator} check
  kubectl get windowsnodestorages
  kubectl get windowsstorage cluster -o wide
  kubectl get operatorcondition -n {namespace} -o custom-columns='NAME:.metadata.name,UPGRADEABLE:.spec.conditions[*].status,REASON:.spec.conditions[*].reason,MESSAGE:.spec.conditions[*].message'
  # As if the driver's DaemonSet registered on a node; do it for win-2 as well, and the gate opens:
  kubectl patch csinode win-1 --type=merge -p '{{\"spec\":{{\"drivers\":[{{\"name\":\"disk.csi.azure.com\",\"nodeID\":\"win-1\",\"topologyKeys\":[]}}]}}}}'

== starting the operator; Ctrl-C ends everything",
        workloads = objects::WORKLOADS,
        namespace = objects::NAMESPACE,
        kubeconfig = kubeconfig.canonicalize()?.display(),
        operator = binary.display(),
    );
    let mut operator = sandbox
        .operator(&binary, &payload)?
        .start(None, &[], true)?;
    let ended = loop {
        if stop
            .recv_timeout(std::time::Duration::from_millis(300))
            .is_ok()
        {
            break None;
        }
        if let Some(status) = operator.ended()? {
            break Some(status);
        }
    };
    eprintln!("== stopping everything");
    if ended.is_none() {
        operator.terminate()?;
    }
    drop(hosts);
    drop(olm);
    drop(sandbox);
    // The file is useless without its cluster.
    let _ = fs::remove_file(kubeconfig);
    match ended {
        Some(status) => bail!("the operator ended by itself: {status}; its last lines say why"),
        None => Ok(()),
    }
}
