//! Reading the ConfigMap, and changing our entry without touching a byte of any other.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;
use windows_storage_agent::document::Service;
use windows_storage_agent::protocol::Request;
use windows_storage_agent::validate::validate;

use crate::index::ConfigMap;
use crate::services::NodePath;

const SERVICES: &str = "services";
const FILES: &str = "files";
const ENVIRONMENT: &str = "environmentVars";

/// What is wrong with the ConfigMap. Nodes stay as they are until it is mended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServicesError {
    /// A key does not hold the JSON that it must.
    #[error(
        "key {key} of ConfigMap windows-services is not as expected: {problem}; correct it, or delete the ConfigMap to have it made anew"
    )]
    NotJson {
        /// The key.
        key: &'static str,
        /// The parser's complaint.
        problem: String,
    },
    /// Two services share a name.
    #[error(
        "ConfigMap windows-services lists the service {0} twice; remove one of the two entries"
    )]
    Duplicate(String),
    /// A dependency is not listed.
    #[error(
        "service {service} in ConfigMap windows-services depends on {dependency}, which is not listed; add it or remove the dependency"
    )]
    UnknownDependency {
        /// The service.
        service: String,
        /// The name that is not listed.
        dependency: String,
    },
    /// A path into the Node object makes no sense.
    #[error(
        "service {service} in ConfigMap windows-services takes the variable {variable} from {path}, which is not usable: {problem}; write a path such as \
         {{.status.addresses[?(@.type==\"InternalIP\")].address}}"
    )]
    Path {
        /// The service.
        service: String,
        /// The variable.
        variable: String,
        /// The path.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A variable of the environment cannot be one.
    #[error(
        "key environmentVars of ConfigMap windows-services holds {0:?}, which cannot be an environment variable; names are letters, digits and \
         underscores, values have no control characters"
    )]
    Environment(String),
    /// The agents would refuse it.
    #[error(
        "ConfigMap windows-services cannot be carried out: {0}; correct the entry or remove it"
    )]
    Refused(String),
    /// The ConfigMap cannot be written and does not say what it should.
    #[error(
        "ConfigMap windows-services is immutable and its csi-proxy entry is not the one that is wanted; delete it to have it made anew, or set spec.csiProxy of WindowsStorage to fit"
    )]
    Immutable,
}

/// The parsed document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// The services, in the order of the text.
    pub services: Vec<Service>,
    /// Environment variables of all of them.
    pub environment: BTreeMap<String, String>,
}

/// What to do with the ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It says what it should.
    Keep(Document),
    /// It is not there.
    Create(BTreeMap<String, String>),
    /// These keys are to be written.
    Update {
        /// Keys and their new text; other keys stay.
        data: BTreeMap<String, String>,
        /// The version that this change was made from.
        resource_version: String,
    },
}

/// Decides what to do so that the ConfigMap holds `entry`.
pub fn plan(existing: Option<&ConfigMap>, entry: &Service) -> Result<Step, ServicesError> {
    let Some(existing) = existing else {
        let services = with_entry("[]", entry)?.unwrap_or_default();
        return Ok(Step::Create(BTreeMap::from([
            (SERVICES.to_owned(), services),
            (FILES.to_owned(), "[]".to_owned()),
        ])));
    };
    let mut data = BTreeMap::new();
    let services = existing.data.get(SERVICES).map_or("[]", String::as_str);
    if let Some(changed) = with_entry(services, entry)? {
        data.insert(SERVICES.to_owned(), changed);
    }
    match existing.data.get(FILES) {
        Some(files) => check_list(FILES, files)?,
        None => {
            data.insert(FILES.to_owned(), "[]".to_owned());
        }
    }
    if data.is_empty() {
        return parse(&existing.data).map(Step::Keep);
    }
    if existing.immutable {
        return Err(ServicesError::Immutable);
    }
    Ok(Step::Update {
        data,
        resource_version: existing.resource_version.clone(),
    })
}

/// Reads and checks the document.
pub fn parse(data: &BTreeMap<String, String>) -> Result<Document, ServicesError> {
    let services: Vec<Service> =
        serde_json::from_str(data.get(SERVICES).map_or("[]", String::as_str))
            .map_err(|error| not_json(SERVICES, &error))?;
    let mut names = BTreeSet::new();
    for service in &services {
        if !names.insert(service.name.as_str()) {
            return Err(ServicesError::Duplicate(service.name.clone()));
        }
    }
    for service in &services {
        if let Some(dependency) = service
            .dependencies
            .iter()
            .find(|name| !names.contains(name.as_str()))
        {
            return Err(ServicesError::UnknownDependency {
                service: service.name.clone(),
                dependency: dependency.clone(),
            });
        }
        let arguments = service
            .powershell_pre_scripts
            .iter()
            .flat_map(|script| &script.node_args);
        for variable in service.node_variables_in_command.iter().chain(arguments) {
            NodePath::parse(&variable.node_object_json_path).map_err(|problem| {
                ServicesError::Path {
                    service: service.name.clone(),
                    variable: variable.name.clone(),
                    path: variable.node_object_json_path.clone(),
                    problem,
                }
            })?;
        }
    }
    let environment = environment(data)?;
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
    validate(&request).map_err(|failure| ServicesError::Refused(failure.message))?;
    Ok(Document {
        services,
        environment,
    })
}

