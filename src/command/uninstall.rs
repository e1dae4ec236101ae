//! `uninstall`: makes the operator remove csi-proxy and its agent from all nodes, and waits until that is done.

use std::time::{Duration, Instant};

use anyhow::bail;
use jiff::SignedDuration;
use kube::api::{ListParams, Patch, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::sleep;
use windows_storage_operator::api::{
    Management, SETTINGS_NAME, WindowsNodeStorage, WindowsStorage, WindowsStorageSpec,
};
use windows_storage_operator::client::deadline;
use windows_storage_operator::visible::{some_of, visible};

use crate::cli::{CalledAs, UninstallArgs};
use crate::command::connect::connect;
use crate::command::rollout::look;
use crate::command::{
    FIND_OPERATOR, confirm, explain_missing, need_terminal, report_line, runtime, written_by,
};

/// The interval between two reads of the progress.
const PAUSE: Duration = Duration::from_secs(2);
/// An operator that runs has noticed the request within this time.
const NOTICED: Duration = Duration::from_secs(60);
/// How many nodes the question names before it counts the rest.
const NAMED: usize = 10;
/// The condition's reason when nothing is left on any node.
const REMOVED: &str = "Removed";

/// Requests the removal, and shows its progress.
pub fn uninstall(arguments: &UninstallArgs, called_as: CalledAs) -> anyhow::Result<()> {
    if !arguments.yes {
        need_terminal(called_as, "uninstall", "--yes");
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
    let begin = Instant::now();
    let mut last = String::new();
    loop {
        let seen = look(&settings, true).await?;
        let said = if seen.reason.is_empty() && begin.elapsed() > NOTICED {
            format!("{}; {FIND_OPERATOR}", seen.message)
        } else {
            seen.message.clone()
        };
        if said != last {
            report_line(&said);
            last = said;
        }
        if seen.reason == REMOVED {
            report_line(
                "Now delete the operator and its definitions, as you have installed them. Nodes with the label \
                 windowsstorage.dev/ignore=true were left alone.",
            );
            return Ok(());
        }
        let elapsed = SignedDuration::try_from(begin.elapsed()).unwrap_or_default();
        if arguments.timeout.is_positive() && elapsed > arguments.timeout {
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
        sleep(PAUSE).await;
    }
}

/// Names what will be removed, and asks.
async fn is_meant(client: &Client) -> anyhow::Result<bool> {
    let nodes: Api<WindowsNodeStorage> = Api::all(client.clone());
    let parameters = ListParams::default();
    let list = deadline::call("list WindowsNodeStorages", nodes.list(&parameters)).await;
    let list = list.map_err(explain_missing)?;
    let managed = list.iter().filter(|node| {
        let management = node
            .status
            .as_ref()
            .map(|status| status.management.as_str());
        management == Some("Managed")
    });
    let names: Vec<String> = managed.map(|node| visible(&node.name_any())).collect();
    confirm(&format!(
        "This removes csi-proxy and the agent from {} managed node(s): {}. Volumes of drivers that mount csi-proxy's pipes \
         cannot be mounted there any more.\nGo on?",
        names.len(),
        some_of(&names, NAMED)
    ))
}

/// Writes the request.
async fn ask(settings: &Api<WindowsStorage>) -> anyhow::Result<()> {
    let wanted = json!({"spec": {"csiProxy": {"management": "Removed"}}});
    let (parameters, patch) = (written_by(), Patch::Merge(&wanted));
    let patching = settings.patch(SETTINGS_NAME, &parameters, &patch);
    match deadline::call("write WindowsStorage cluster", patching).await {
        Err(error) if error.is_not_found() => {
            let mut spec = WindowsStorageSpec::default();
            spec.csi_proxy.management = Management::Removed;
            let object = WindowsStorage::new(SETTINGS_NAME, spec);
            let parameters = PostParams {
                field_manager: written_by().field_manager,
                ..PostParams::default()
            };
            let creating = settings.create(&parameters, &object);
            let created = deadline::call("create WindowsStorage cluster", creating).await;
            created.map_err(explain_missing)?;
        }
        written => {
            written?;
        }
    }
    Ok(())
}
