//! `accept-host-key`: pins another host key for a node after the administrator has confirmed it.

use anyhow::bail;
use kube::{Api, Client};
use windows_storage_operator::api::SETTINGS_NAME;
use windows_storage_operator::assess::report::API_VERSION;
use windows_storage_operator::index::Cluster;
use windows_storage_operator::node::{
    HOST_KEYS_CONFIG_MAP, HostKey, Judgement, NodeError, Pins, Reason, Way, judge_offer, shown_key,
};
use windows_storage_operator::objects::{kind, own_config_maps};
use windows_storage_operator::visible::visible;

use crate::cli::AcceptHostKeyArgs;
use crate::command::connect::connect;
use crate::command::own::{one, operators_namespace};
use crate::command::{confirm, need_terminal, print, report_line, runtime};

/// Shows the keys, asks, and pins.
pub fn accept_host_key(arguments: &AcceptHostKeyArgs) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let accepted = runtime.block_on(accept(arguments));
    // Do not wait for a host that does not answer.
    runtime.shutdown_background();
    accepted
}

async fn accept(arguments: &AcceptHostKeyArgs) -> anyhow::Result<()> {
    let AcceptHostKeyArgs {
        cluster: connection,
        node,
        namespace,
        fingerprint,
        yes,
    } = arguments;
    let (client, _) = connect(connection).await?;
    let namespace = &operators_namespace(&client, namespace.as_ref()).await?;
    let cluster = read(&client, namespace, node).await?;
    let way = Way::to(&cluster, node).map_err(|error| shown(&error))?;
    let offered = shown_key(&way).await;
    let offered = offered.map_err(|error| unreachable(&error, namespace, node))?;
    let pinned = way.host_keys.pin.as_ref();
    let place = visible(&way.place());
    report_line(format!("node     {} at {place}", visible(node)));
    let pinned_summary = pinned.map_or_else(|| "none".to_owned(), summary);
    report_line(format!("pinned   {pinned_summary}"));
    report_line(format!("offered  {}", summary(&offered)));
    if let Some(wanted) = fingerprint
        && *wanted != offered.fingerprint()
    {
        bail!(
            "the host does not offer the key {wanted}; nothing was changed. The connection may be intercepted, or the fingerprint is that of a host key of another type"
        );
    }
    match judge_offer(&way.host_keys, namespace, node, &offered) {
        Judgement::Known => {
            report_line("The offered key is trusted already: there is nothing to accept.");
            return Ok(());
        }
        Judgement::Refused(error) => return Err(shown(&error)),
        Judgement::New => {}
    }
    if fingerprint.is_none() && !yes {
        need_terminal("--fingerprint, or --yes to accept whatever key the host shows")?;
        let place = match pinned {
            Some(_) => " in place of the pinned one",
            None => "",
        };
        let question = format!(
            "Compare the offered key with ssh-keygen -lf C:\\ProgramData\\ssh\\ssh_host_ed25519_key.pub (or another type's) \
             on the node itself.\nAccept it{place}?"
        );
        if !confirm(&question)? {
            bail!("not accepted; nothing was changed");
        }
    }
    let pins = Pins::new(Api::namespaced(client, namespace), namespace.clone());
    pins.replace(node, pinned, &offered)
        .await
        .map_err(|error| shown(&error))?;
    let (node, key) = (visible(node), summary(&offered));
    // The key is pinned even if the output cannot be written.
    let _ = print(&format!("node/{node} host key accepted: {key}\n"));
    Ok(())
}

/// Reads the objects that determine how to reach a node. It lists by name, which needs only permissions that the operator
/// has.
async fn read(client: &Client, namespace: &str, node: &str) -> anyhow::Result<Cluster> {
    let mut cluster = Cluster::default();
    let (maps, own) = (own_config_maps(), Some(namespace));
    let mut is_there = false;
    for (kind, namespace, name) in [
        (kind("v1", "Node"), None, node),
        (kind(API_VERSION, "WindowsStorage"), None, SETTINGS_NAME),
        (kind(API_VERSION, "WindowsNodeStorage"), None, node),
        (maps, own, HOST_KEYS_CONFIG_MAP),
    ] {
        is_there = one(client, kind, namespace, name, &mut cluster).await?;
    }
    if !is_there {
        // The operator creates it at its first contact with a node, even if it trusts no key.
        bail!(
            "there is no ConfigMap {HOST_KEYS_CONFIG_MAP} in the namespace {}; is the operator in another one? Say which with \
             --namespace",
            visible(namespace)
        );
    }
    Ok(cluster)
}

/// Explains that a host that is unreachable from here may be reachable for the operator.
fn unreachable(error: &NodeError, namespace: &str, node: &str) -> anyhow::Error {
    let elsewhere = if error.reason == Reason::Unreachable {
        let (namespace, node) = (visible(namespace), visible(node));
        format!(
            "\nNodes are often out of reach from elsewhere. From the operator's own pod: kubectl exec -it -n {namespace} \
             deployment/windows-storage-operator -- /usr/bin/windows-storage-operator accept-host-key {node} -n {namespace}"
        )
    } else {
        String::new()
    };
    anyhow::anyhow!("{}{elsewhere}", visible(&error.message))
}

fn shown(error: &dyn std::fmt::Display) -> anyhow::Error {
    anyhow::anyhow!("{}", visible(&error.to_string()))
}

/// Returns the type and fingerprint. The type comes from the host, or from whoever wrote the pin.
fn summary(key: &HostKey) -> String {
    visible(&key.summary())
}