/// The service as an agent would get it, as far as a check of its form needs.
fn resolved_for_check(service: &Service) -> Service {
    let mut service = service.clone();
    service.node_variables_in_command.clear();
    for script in &mut service.powershell_pre_scripts {
        script.node_args.clear();
    }
    service
}

/// The variables that every service gets. `watchedEnvironmentVars` is WMCO's own bookkeeping and not used.
fn environment(data: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, ServicesError> {
    let Some(text) = data.get(ENVIRONMENT) else {
        return Ok(BTreeMap::new());
    };
    let variables: Option<BTreeMap<String, String>> =
        serde_json::from_str(text).map_err(|error| not_json(ENVIRONMENT, &error))?;
    let variables = variables.unwrap_or_default();
    for (name, value) in &variables {
        let usable = !name.is_empty()
            && name.len() <= 256
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && value.len() <= 8192
            && !value.contains(char::is_control);
        if !usable {
            return Err(ServicesError::Environment(name.clone()));
        }
    }
    Ok(variables)
}

fn not_json(key: &'static str, error: &serde_json::Error) -> ServicesError {
    ServicesError::NotJson {
        key,
        problem: error.to_string(),
    }
}

fn check_list(key: &'static str, text: &str) -> Result<(), ServicesError> {
    serde_json::from_str::<Vec<serde::de::IgnoredAny>>(text)
        .map(drop)
        .map_err(|error| not_json(key, &error))
}

/// The text with our entry in it; `None` where it says so already.
fn with_entry(text: &str, entry: &Service) -> Result<Option<String>, ServicesError> {
    #[derive(serde::Deserialize)]
    struct Named {
        name: String,
    }
    let fail = |error: serde_json::Error| not_json(SERVICES, &error);
    let elements: Vec<&RawValue> = serde_json::from_str(text).map_err(fail)?;
    let mut ours = None;
    for element in &elements {
        let named: Named = serde_json::from_str(element.get()).map_err(fail)?;
        if named.name == entry.name && ours.replace(*element).is_some() {
            return Err(ServicesError::Duplicate(entry.name.clone()));
        }
    }
    let wanted = serde_json::to_string(entry).map_err(fail)?;
    let Some(ours) = ours else {
        // The array's text was just parsed, so its last bracket closes it.
        let end = text.rfind(']').unwrap_or(text.len());
        let separator = if elements.is_empty() { "" } else { "," };
        let before = text[..end].trim_end();
        return Ok(Some(format!("{before}{separator}{wanted}{}", &text[end..])));
    };
    if serde_json::from_str::<Service>(ours.get()).is_ok_and(|existing| existing == *entry) {
        return Ok(None);
    }
    // A raw value borrows from the text, so the distance of the two is where it stands.
    let start = ours.get().as_ptr().addr() - text.as_ptr().addr();
    let end = start + ours.get().len();
    Ok(Some(format!("{}{wanted}{}", &text[..start], &text[end..])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::csi_proxy_service;

    fn config_map(services: &str) -> ConfigMap {
        ConfigMap {
            data: BTreeMap::from([
                ("services".to_owned(), services.to_owned()),
                ("files".to_owned(), "[ ]".to_owned()),
                ("watchedEnvironmentVars".to_owned(), "null".to_owned()),
            ]),
            immutable: false,
            resource_version: "7".to_owned(),
        }
    }

    fn updated(existing: &ConfigMap, entry: &Service) -> String {
        match plan(Some(existing), entry).unwrap() {
            Step::Update {
                data,
                resource_version,
            } => {
                assert_eq!(resource_version, "7");
                assert_eq!(
                    data.keys().collect::<Vec<_>>(),
                    ["services"],
                    "other keys are not written"
                );
                data["services"].clone()
            }
            other => panic!("expected an update, got {other:?}"),
        }
    }

    const OTHERS: &str = "[\n  {\"name\" : \"kubelet\", \"path\":\"C:\\\\k\\\\kubelet.exe\",\t\"bootstrap\":true,\"priority\":0, \"later\": {\"x\": 1e2}}";

    #[test]
    fn a_missing_config_map_is_made_with_our_entry_alone() {
        let entry = csi_proxy_service(&[]);
        let Step::Create(data) = plan(None, &entry).unwrap() else {
            panic!("expected a creation")
        };
        assert_eq!(parse(&data).unwrap().services, [entry]);
        assert_eq!(data["files"], "[]");
    }

    #[test]
    fn adding_our_entry_leaves_every_other_byte() {
        let text = format!("{OTHERS}\n]\n");
        let entry = csi_proxy_service(&[]);
        let changed = updated(&config_map(&text), &entry);
        assert!(changed.starts_with(OTHERS), "{changed}");
        assert!(changed.ends_with("]\n"));
        let names: Vec<String> = serde_json::from_str::<Vec<serde_json::Value>>(&changed)
            .unwrap()
            .iter()
            .map(|service| service["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["kubelet", "csi-proxy"]);
    }

    #[test]
    fn replacing_our_entry_leaves_every_other_byte() {
        let tail = ",  {\"name\":\"after\",\"path\":\"C:\\\\k\\\\a.exe\",\"bootstrap\":false,\"priority\":3}  ]";
        let text = format!(
            "{OTHERS} , {{\"name\":\"csi-proxy\",\"path\":\"old\",\"bootstrap\":false,\"priority\":2}}{tail}"
        );
        let entry = csi_proxy_service(&["-require-privacy=false".to_owned()]);
        let changed = updated(&config_map(&text), &entry);
        let wanted = serde_json::to_string(&entry).unwrap();
        assert_eq!(changed, format!("{OTHERS} , {wanted}{tail}"));
        assert_eq!(
            plan(Some(&config_map(&changed)), &entry).map(|step| matches!(step, Step::Keep(_))),
            Ok(true)
        );
    }

    #[test]
    fn text_that_is_not_a_list_of_services_is_refused_with_its_key() {
        let entry = csi_proxy_service(&[]);
        for text in ["", "{", "{}", "null", "[1]", "[{\"path\":\"x\"}]"] {
            let error = plan(Some(&config_map(text)), &entry).unwrap_err();
            assert!(
                matches!(
                    error,
                    ServicesError::NotJson {
                        key: "services",
                        ..
                    }
                ),
                "{text}: {error}"
            );
            assert!(error.to_string().contains("windows-services"));
        }
    }

    #[test]
    fn duplicates_and_dangling_dependencies_are_refused() {
        let entry = csi_proxy_service(&[]);
        let mine = serde_json::to_string(&entry).unwrap();
        let error = plan(Some(&config_map(&format!("[{mine},{mine}]"))), &entry).unwrap_err();
        assert_eq!(error, ServicesError::Duplicate("csi-proxy".to_owned()));
        let dangling =
            r#"{"name":"a","path":"a","bootstrap":false,"priority":1,"dependencies":["b"]}"#;
        let error = plan(Some(&config_map(&format!("[{mine},{dangling}]"))), &entry).unwrap_err();
        assert!(
            matches!(error, ServicesError::UnknownDependency { .. }),
            "{error}"
        );
    }

    #[test]
    fn what_every_agent_would_refuse_is_refused_here() {
        let entry = csi_proxy_service(&[]);
        let mine = serde_json::to_string(&entry).unwrap();
        for other in [
            r#"{"name":"CSI-PROXY","path":"C:\\k\\a.exe","bootstrap":false,"priority":3}"#,
            r#"{"name":"../../x y","path":"C:\\k\\a.exe","bootstrap":false,"priority":3}"#,
            r#"{"name":"a","path":"a.exe","bootstrap":false,"priority":3}"#,
        ] {
            let error = plan(Some(&config_map(&format!("[{mine},{other}]"))), &entry).unwrap_err();
            assert!(
                matches!(error, ServicesError::Refused(_)),
                "{other}: {error}"
            );
        }
    }

    #[test]
    fn an_immutable_config_map_is_compared_and_never_written() {
        let entry = csi_proxy_service(&[]);
        let mut existing = config_map("[]");
        existing.immutable = true;
        assert_eq!(plan(Some(&existing), &entry), Err(ServicesError::Immutable));
        existing.data.insert(
            "services".to_owned(),
            format!("[{}]", serde_json::to_string(&entry).unwrap()),
        );
        assert!(matches!(plan(Some(&existing), &entry), Ok(Step::Keep(_))));
    }

    #[test]
    fn variables_scripts_and_environment_are_read() {
        let service = r#"[{"name":"x","path":"C:\\k\\x.exe -ip=IP","bootstrap":false,"priority":1,
            "nodeVariablesInCommand":[{"name":"IP","nodeObjectJsonPath":"{.metadata.name}"}],
            "powershellPreScripts":[{"variableName":"","path":"C:\\k\\x.ps1","NodeArgs":null}]}]"#;
        let mut map = config_map(service);
        let environment = r#"{"HTTP_PROXY":"http://10.0.0.1:3128","NO_PROXY":""}"#;
        map.data
            .insert("environmentVars".to_owned(), environment.to_owned());
        let document = parse(&map.data).unwrap();
        assert_eq!(document.services[0].node_variables_in_command.len(), 1);
        assert_eq!(document.environment["HTTP_PROXY"], "http://10.0.0.1:3128");
        for (text, expected) in [
            (r#"{"a b":"x"}"#, "a b"),
            ("{\"a\":\"x\\u0000y\"}", "\"a\""),
            ("[1]", "environmentVars"),
        ] {
            map.data
                .insert("environmentVars".to_owned(), text.to_owned());
            let error = parse(&map.data).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        map.data
            .insert("environmentVars".to_owned(), "null".to_owned());
        assert!(parse(&map.data).unwrap().environment.is_empty());
        let misspelt = service.replace("{.metadata.name}", "metadata.name");
        let error = parse(&config_map(&misspelt).data).unwrap_err();
        assert!(matches!(error, ServicesError::Path { .. }), "{error}");
    }
}
