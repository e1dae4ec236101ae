//! `check hosts`: finds what would hinder the operator on the hosts of nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use anyhow::bail;
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use windows_storage_operator::api::ForeignService;
use windows_storage_operator::assess::Report;
use windows_storage_operator::check::{Progress, from_api};
use windows_storage_operator::client::deadline;
use windows_storage_operator::index::{AnyTable, Cluster, list_unread};
use windows_storage_operator::node::{
    HOST_KEYS_CONFIG_MAP, NodePlan, Planner, Preflight, Present, UNUSED_FOR,
};
use windows_storage_operator::objects::own_config_maps;
use windows_storage_operator::report::{self, Answer};
use windows_storage_operator::services::CONFIG_MAP;
use windows_storage_operator::visible::visible;
use windows_storage_operator::watch::read_secret;

use crate::cli::CheckHostsArgs;
use crate::command::connect::connect;
use crate::command::own::{one, operators_namespace};
use crate::command::progress::{show_reading, spinner};
use crate::command::{has_page, is_colored, print, report_line, runtime};

/// How many hosts are checked at the same time.
const AT_ONCE: usize = 16;

/// Checks the hosts. Returns `False` if one has a problem, as for a held upgrade.
pub fn check_hosts(arguments: &CheckHostsArgs) -> anyhow::Result<Answer> {
    has_page(arguments.output, "hosts")?;
    let runtime = runtime()?;
    let looked = runtime.block_on(look(arguments));
    // Do not wait for a host that does not answer.
    runtime.shutdown_background();
    let mut hosts = looked?;
    hosts.sort_by(|a, b| a.node.cmp(&b.node));
    let color = is_colored(arguments.color);
    print(&report::hosts(&hosts, arguments.output, color)?)?;
    Ok(Answer::of(hosts.iter().all(Preflight::is_fine)))
}

async fn look(arguments: &CheckHostsArgs) -> anyhow::Result<Vec<Preflight>> {
    let (client, version) = connect(&arguments.cluster).await?;
    let namespace = operators_namespace(&client, arguments.namespace.as_ref()).await?;
    let bar = spinner();
    let mut show = |reading: Progress<'_>| show_reading(&bar, &reading);
    let mut cluster = from_api(&client, version, &mut show).await?;
    cluster.namespace.clone_from(&namespace);
    let maps = own_config_maps();
    for name in [CONFIG_MAP, HOST_KEYS_CONFIG_MAP] {
        one(&client, maps, Some(&namespace), name, &mut cluster).await?;
    }
    cluster.config_maps.finish();
    let secrets = Api::namespaced(client.clone(), &namespace);
    for name in cluster.wanted().secrets() {
        let secret = read_secret(&secrets, name).await?;
        cluster.secrets.insert(name.to_owned(), secret);
    }
    let report = Report::once(&cluster, None);
    refuse_unread(&cluster)?;
    let names = names(arguments, &client, &cluster).await?;
    let spec = cluster.wanted();
    // What is not needed any more is told as what is done once the operator has waited.
    let (plans, now) = (BTreeMap::new(), Instant::now());
    let unused_since = (cluster.nodes.iter())
        .map(|(name, _)| (name.to_string(), now))
        .collect();
    let planner = Planner::as_of(
        &cluster,
        &spec,
        Present {
            now: Timestamp::now(),
            instant: now + UNUSED_FOR,
            listed: Some(Instant::now()),
            report: &report,
            plans: &plans,
            unused_since: &unused_since,
        },
    );
    let plans = cluster
        .windows_nodes()
        .filter(|(name, _)| names.contains(name.as_str()))
        .map(|(name, node)| (name.to_string(), planner.plan(name, node)));
    let plans: Vec<(String, NodePlan)> = plans.collect();
    let of = plans.len();
    let replaces = spec.csi_proxy.foreign_service == ForeignService::Replace;
    let looks = plans
        .iter()
        .map(|(name, plan)| Preflight::of(name, plan, &namespace, replaces));
    let mut looks = stream::iter(looks).buffer_unordered(AT_ONCE);
    let mut found = Vec::new();
    while let Some(seen) = looks.next().await {
        found.push(seen);
        bar.set_message(format!("checking hosts ({} of {of} done)", found.len()));
    }
    bar.finish_and_clear();
    if found.is_empty() {
        report_line("No Windows nodes found.");
    }
    Ok(found)
}

/// Refuses to log in to hosts unless everything was read: it determines who manages a node, and how to reach it.
fn refuse_unread(cluster: &Cluster) -> anyhow::Result<()> {
    let unread = list_unread(&cluster.unread());
    let settings = [cluster.settings.problem(), cluster.node_statuses.problem()];
    let problem = match settings.into_iter().flatten().next() {
        _ if !unread.is_empty() => unread,
        _ if cluster.knows_configuration() => return Ok(()),
        problem => {
            let problem = problem.unwrap_or("are the operator's definitions installed?");
            format!("WindowsStorage or WindowsNodeStorage: {problem}")
        }
    };
    let problem = visible(&problem);
    bail!("no host was connected to, because not everything could be read: {problem}")
}

/// Returns the names of the selected nodes.
async fn names(
    arguments: &CheckHostsArgs,
    client: &Client,
    cluster: &Cluster,
) -> anyhow::Result<BTreeSet<String>> {
    let nodes = cluster.windows_nodes();
    let there: BTreeSet<String> = nodes.map(|(name, _)| name.to_string()).collect();
    if let Some(selector) = &arguments.selector {
        let nodes: Api<Node> = Api::all(client.clone());
        let parameters = ListParams::default().labels(selector);
        let listed = deadline::call("list nodes", nodes.list_metadata(&parameters)).await?;
        let labelled = listed.iter().map(ResourceExt::name_any);
        let names: BTreeSet<String> = labelled.filter(|name| there.contains(name)).collect();
        if names.is_empty() {
            bail!("no Windows node has the labels {}", visible(selector));
        }
        return Ok(names);
    }
    if arguments.names.is_empty() {
        return Ok(there);
    }
    let names: BTreeSet<String> = arguments.names.iter().cloned().collect();
    let absent: Vec<String> = names.difference(&there).map(|name| visible(name)).collect();
    if !absent.is_empty() {
        bail!(
            "there is no Windows node {} that the operator watches; it ignores nodes with the label windowsstorage.dev/ignore=true",
            absent.join(", ")
        );
    }
    Ok(names)
}
