//! How OLM goes from one version to the next, and how far OpenShift may go.

use std::path::Path;

use serde_yaml::Value;

use crate::project::{at, later, list, newest, rendered, root, text};

#[test]
fn a_later_release_replaces_and_skips_as_it_says() {
    let mut release = later("7.1.0");
    release.replaces = Some(newest().version);
    release.skip_range = Some(">=0.1.0 <7.1.0".to_owned());
    let (files, csv) = rendered(&release);
    let before = newest().csv_name();
    assert_eq!(text(&csv, "spec/replaces"), before);
    assert_eq!(
        text(&csv, "metadata/annotations/olm.skipRange"),
        ">=0.1.0 <7.1.0"
    );

    let template = &files[Path::new("catalog/template.yaml")];
    let template: Value = serde_yaml::from_str(template).unwrap();
    assert_eq!(text(&template, "schema"), "olm.template.basic");
    let entries = list(&template, "entries");
    let of = |schema: &str| -> Vec<&Value> {
        entries
            .iter()
            .filter(|entry| text(entry, "schema") == schema)
            .collect()
    };
    let [package] = of("olm.package")[..] else {
        panic!("{entries:?}");
    };
    let [channel] = of("olm.channel")[..] else {
        panic!("{entries:?}");
    };
    assert_eq!(text(package, "defaultChannel"), text(channel, "name"));
    let [.., previous, last] = list(channel, "entries") else {
        panic!("{channel:?}");
    };
    assert_eq!(text(previous, "name"), before);
    assert_eq!(text(last, "name"), "windows-storage-operator.v7.1.0");
    assert_eq!(text(last, "replaces"), before);
    assert_eq!(text(last, "skipRange"), ">=0.1.0 <7.1.0");
    assert_eq!(of("olm.bundle").len(), list(channel, "entries").len());
}

#[test]
fn a_first_release_names_no_other() {
    let mut release = newest();
    release.replaces = None;
    release.skip_range = None;
    let (_, csv) = rendered(&release);
    assert!(at(&csv, "spec/replaces").is_null());
    assert!(at(&csv, "metadata/annotations/olm.skipRange").is_null());
}

#[test]
fn the_last_openshift_is_named_only_where_it_is_given_and_as_a_minor_version() {
    let properties = |version: Option<&str>| {
        let mut release = newest();
        release.max_openshift_version = version.map(str::to_owned);
        bundler::render(&root(), &release).map(|files| {
            let text = &files[Path::new("bundle/metadata/properties.yaml")];
            let value: Value = serde_yaml::from_str(text).unwrap();
            list(&value, "properties").to_vec()
        })
    };
    assert_eq!(properties(None).unwrap(), Vec::<Value>::new());
    let properties_of = properties(Some("4.20")).unwrap();
    let [property] = &properties_of[..] else {
        panic!("{properties_of:?}");
    };
    assert_eq!(text(property, "type"), "olm.maxOpenShiftVersion");
    // Text, or 4.20 would be 4.2.
    assert_eq!(text(property, "value"), "4.20");
    for nonsense in ["4", "4.21.3", "v4.21", "4.", "4.x", ""] {
        let error = properties(Some(nonsense)).unwrap_err().to_string();
        assert!(error.contains("MAJOR.MINOR"), "{nonsense}: {error}");
    }
}
