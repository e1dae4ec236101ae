//! Tests with documents as others wrote them, and the changes made to them.

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
    let ServicesPlan::Update {
        data,
        resource_version,
    } = plan(Some(existing), entry).unwrap()
    else {
        panic!("expected an update")
    };
    assert_eq!(resource_version, "7");
    // No other key is written.
    assert_eq!(data.len(), 1);
    data["services"].clone()
}

const OTHERS: &str = "[\n  {\"name\" : \"kubelet\", \"path\":\"C:\\\\k\\\\kubelet.exe\",\t\"bootstrap\":true,\"priority\":0, \"later\": {\"x\": 1e2}}";

#[test]
fn a_missing_config_map_is_made_with_our_entry_alone() {
    let entry = csi_proxy_service(&[]);
    let ServicesPlan::Create(data) = plan(None, &entry).unwrap() else {
        panic!("expected a creation")
    };
    assert_eq!(parse(&data).unwrap().services, [entry]);
    assert_eq!(data["files"], "[]");
}

#[test]
fn writing_our_entry_leaves_every_other_byte() {
    let entry = csi_proxy_service(&[]);
    let wanted = serde_json::to_string(&entry).unwrap();
    let added = updated(&config_map(&format!("{OTHERS}\n]\n")), &entry);
    assert_eq!(added, format!("{OTHERS},{wanted}]\n"));
    let tail = ",  {\"name\":\"after\",\"path\":\"C:\\\\k\\\\a.exe\",\"bootstrap\":false,\"priority\":3}  ]";
    let text = format!(
        "{OTHERS} , {{\"name\":\"csi-proxy\",\"path\":\"old\",\"bootstrap\":false,\"priority\":2}}{tail}"
    );
    let entry = csi_proxy_service(&["-require-privacy=false".to_owned()]);
    let changed = updated(&config_map(&text), &entry);
    let wanted = serde_json::to_string(&entry).unwrap();
    assert_eq!(changed, format!("{OTHERS} , {wanted}{tail}"));
    let kept = plan(Some(&config_map(&changed)), &entry);
    assert!(matches!(kept, Ok(ServicesPlan::Keep(_))), "{kept:?}");
}

#[test]
fn our_entry_in_another_case_is_ours_and_keeps_it() {
    let entry = csi_proxy_service(&[]);
    let written = serde_json::to_string(&entry).unwrap();
    let written = written.replace("\"csi-proxy\"", "\"CSI-Proxy\"");
    let dependent = r#"{"name":"x","path":"C:\\k\\x.exe","bootstrap":false,"priority":3,"dependencies":["csi-PROXY"]}"#;
    let as_wanted = config_map(&format!("[ {written}, {dependent} ]"));
    let Ok(ServicesPlan::Keep(document)) = plan(Some(&as_wanted), &entry) else {
        panic!("it is as wanted, but for the case of its name")
    };
    assert_eq!(document.services[0].name, "CSI-Proxy");
    let other = written.replace("--v=2", "--v=5");
    let changed = updated(&config_map(&format!("[ {other}, {dependent} ]")), &entry);
    assert_eq!(changed, format!("[ {written}, {dependent} ]"));
}

#[test]
fn text_that_is_not_a_list_of_services_is_refused_with_its_key() {
    let entry = csi_proxy_service(&[]);
    for text in ["", "{", "{}", "null", "[1]", "[{\"path\":\"x\"}]"] {
        let error = plan(Some(&config_map(text)), &entry).unwrap_err();
        let words = "key services of ConfigMap windows-services is not as expected";
        assert!(error.to_string().contains(words), "{text}: {error}");
    }
}

#[test]
fn what_makes_no_sense_or_every_agent_would_refuse_is_refused_here() {
    let entry = csi_proxy_service(&[]);
    let ours = serde_json::to_string(&entry).unwrap();
    let dangling =
        r#"{"name":"a","path":"C:\\k\\a.exe","bootstrap":false,"priority":1,"dependencies":["b"]}"#;
    let named = |name: &str, path: &str| {
        let service =
            serde_json::json!({"name": name, "path": path, "bootstrap": false, "priority": 3});
        service.to_string()
    };
    for (other, words) in [
        (ours.as_str(), "lists the service csi-proxy twice"),
        (dangling, "depends on b, which is not listed"),
        (
            &named("CSI-PROXY", r"C:\k\a.exe"),
            "lists the service csi-proxy twice",
        ),
        (&named("../../x y", r"C:\k\a.exe"), "cannot be carried out"),
        (&named("a", "a.exe"), "cannot be carried out"),
    ] {
        let error = plan(Some(&config_map(&format!("[{ours},{other}]"))), &entry).unwrap_err();
        assert!(error.to_string().contains(words), "{other}: {error}");
    }
}

