//! Reads the `ConfigMap`, and changes only the csi-proxy entry, without touching a byte of any other.

use std::collections::BTreeMap;

use protocol::Request;
use protocol::document::Service;
use protocol::order::same_name;
use protocol::paths::CSI_PROXY_SERVICE;
use protocol::validate::validate;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::index::ConfigMap;
use crate::services::NodePath;

const SERVICES: &str = "services";
const FILES: &str = "files";
const ENVIRONMENT: &str = "environmentVars";

/// An entry, with the fields needed to find it.
#[derive(Deserialize)]
struct Named {
    name: String,
    #[serde(default)]
    dependencies: Vec<String>,
}

/// What is wrong with the ConfigMap. Nodes stay as they are until it is corrected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ServicesError(String);

/// The parsed document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// The services, in the order of the document.
    pub services: Vec<Service>,
    /// Environment variables for all services.
    pub environment: BTreeMap<String, String>,
}

/// What to do with the ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServicesPlan {
    /// Nothing: it is as desired.
    Keep(Document),
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
pub fn plan(existing: Option<&ConfigMap>, entry: &Service) -> Result<ServicesPlan, ServicesError> {
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
    if let Some(files) = existing.data.get(FILES) {
        read::<Vec<IgnoredAny>>(FILES, files)?;
    } else {
        data.insert(FILES.to_owned(), "[]".to_owned());
    }
    if data.is_empty() {
        return parse(&existing.data).map(ServicesPlan::Keep);
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
    let keep = ServicesPlan::Keep(Document::default());
    let Some(existing) = existing else {
        return Ok(keep);
    };
    let Some(text) = without_entry(services(&existing.data))? else {
        return Ok(keep);
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

/// Parses and validates the document.
pub fn parse(data: &BTreeMap<String, String>) -> Result<Document, ServicesError> {
    let services: Vec<Service> = read(SERVICES, services(data))?;
    for service in &services {
        let scripts = service.powershell_pre_scripts.iter();
        let arguments = scripts.flat_map(|script| &script.node_args);
        for variable in service.node_variables_in_command.iter().chain(arguments) {
            let path = &variable.node_object_json_path;
            NodePath::parse(path).map_err(|problem| {
                ServicesError(format!(
                    "service {} in ConfigMap windows-services takes the variable {} from {path}, which is not usable: {problem}; write a path \
                     such as {{.status.addresses[?(@.type==\"InternalIP\")].address}}",
                    service.name, variable.name
                ))
            })?;
        }
    }
    let text = data.get(ENVIRONMENT).map_or("null", String::as_str);
    // `watchedEnvironmentVars` is WMCO's own bookkeeping, and not used here.
    let environment: Option<BTreeMap<String, String>> = read(ENVIRONMENT, text)?;
    let environment = environment.unwrap_or_default();
    let request = Request {
        id: "check".to_owned(),
        files: Vec::new(),
        services: services.iter().map(resolved_for_check).collect(),
        environment: environment.clone(),
        replace_foreign: false,
        pipes: Vec::new(),
        stop_timeout_seconds: 1,
        start_timeout_seconds: 1,
    };
    validate(&request).map_err(|why| {
        ServicesError(format!(
            "ConfigMap windows-services cannot be carried out: {why}; correct the entry or remove it"
        ))
    })?;
    Ok(Document {
        services,
        environment,
    })
}

/// Returns the service as an agent would receive it, as far as validation depends on it.
fn resolved_for_check(service: &Service) -> Service {
    let mut service = service.clone();
    service.node_variables_in_command.clear();
    for script in &mut service.powershell_pre_scripts {
        script.node_args.clear();
    }
    service
}

fn services(data: &BTreeMap<String, String>) -> &str {
    data.get(SERVICES).map_or("[]", String::as_str)
}

fn read<'a, T: Deserialize<'a>>(key: &'static str, text: &'a str) -> Result<T, ServicesError> {
    serde_json::from_str(text).map_err(|error| not_json(key, &error))
}

fn not_json(key: &'static str, error: &serde_json::Error) -> ServicesError {
    ServicesError(format!(
        "key {key} of ConfigMap windows-services is not as expected: {error}; correct it, or delete the ConfigMap to have it recreated"
    ))
}

/// The services other than csi-proxy that the `ConfigMap` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// None.
    None,
    /// Some that run without csi-proxy.
    Independent,
    /// At least one that depends on csi-proxy.
    Dependent,
}

/// Returns which other services the ConfigMap lists; `None` if it cannot be parsed.
#[must_use]
pub fn others(existing: Option<&ConfigMap>) -> Option<Others> {
    let text = existing.map_or("[]", |map| services(&map.data));
    let mut entries: Vec<Named> = serde_json::from_str(text).ok()?;
    entries.retain(|entry| !same_name(&entry.name, CSI_PROXY_SERVICE));
    let mut needed = entries.iter().flat_map(|entry| &entry.dependencies);
    Some(if needed.any(|name| same_name(name, CSI_PROXY_SERVICE)) {
        Others::Dependent
    } else if entries.is_empty() {
        Others::None
    } else {
        Others::Independent
    })
}

/// Returns the text without the csi-proxy entry; `None` if there is none. Other entries stay as they are written.
fn without_entry(text: &str) -> Result<Option<String>, ServicesError> {
    let elements: Vec<&RawValue> = read(SERVICES, text)?;
    let is_ours = |element: &&&RawValue| {
        let named = serde_json::from_str::<Named>(element.get());
        named.is_ok_and(|named| same_name(&named.name, CSI_PROXY_SERVICE))
    };
    let others = elements.iter().filter(|element| !is_ours(element));
    let others: Vec<&str> = others.map(|element| element.get()).collect();
    let is_listed = others.len() < elements.len();
    Ok(is_listed.then(|| format!("[{}]", others.join(","))))
}

/// Returns the text with our entry; `None` if it is there already.
fn with_entry(text: &str, entry: &Service) -> Result<Option<String>, ServicesError> {
    let elements: Vec<&RawValue> = read(SERVICES, text)?;
    let mut ours = None;
    let mut wanted = entry.clone();
    for element in &elements {
        let Named { name, .. } = read(SERVICES, element.get())?;
        if !same_name(&name, &entry.name) {
            continue;
        }
        // Keep the case of the existing name.
        wanted.name = name;
        if ours.replace(*element).is_some() {
            return Err(ServicesError(format!(
                "ConfigMap windows-services lists the service {} twice; remove one of the two entries",
                entry.name
            )));
        }
    }
    let existing = ours.and_then(|ours| serde_json::from_str::<Service>(ours.get()).ok());
    if existing.as_ref() == Some(&wanted) {
        return Ok(None);
    }
    let wanted = serde_json::to_string(&wanted).map_err(|error| not_json(SERVICES, &error))?;
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
