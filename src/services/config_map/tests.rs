//! Tests with documents as others wrote them, and the changes made to them.

use super::*;
use crate::services::csi_proxy_flags;

fn csi_proxy(extra: &[&str]) -> Entry {
    let extra: Vec<String> = extra.iter().map(|&flag| flag.to_owned()).collect();
    Entry::of(&csi_proxy_flags(&extra).unwrap())
}

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

fn updated(existing: &ConfigMap, entry: &Entry) -> String {
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
    let entry = csi_proxy(&[]);
    let ServicesPlan::Create(data) = plan(None, &entry).unwrap() else {
        panic!("expected a creation")
    };
    let entries: Vec<Entry> = serde_json::from_str(&data["services"]).unwrap();
    assert_eq!(entries, [entry]);
    assert_eq!(data["files"], "[]");
}

#[test]
fn writing_our_entry_leaves_every_other_byte() {
    let entry = csi_proxy(&[]);
    let wanted = serde_json::to_string(&entry).unwrap();
    let added = updated(&config_map(&format!("{OTHERS}\n]\n")), &entry);
    assert_eq!(added, format!("{OTHERS},{wanted}]\n"));
    let tail = ",  {\"name\":\"after\",\"path\":\"C:\\\\k\\\\a.exe\",\"bootstrap\":false,\"priority\":3}  ]";
    let text = format!(
        "{OTHERS} , {{\"name\":\"csi-proxy\",\"path\":\"old\",\"bootstrap\":false,\"priority\":2}}{tail}"
    );
    let entry = csi_proxy(&["-require-privacy=false"]);
    let changed = updated(&config_map(&text), &entry);
    let wanted = serde_json::to_string(&entry).unwrap();
    assert_eq!(changed, format!("{OTHERS} , {wanted}{tail}"));
    let kept = plan(Some(&config_map(&changed)), &entry);
    assert!(matches!(kept, Ok(ServicesPlan::Keep { .. })), "{kept:?}");
}

#[test]
fn our_entry_in_another_case_is_ours_and_keeps_it() {
    let entry = csi_proxy(&[]);
    let written = serde_json::to_string(&entry).unwrap();
    let written = written.replace("\"csi-proxy\"", "\"CSI-Proxy\"");
    let dependent = r#"{"name":"x","path":"C:\\k\\x.exe","bootstrap":false,"priority":3,"dependencies":["csi-PROXY"]}"#;
    let as_wanted = config_map(&format!("[ {written}, {dependent} ]"));
    let Ok(ServicesPlan::Keep { others }) = plan(Some(&as_wanted), &entry) else {
        panic!("it is as wanted, but for the case of its name")
    };
    assert_eq!(others, ["x"]);
    let other = written.replace("--v=2", "--v=5");
    let changed = updated(&config_map(&format!("[ {other}, {dependent} ]")), &entry);
    assert_eq!(changed, format!("[ {written}, {dependent} ]"));
}

#[test]
fn text_that_is_not_a_list_of_services_is_refused_with_its_key() {
    let entry = csi_proxy(&[]);
    for text in ["", "{", "{}", "null", "[1"] {
        let error = plan(Some(&config_map(text)), &entry).unwrap_err();
        let words = "key services of ConfigMap windows-services is not as expected";
        assert!(error.to_string().contains(words), "{text}: {error}");
    }
}

#[test]
fn of_other_entries_nothing_is_asked() {
    let entry = csi_proxy(&[]);
    let ours = serde_json::to_string(&entry).unwrap();
    // The last two are of WMCO's own: a script, and a literal in place of a path into the Node.
    let others = r#"1,{"name":5},{"name":"../../x y","path":"a.exe","dependencies":["b"]},
        {"name":"kubelet","powershellPreScripts":[{"variableName":"","path":"Get-Date","NodeArgs":null}]},
        {"name":"kube-proxy","nodeVariablesInCommand":[{"name":"N","nodeObjectJsonPath":"literal"}]}"#;
    let kept = plan(Some(&config_map(&format!("[{others},{ours}]"))), &entry);
    let others = ["../../x y", "kubelet", "kube-proxy"]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(kept, Ok(ServicesPlan::Keep { others }));
}

#[test]
fn an_entry_of_ours_with_anything_else_is_written_anew() {
    let entry = csi_proxy(&[]);
    let written = serde_json::to_string(&entry).unwrap();
    for (key, value) in [
        (
            "powershellPreScripts",
            serde_json::json!([{"variableName": "X", "path": "Get-Date"}]),
        ),
        (
            "nodeVariablesInCommand",
            serde_json::json!([{"name": "X", "nodeObjectJsonPath": "{.x}"}]),
        ),
        ("dependencies", serde_json::json!(["kubelet"])),
        (
            "path",
            serde_json::json!(r"C:\other\csi-proxy.exe -windows-service"),
        ),
        ("priority", serde_json::json!(9)),
    ] {
        let mut theirs = serde_json::to_value(&entry).unwrap();
        theirs[key] = value;
        let mut map = config_map(&format!("[{theirs}]"));
        assert_eq!(updated(&map, &entry), format!("[{written}]"), "{key}");
        map.immutable = true;
        assert!(plan(Some(&map), &entry).is_err(), "{key}");
    }
}

#[test]
fn one_csi_proxy_is_enough() {
    let entry = csi_proxy(&[]);
    let ours = serde_json::to_string(&entry).unwrap();
    let twice = ours.replace("csi-proxy\"", "CSI-PROXY\"");
    let error = plan(Some(&config_map(&format!("[{ours},{twice}]"))), &entry).unwrap_err();
    let words = "lists the service csi-proxy twice";
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn flags_that_csi_proxy_does_not_have_are_refused() {
    for bad in ["-overlay=1", r"C:\x.exe", "-v=1 -x"] {
        let error = csi_proxy_flags(&[bad.to_owned()]).unwrap_err();
        assert!(error.to_string().contains("extraArgs"), "{error}");
    }
}

#[test]
fn an_immutable_config_map_is_compared_and_never_written() {
    let entry = csi_proxy(&[]);
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
        Ok(ServicesPlan::Keep { .. })
    ));
}

/// A service as WMCO's own reader takes it.
#[derive(serde::Deserialize)]
struct Service {
    name: String,
    #[serde(default)]
    dependencies: Vec<String>,
    bootstrap: bool,
    priority: u32,
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
    let is_array = |text: &String| serde_json::from_str::<Vec<serde::de::IgnoredAny>>(text).is_ok();
    if data.get("files").is_none_or(|text| !is_array(text)) {
        return Some("files".to_owned());
    }
    services.sort_by_key(|service| service.priority);
    let is_bootstrap = |name: &String| {
        let mut named = services.iter().filter(|service| service.name == *name);
        named.next().is_none_or(|service| service.bootstrap)
    };
    for service in services.iter().filter(|service| service.bootstrap) {
        if !service.dependencies.iter().all(is_bootstrap) {
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
        let written = match plan(existing.as_ref(), &csi_proxy(&[])).unwrap() {
            ServicesPlan::Create(data) => data,
            ServicesPlan::Update { data: changed, .. } => {
                let mut data = data.clone().unwrap_or_default();
                data.extend(changed);
                data
            }
            kept => panic!("the entry is not there: {kept:?}"),
        };
        assert_eq!(wmco_refuses(&written), None, "{data:?}");
        assert!(written["services"].contains("csi-proxy"));
    }
    let not_ours = service("later", true, 2, &[]).to_string();
    let refused = config_map(&wmcos.replace("[{", &format!("[{not_ours},{{")));
    assert_eq!(wmco_refuses(&refused.data).as_deref(), Some("order"));
}
