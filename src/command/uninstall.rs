//! `uninstall`: makes the operator remove csi-proxy and its agent from all nodes, and waits until that is done.

use anyhow::bail;
use kube::api::{ListParams, Patch};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use windows_storage_operator::api::{SETTINGS_NAME, WindowsNodeStorage, WindowsStorage};
use windows_storage_operator::assess::report::API_VERSION;
use windows_storage_operator::client::deadline;
use windows_storage_operator::visible::{some_of, visible};

use crate::cli::UninstallArgs;
use crate::command::connect::connect;
use crate::command::rollout::follow;
use crate::command::{
    FIND_OPERATOR, confirm, explain_missing, need_terminal, report_line, runtime, written_by,
};

/// How many nodes the question names before it counts the rest.
const NAMED: usize = 10;
/// The condition's reason when nothing is left on any node.
const REMOVED: &str = "Removed";

/// Requests the removal, and shows its progress.
pub fn uninstall(arguments: &UninstallArgs) -> anyhow::Result<()> {
    if !arguments.yes {
        need_terminal("--yes")?;
    }
    runtime()?.block_on(remove(arguments))
}

async fn remove(arguments: &UninstallArgs) -> anyhow::Result<()> {
    let (client, _) = connect(&arguments.cluster).await?;
    let settings: Api<WindowsStorage> = Api::all(client.clone());
    if !arguments.yes && !is_meant(&client).await? {
        bail!("nothing was changed");
    }
    ask(&settings).await?;
    report_line(
        "windowsstorage/cluster: spec.csiProxy.management is Removed; set it to Auto to cancel the removal",
    );
    let seen = follow(&settings, arguments.timeout, |seen| seen.reason == REMOVED).await?;
    if seen.reason != REMOVED {
        let next = if seen.reason.is_empty() {
            FIND_OPERATOR
        } else {
            "The operator continues; run the command again to wait for it"
        };
        bail!(
            "not done within {:#}: {}. {next}. To cancel the removal, patch spec.csiProxy.management of \
             windowsstorage/cluster to Auto",
            arguments.timeout,
            seen.message
        );
    }
    report_line(&seen.message);
    report_line(
        "Now delete the operator and its definitions, as you have installed them. Nodes with the label \
         windowsstorage.dev/ignore=true were left alone.",
    );
    Ok(())
}

/// Names what will be removed, and asks.
async fn is_meant(client: &Client) -> anyhow::Result<bool> {
    let nodes: Api<WindowsNodeStorage> = Api::all(client.clone());
    let parameters = ListParams::default();
    let list = deadline::call("list WindowsNodeStorages", nodes.list(&parameters)).await;
    let list = list.map_err(explain_missing)?;
    let managed = list.iter().filter(|node| {
        let status = node.status.as_ref();
        status.is_some_and(|status| status.management == "Managed")
    });
    let names: Vec<String> = managed.map(|node| visible(&node.name_any())).collect();
    confirm(&format!(
        "This removes csi-proxy and the agent from {} managed node(s): {}. Volumes of drivers that mount csi-proxy's pipes \
         cannot be mounted there any more.\nGo on?",
        names.len(),
        some_of(&names, NAMED)
    ))
}

/// Writes the request, into an object that may have to be created.
async fn ask(settings: &Api<WindowsStorage>) -> anyhow::Result<()> {
    let wanted = json!({
        "apiVersion": API_VERSION,
        "kind": "WindowsStorage",
        "metadata": {"name": SETTINGS_NAME},
        "spec": {"csiProxy": {"management": "Removed"}},
    });
    let (parameters, patch) = (written_by().force(), Patch::Apply(&wanted));
    let applying = settings.patch(SETTINGS_NAME, &parameters, &patch);
    let applied = deadline::call("write WindowsStorage cluster", applying).await;
    applied.map_err(explain_missing)?;
    Ok(())
}
