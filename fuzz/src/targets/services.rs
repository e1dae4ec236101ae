//! ConfigMap `windows-services`, and paths into Nodes.

use protocol::order::same_name;
use serde_json::Value;
use serde_json::value::RawValue;
use windows_storage_operator::index::ConfigMap;
use windows_storage_operator::services::{NodePath, ServicesPlan, csi_proxy_service, parse, plan};

use super::parts;

const SERVICES: &str = "services";

/// The document: our entry goes in once, and of all else every byte stays.
pub fn services(bytes: &[u8]) {
    let [services, files, environment] = parts::<3>(bytes);
    let given = [
        (SERVICES, services),
        ("files", files),
        ("environmentVars", environment),
    ];
    let given = given.into_iter().filter(|(_, text)| !text.is_empty());
    let before = ConfigMap {
        data: given.map(|(key, text)| (key.to_owned(), text)).collect(),
        immutable: false,
        resource_version: "1".to_owned(),
    };
    let entry = csi_proxy_service(&["-v=3".to_owned()]);
    let parsed = parse(&before.data);
    match plan(Some(&before), &entry) {
        Ok(ServicesPlan::Keep(document)) => {
            assert_eq!(Ok(&document), parsed.as_ref());
            let mut services = document.services.iter();
            let ours = services.find(|service| same_name(&service.name, &entry.name));
            let ours = ours.map(|ours| &ours.path);
            assert_eq!(ours, Some(&entry.path));
        }
        Ok(ServicesPlan::Update {
            data,
            resource_version,
        }) => {
            assert_eq!(resource_version, "1");
            let mut after = before.clone();
            after.data.extend(data);
            same_but_ours(&before, &after, &entry.name);
            match plan(Some(&after), &entry) {
                Ok(ServicesPlan::Keep(_)) => {}
                // The rest of the document was wrong before, and still is.
                Err(_) => assert!(parse(&after.data).is_err()),
                Ok(step) => panic!("once more: {step:?} of {after:?}"),
            }
            let immutable = ConfigMap {
                immutable: true,
                ..before.clone()
            };
            assert!(plan(Some(&immutable), &entry).is_err());
        }
        Ok(ServicesPlan::Create(_)) => panic!("it is there"),
        Err(_) => {}
    }
}

#[derive(serde::Deserialize)]
struct Named {
    name: String,
}

fn same_but_ours(before: &ConfigMap, after: &ConfigMap, ours: &str) {
    for (key, text) in &before.data {
        if key != SERVICES {
            assert_eq!(Some(text), after.data.get(key));
        }
    }
    let text = |map: &ConfigMap| {
        map.data
            .get(SERVICES)
            .map_or("[]".to_owned(), String::clone)
    };
    let (before, after) = (text(before), text(after));
    // Of the others nothing but their names is read: half a surrogate elsewhere is theirs to mend.
    let is_ours = |element: &&RawValue| {
        let named: Named = serde_json::from_str(element.get()).unwrap();
        same_name(&named.name, ours)
    };
    let elements = |text| serde_json::from_str::<Vec<&RawValue>>(text).unwrap();
    let (old, new) = (elements(&before), elements(&after));
    let others = |elements: &[&RawValue]| -> Vec<String> {
        let others = elements.iter().filter(|element| !is_ours(element));
        others.map(|element| element.get().to_owned()).collect()
    };
    assert_eq!(others(&old), others(&new));
    let now = new.iter().find(|element| is_ours(element)).unwrap().get();
    if let Some(then) = old.iter().find(|element| is_ours(element)) {
        // It was changed in its place, and the white space around it stays.
        let start = then.get().as_ptr().addr() - before.as_ptr().addr();
        let end = start + then.get().len();
        let expected = format!("{}{now}{}", &before[..start], &before[end..]);
        assert_eq!(expected, after);
    }
}

/// A path into a Node: what it gives is fit for a command line.
pub fn node_path(bytes: &[u8]) {
    let [path, node] = parts::<2>(bytes);
    let (Ok(path), Ok(node)) = (NodePath::parse(&path), serde_json::from_str::<Value>(&node))
    else {
        return;
    };
    if let Ok(value) = path.value(&node) {
        assert!(!value.is_empty() && value.len() <= 1024, "{value}");
        let is_fit = |char: char| char.is_ascii_graphic() && !"\"'`$%&|<>^;()*?!\\".contains(char);
        assert!(value.chars().all(is_fit), "{value:?}");
    }
}
