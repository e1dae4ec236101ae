//! `uninstall`: makes the operator remove csi-proxy and its agent from all nodes, and waits until that is done.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::bail;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ListParams, Patch, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::sleep;
use windows_storage_operator::api::{
    Management, SETTINGS_NAME, WindowsNodeStorage, WindowsStorage, WindowsStorageSpec,
};
use windows_storage_operator::client::deadline::{self, CallError};
use windows_storage_operator::status::find;
use windows_storage_operator::visible::{some_of, visible};

use crate::cli::{CalledAs, UninstallArgs};
use crate::command::connect::connect;
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
    let generation = ask(&settings).await?;
    report_line(
        "windowsstorage/cluster: spec.csiProxy.management is Removed; set it to Auto to cancel the removal",
    );
    let begin = Instant::now();
    let mut shown = Shown::default();
    loop {
        match look(&client, &settings, &mut shown).await {
            Ok(()) => {}
            Err(error) if error.is_forbidden() || error.is_not_found() => return Err(error.into()),
            // An API server may be unavailable for a while.
            Err(error) => shown.show("cluster", format!("{error}; retrying")),
        }
        let is_noticed = |said: &Condition| said.observed_generation >= generation;
        let progress = shown.progress.clone().filter(is_noticed);
        match &progress {
            Some(said) if said.reason == REMOVED => {
                report_line(visible(&said.message));
                report_line(
                    "Now delete the operator and its definitions, as you have installed them. Nodes with the label \
                     windowsstorage.dev/ignore=true were left alone.",
                );
                return Ok(());
            }
            None if begin.elapsed() > NOTICED => shown.show(
                "operator",
                format!("has not noticed the request yet; {FIND_OPERATOR}"),
            ),
            _ => {}
        }
        let is_over = SignedDuration::try_from(begin.elapsed())
            .is_ok_and(|elapsed| arguments.timeout.is_positive() && elapsed > arguments.timeout);
        if is_over {
            let left = shown.left.join(", ");
            if progress.is_none() {
                bail!(
                    "the operator did not notice the request within {:#}; {FIND_OPERATOR}. To cancel the request, \
                     patch spec.csiProxy.management of windowsstorage/cluster to Auto",
                    arguments.timeout
                );
            }
            bail!(
                "not done within {:#}; left: {left}. The operator continues; run the command again to wait for it, or patch \
                 spec.csiProxy.management of windowsstorage/cluster to Auto to cancel the removal",
                arguments.timeout
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

/// Writes the request, and returns the generation of the object that contains it.
async fn ask(settings: &Api<WindowsStorage>) -> anyhow::Result<Option<i64>> {
    let wanted = json!({"spec": {"csiProxy": {"management": "Removed"}}});
    let (parameters, patch) = (written_by(), Patch::Merge(&wanted));
    let patching = settings.patch(SETTINGS_NAME, &parameters, &patch);
    let written = match deadline::call("write WindowsStorage cluster", patching).await {
        Err(error) if error.is_not_found() => {
            let mut spec = WindowsStorageSpec::default();
            spec.csi_proxy.management = Management::Removed;
            let object = WindowsStorage::new(SETTINGS_NAME, spec);
            let parameters = PostParams {
                field_manager: written_by().field_manager,
                ..PostParams::default()
            };
            let creating = settings.create(&parameters, &object);
            deadline::call("create WindowsStorage cluster", creating)
                .await
                .map_err(explain_missing)?
        }
        written => written?,
    };
    Ok(written.metadata.generation)
}

/// What was seen and shown so far.
#[derive(Default)]
struct Shown {
    /// The last line shown for each object.
    lines: BTreeMap<String, String>,
    /// The nodes on which something is left.
    left: Vec<String>,
    /// The progress of the removal as a whole.
    progress: Option<Condition>,
}

impl Shown {
    /// Shows a line once.
    fn show(&mut self, name: &str, line: String) {
        if self.lines.get(name) != Some(&line) {
            report_line(format!("{name} {line}"));
            self.lines.insert(name.to_owned(), line);
        }
    }
}

/// Reads the progress, and shows what has changed.
async fn look(
    client: &Client,
    settings: &Api<WindowsStorage>,
    shown: &mut Shown,
) -> Result<(), CallError> {
    let nodes: Api<WindowsNodeStorage> = Api::all(client.clone());
    let parameters = ListParams::default();
    let listing = nodes.list(&parameters);
    let list = deadline::call("list WindowsNodeStorages", listing).await?;
    let reading = settings.get(SETTINGS_NAME);
    let object = deadline::call("read WindowsStorage cluster", reading).await?;
    shown.left.clear();
    for node in list {
        let name = format!("node/{}", visible(&node.name_any()));
        let Some(status) = node.status else { continue };
        let said = find(&status.conditions, "CSIProxyReady");
        let said = said.map_or_else(String::new, |said| visible(&said.message));
        if ["Managed", "Removing", "Releasing"].contains(&&*status.management) {
            shown.left.push(format!("{name} ({said})"));
        }
        shown.show(&name, format!("{}: {said}", visible(&status.management)));
    }
    let status = object.status.unwrap_or_default();
    shown.progress = find(&status.conditions, "RolloutProgressing").cloned();
    Ok(())
}
