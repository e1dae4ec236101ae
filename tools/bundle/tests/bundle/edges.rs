//! How OLM upgrades from one version to the next, and how far OpenShift may be upgraded.

use std::path::Path;

use serde_yaml::Value;

use crate::project::{at, list, newest, rendered, root, text};

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
    let given = properties(Some("4.20")).unwrap();
    assert_eq!(given.len(), 1);
    assert_eq!(text(&given[0], "type"), "olm.maxOpenShiftVersion");
    // A string, because the number 4.20 would be 4.2.
    assert_eq!(text(&given[0], "value"), "4.20");
    assert_eq!(text(&properties(Some("5.0")).unwrap()[0], "value"), "5.0");
    for nonsense in [
        "4", "4.21.3", "v4.21", "4.", "4.x", "+4.21", "5", "5.0.3", "05.0", "4.021", "",
    ] {
        let error = properties(Some(nonsense)).unwrap_err().to_string();
        assert!(error.contains("MAJOR.MINOR"), "{nonsense}: {error}");
    }
}
