//! Finds the operator's own objects in the cluster, for commands that reach nodes as the operator does.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use kube::api::ListParams;
use kube::{Api, Client};
use windows_storage_operator::client::installed::{self, OPERATOR};
use windows_storage_operator::client::listing::{self, Step};
use windows_storage_operator::index::Cluster;
use windows_storage_operator::objects::{Kind, Received};
use windows_storage_operator::visible::visible;

/// Returns the operator's namespace: the given one, or that of its Deployment.
pub async fn operators_namespace(
    client: &Client,
    given: Option<&String>,
) -> anyhow::Result<String> {
    if let Some(given) = given {
        return Ok(given.clone());
    }
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
    let mut is_there = false;
    let mut take = |step| {
        if let Step::Page(page) = step {
            is_there |= !page.is_empty();
            for object in &page {
                kind.absorb(cluster, object);
            }
        }
    };
    match listing::list(&api, &parameters, &mut take).await {
        // If the settings' definition is not installed, the defaults apply.
        Err(error) if !error.is_not_found() => {
            return Err(error).with_context(|| format!("cannot read {} {name}", kind.name()));
        }
        _ => {}
    }
    // Do not continue with the defaults: they may have another port, or miss known host keys.
    if let Some(problem) = kind.table(cluster).problem() {
        bail!("{}", visible(problem));
    }
    Ok(is_there)
}
