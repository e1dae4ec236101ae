//! Finds the operator's own objects in the cluster, for commands that reach nodes as the operator does.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use kube::api::ListParams;
use kube::{Api, Client};
use windows_storage_operator::client::deadline;
use windows_storage_operator::client::installed::{self, OPERATOR};
use windows_storage_operator::index::Cluster;
use windows_storage_operator::objects::{Kind, Received};
use windows_storage_operator::visible::visible;

/// How often an object is asked for while the API server is too busy.
const ATTEMPTS: u32 = 3;

/// Returns the operator's namespace.
pub async fn operators_namespace(client: &Client) -> anyhow::Result<String> {
    let found = match installed::namespaces(client).await {
        Ok(found) => found,
        // Users who may not look for it get the default, which the error then names.
        Err(error) if error.is_forbidden() => BTreeSet::new(),
        Err(error) => return Err(error.into()),
    };
    if found.len() > 1 {
        bail!(
            "there are Deployments of the operator in more than one namespace; say which with --namespace"
        );
    }
    Ok(found.into_iter().next().unwrap_or(OPERATOR.to_owned()))
}

/// Adds one object to the cluster; returns whether it exists.
pub async fn one(
    client: &Client,
    kind: Option<&Kind>,
    namespace: Option<&str>,
    name: &str,
    cluster: &mut Cluster,
) -> anyhow::Result<bool> {
    let kind = kind.context("the kind is not known")?;
    let api: Api<Received> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind.resource),
        None => Api::all_with(client.clone(), &kind.resource),
    };
    let parameters = ListParams::default().fields(&format!("metadata.name={name}"));
    let mut attempt = 1;
    let listed = loop {
        match deadline::call("read object", api.list(&parameters)).await {
            // A server that has just started answers so, and says for how long. The client waits that long.
            Err(error) if error.status() == Some(429) && attempt < ATTEMPTS => attempt += 1,
            ended => break ended,
        }
    };
    let is_there = match listed {
        Ok(list) => {
            for object in &list.items {
                kind.absorb(cluster, object);
            }
            !list.items.is_empty()
        }
        // If the settings' definition is not installed, the defaults apply.
        Err(error) if error.is_not_found() => false,
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {} {name}", kind.name()));
        }
    };
    // Do not continue with the defaults: they may have another port, or miss known host keys.
    if let Some(problem) = kind.table(cluster).problem() {
        bail!("{}", visible(problem));
    }
    Ok(is_there)
}
