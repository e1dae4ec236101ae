//! Reads the `ConfigMap`, and changes only the csi-proxy entry, without touching a byte of any other.

use std::collections::BTreeMap;

use protocol::command::same_name;
use protocol::paths::CSI_PROXY_SERVICE;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::index::ConfigMap;
use crate::services::Entry;

const SERVICES: &str = "services";
const FILES: &str = "files";

/// What is wrong with the ConfigMap or the settings for it. Nodes stay as they are until it is corrected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ServicesError(pub(super) String);

/// What to do with the ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServicesPlan {
    /// Nothing: no node is managed, so nobody needs it.
    Unneeded,
    /// Nothing: it is as desired.
    Keep {
        /// The names of the other entries, which this operator leaves as they are and its agents do not run.
        others: Vec<String>,
    },
    /// Create it with this data.
    Create(BTreeMap<String, String>),
    /// Update these keys.
    Update {
        /// Keys and their new values; other keys stay.
        data: BTreeMap<String, String>,
        /// The `resourceVersion` that the change is based on.
        resource_version: String,
    },
}

/// Decides how to bring `entry` into the ConfigMap.
pub fn plan(existing: Option<&ConfigMap>, entry: &Entry) -> Result<ServicesPlan, ServicesError> {
    let Some(existing) = existing else {
        let services = with_entry("[]", entry)?.unwrap_or_default();
        let data = [(SERVICES, services), (FILES, "[]".to_owned())];
        return Ok(ServicesPlan::Create(
            data.map(|(key, text)| (key.to_owned(), text)).into(),
        ));
    };
    let mut data = BTreeMap::new();
    if let Some(changed) = with_entry(services(&existing.data), entry)? {
        data.insert(SERVICES.to_owned(), changed);
    }
    // WMCO's reader requires it.
    if !existing.data.contains_key(FILES) {
        data.insert(FILES.to_owned(), "[]".to_owned());
    }
    if data.is_empty() {
        let others = elements(services(&existing.data))?
            .into_iter()
            .filter_map(name);
        let others = others.filter(|name| !is_ours(name)).collect();
        return Ok(ServicesPlan::Keep { others });
    }
    if existing.immutable {
        let problem = "ConfigMap windows-services is immutable and its csi-proxy entry is not the one that is wanted; delete it to have \
            it recreated, or set spec.csiProxy of WindowsStorage to fit";
        return Err(ServicesError(problem.to_owned()));
    }
    Ok(ServicesPlan::Update {
        data,
        resource_version: existing.resource_version.clone(),
    })
}

/// Decides how to remove the csi-proxy entry from the `ConfigMap`.
pub fn plan_removal(existing: Option<&ConfigMap>) -> Result<ServicesPlan, ServicesError> {
    let Some(existing) = existing else {
        return Ok(ServicesPlan::Unneeded);
    };
    let Some(text) = without_entry(services(&existing.data))? else {
        return Ok(ServicesPlan::Unneeded);
    };
    if existing.immutable {
        let problem = "ConfigMap windows-services is immutable, so its csi-proxy entry stays; delete the ConfigMap";
        return Err(ServicesError(problem.to_owned()));
    }
    Ok(ServicesPlan::Update {
        data: [(SERVICES.to_owned(), text)].into(),
        resource_version: existing.resource_version.clone(),
    })
}

fn services(data: &BTreeMap<String, String>) -> &str {
    data.get(SERVICES).map_or("[]", String::as_str)
}

/// Returns the entries as they are written. Nothing more is asked of those of others.
fn elements(text: &str) -> Result<Vec<&RawValue>, ServicesError> {
    serde_json::from_str(text).map_err(|error| {
        ServicesError(format!(
            "key {SERVICES} of ConfigMap windows-services is not as expected: {error}; correct it, or delete the ConfigMap to have it recreated"
        ))
    })
}

/// Returns the name of an entry, if it has one.
fn name(element: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let named: Result<Named, _> = serde_json::from_str(element.get());
    named.ok().map(|named| named.name)
}

fn is_ours(name: &str) -> bool {
    same_name(name, CSI_PROXY_SERVICE)
}

/// Returns the text without the csi-proxy entry; `None` if there is none. Other entries stay as they are written.
fn without_entry(text: &str) -> Result<Option<String>, ServicesError> {
    let elements = elements(text)?;
    let is_other = |element: &&&RawValue| !name(element).is_some_and(|name| is_ours(&name));
    let others = elements.iter().filter(is_other);
    let others: Vec<&str> = others.map(|element| element.get()).collect();
    let is_listed = others.len() < elements.len();
    Ok(is_listed.then(|| format!("[{}]", others.join(","))))
}

/// Returns the text with our entry; `None` if it is there already.
fn with_entry(text: &str, entry: &Entry) -> Result<Option<String>, ServicesError> {
    let elements = elements(text)?;
    let mut ours = None;
    let mut wanted = entry.clone();
    for element in &elements {
        let Some(name) = name(element).filter(|name| is_ours(name)) else {
            continue;
        };
        // Keep the case of the existing name.
        wanted.name = name;
        if ours.replace(*element).is_some() {
            return Err(ServicesError(format!(
                "ConfigMap windows-services lists the service {} twice; remove one of the two entries",
                entry.name
            )));
        }
    }
    let existing = ours.and_then(|ours| serde_json::from_str::<Entry>(ours.get()).ok());
    if existing.as_ref() == Some(&wanted) {
        return Ok(None);
    }
    // Plain data always serializes.
    let wanted = serde_json::to_string(&wanted).unwrap_or_default();
    let Some(ours) = ours else {
        // The array's text was just parsed, so its last bracket closes it.
        let end = text.rfind(']').unwrap_or(text.len());
        let separator = if elements.is_empty() { "" } else { "," };
        let before = text[..end].trim_end();
        return Ok(Some(format!("{before}{separator}{wanted}{}", &text[end..])));
    };
    // A raw value borrows from the text, so the difference of the addresses is its position.
    let start = ours.get().as_ptr().addr() - text.as_ptr().addr();
    let end = start + ours.get().len();
    Ok(Some(format!("{}{wanted}{}", &text[..start], &text[end..])))
}

#[cfg(test)]
mod tests;