#[test]
fn an_immutable_config_map_is_compared_and_never_written() {
    let entry = csi_proxy_service(&[]);
    let mut existing = config_map("[]");
    existing.immutable = true;
    let error = plan(Some(&existing), &entry).unwrap_err();
    assert!(error.to_string().contains("is immutable"), "{error}");
    existing.data.insert(
        "services".to_owned(),
        format!("[{}]", serde_json::to_string(&entry).unwrap()),
    );
    assert!(matches!(
        plan(Some(&existing), &entry),
        Ok(ServicesPlan::Keep(_))
    ));
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
        ("{\"a\":\"x\\u0000y\"}", "'a'"),
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
    assert!(
        error.to_string().contains("write a path such as"),
        "{error}"
    );
}

/// What WMCO's own reader refuses. A refusal stops WMCO's daemon on every node that follows the document. Source:
/// `pkg/servicescm/servicescm.go`.
fn wmco_refuses(data: &BTreeMap<String, String>) -> Option<String> {
    const KEYS: [&str; 4] = [
        "services",
        "files",
        "environmentVars",
        "watchedEnvironmentVars",
    ];
    if data.len() < 2 || data.len() > KEYS.len() || data.keys().any(|key| !KEYS.contains(&&**key)) {
        return Some(format!("keys {:?}", data.keys()));
    }
    let Some(Ok(mut services)) = data
        .get("services")
        .map(|text| serde_json::from_str::<Vec<Service>>(text))
    else {
        return Some("services".to_owned());
    };
    let is_array = |text: &String| serde_json::from_str::<Vec<IgnoredAny>>(text).is_ok();
    if data.get("files").is_none_or(|text| !is_array(text)) {
        return Some("files".to_owned());
    }
    services.sort_by_key(|service| service.priority);
    let is_bootstrap = |name: &String| {
        let mut named = services.iter().filter(|service| service.name == *name);
        named.next().is_none_or(|service| service.bootstrap)
    };
    for service in services.iter().filter(|service| service.bootstrap) {
        if !service.node_variables_in_command.is_empty()
            || !service.dependencies.iter().all(is_bootstrap)
        {
            return Some(format!("bootstrap service {}", service.name));
        }
    }
    let last = services.iter().rposition(|service| service.bootstrap);
    let first = services.iter().position(|service| !service.bootstrap);
    if let (Some(last), Some(first)) = (last, first)
        && (first < last || services[first].priority == services[last].priority)
    {
        return Some("order".to_owned());
    }
    None
}

#[test]
fn wmcos_reader_takes_what_is_written() {
    let service = |name: &str, bootstrap: bool, priority: u32, needs: &[&str]| {
        serde_json::json!({
            "name": name, "path": format!(r"C:\k\{name}.exe"), "bootstrap": bootstrap, "priority": priority, "dependencies": needs,
        })
    };
    let wmcos = [
        service("containerd", true, 0, &[]),
        service("kubelet", true, 1, &["containerd"]),
        service("hybrid-overlay-node", false, 2, &["kubelet"]),
        service("kube-proxy", false, 3, &["hybrid-overlay-node"]),
    ];
    let wmcos = serde_json::to_string(&wmcos).unwrap();
    let documents = [
        None,
        Some(BTreeMap::new()),
        Some([("services".to_owned(), "[]".to_owned())].into()),
        Some(config_map(&wmcos).data),
    ];
    for data in documents {
        let existing = data.clone().map(|data| ConfigMap {
            data,
            ..config_map("")
        });
        let written = match plan(existing.as_ref(), &csi_proxy_service(&[])).unwrap() {
            ServicesPlan::Create(data) => data,
            ServicesPlan::Update { data: changed, .. } => {
                let mut data = data.clone().unwrap_or_default();
                data.extend(changed);
                data
            }
            ServicesPlan::Keep(_) => panic!("the entry is not there"),
        };
        assert_eq!(wmco_refuses(&written), None, "{data:?}");
        assert!(written["services"].contains("csi-proxy"));
    }
    let not_ours = service("later", true, 2, &[]).to_string();
    let refused = config_map(&wmcos.replace("[{", &format!("[{not_ours},{{")));
    assert_eq!(wmco_refuses(&refused.data).as_deref(), Some("order"));
}
