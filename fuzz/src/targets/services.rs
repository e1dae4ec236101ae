//! ConfigMap `windows-services`.

use protocol::command::same_name;
use serde_json::value::RawValue;
use windows_storage_operator::index::ConfigMap;
use windows_storage_operator::services::{Entry, ServicesPlan, plan};

use super::parts;

const SERVICES: &str = "services";

/// The document: our entry goes in once, and of all else every byte stays.
pub fn services(bytes: &[u8]) {
    let [services, files] = parts::<2>(bytes);
    let given = [(SERVICES, services), ("files", files)];
    let given = given.into_iter().filter(|(_, text)| !text.is_empty());
    let before = ConfigMap {
        data: given.map(|(key, text)| (key.to_owned(), text)).collect(),
        immutable: false,
        resource_version: "1".to_owned(),
    };
    let entry = Entry::of(&["-v=3".to_owned()]);
    match plan(Some(&before), &entry) {
        Ok(ServicesPlan::Keep { .. }) => {
            let ours = [(SERVICES.to_owned(), "[]".to_owned())];
            let without = ConfigMap {
                data: ours.into(),
                ..before
            };
            let added = plan(Some(&without), &entry);
            assert!(
                matches!(added, Ok(ServicesPlan::Update { .. })),
                "{added:?}"
            );
        }
        Ok(ServicesPlan::Update {
            data,
            resource_version,
        }) => {
            assert_eq!(resource_version, "1");
            let mut after = before.clone();
            after.data.extend(data);
            same_but_ours(&before, &after, &entry.name);
            let again = plan(Some(&after), &entry);
            let is_kept = matches!(again, Ok(ServicesPlan::Keep { .. }));
            assert!(is_kept, "once more: {again:?} of {after:?}");
            let immutable = ConfigMap {
                immutable: true,
                ..before.clone()
            };
            assert!(plan(Some(&immutable), &entry).is_err());
        }
        Ok(step) => panic!("it is there: {step:?}"),
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
        let named: Result<Named, _> = serde_json::from_str(element.get());
        named.is_ok_and(|named| same_name(&named.name, ours))
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
