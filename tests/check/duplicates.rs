//! Objects that are given more than once: the higher resourceVersion counts, else the one that was read later.

use crate::run::{WINDOWS_NODE, check_files};

fn pod(version: Option<&str>, phase: &str, plugin: &str) -> String {
    let version = version.map_or_else(String::new, |version| {
        format!(", resourceVersion: {version:?}")
    });
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: shop{version}}}\nspec: {{nodeName: win-1, volumes: \
         [{{name: data, {plugin}: {{}}}}]}}\nstatus: {{phase: {phase}}}\n"
    )
}

/// The plugins that the rows of the report name.
fn plugins(first: &str, second: &str) -> Vec<String> {
    let in_two_files = check_files(&[
        ("nodes.yaml", WINDOWS_NODE.as_bytes()),
        ("1.yaml", first.as_bytes()),
        ("2.yaml", second.as_bytes()),
    ])
    .json();
    let in_one = format!("{WINDOWS_NODE}\n{first}---\n{second}");
    let in_one = check_files(&[("all.yaml", in_one.as_bytes())]).json();
    assert_eq!(in_one, in_two_files);
    let volumes = in_one["volumes"].as_array().unwrap();
    let plugins = volumes
        .iter()
        .map(|volume| volume["plugin"].as_str().unwrap());
    plugins.map(str::to_owned).collect()
}

#[test]
fn the_higher_version_wins_in_either_order() {
    // By number and not by letter; a version is text to most, but servers count in numbers of any length.
    for (low, high) in [
        ("9", "10"),
        ("41", "42"),
        ("18446744073709551615", "18446744073709551616"),
    ] {
        let old = pod(Some(low), "Running", "azureDisk");
        let new = pod(Some(high), "Running", "cinder");
        for (first, second) in [(&old, &new), (&new, &old)] {
            let plugins = plugins(first, second);
            assert_eq!(plugins, ["kubernetes.io/cinder"], "{low} {high}");
        }
    }
}

#[test]
fn without_versions_the_later_one_wins() {
    for (first, second) in [
        (None, None),
        (Some("7"), None),
        (None, Some("7")),
        (Some("7"), Some("7")),
        (Some("seven"), Some("8")),
    ] {
        let disk = pod(first, "Running", "azureDisk");
        let file = pod(second, "Running", "azureFile");
        assert_eq!(
            plugins(&disk, &file),
            ["kubernetes.io/azure-file"],
            "{first:?} {second:?}"
        );
    }
}

#[test]
fn a_pod_that_has_ended_since_uses_nothing() {
    let running = pod(Some("100"), "Running", "azureDisk");
    for phase in ["Succeeded", "Failed"] {
        let ended = pod(Some("101"), phase, "azureDisk");
        assert!(plugins(&running, &ended).is_empty());
        assert!(plugins(&ended, &running).is_empty());
        // And one that started again under its name does.
        let again = pod(Some("102"), "Running", "azureDisk");
        assert_eq!(plugins(&again, &ended).len(), 1);
    }
}

#[test]
fn a_dump_and_a_later_one_of_a_part_make_one_cluster() {
    let newer = "
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: win-1, resourceVersion: \"9\"}
spec: {drivers: [{name: disk.csi.azure.com, nodeID: win-1, topologyKeys: null}]}
";
    let older = newer
        .replace("\"9\"", "\"8\"")
        .replace("disk.csi", "file.csi");
    for order in [[older.as_str(), newer], [newer, older.as_str()]] {
        let report = check_files(&[
            ("nodes.yaml", WINDOWS_NODE.as_bytes()),
            ("a.yaml", order[0].as_bytes()),
            ("b.yaml", order[1].as_bytes()),
        ])
        .json();
        assert_eq!(report["nodes"][0]["drivers"][0], "disk.csi.azure.com");
    }
}

#[test]
fn names_are_of_a_namespace_and_a_kind() {
    let mut other = pod(Some("1"), "Running", "cinder");
    other = other.replace("namespace: shop", "namespace: bank");
    assert_eq!(
        plugins(&pod(Some("2"), "Running", "azureDisk"), &other).len(),
        2
    );
    // A manifest without a namespace is of the one that kubectl takes.
    let plain = pod(None, "Running", "cinder").replace(", namespace: shop", "");
    let default = plain.replace("name: web", "name: web, namespace: default");
    assert_eq!(plugins(&plain, &default).len(), 1);
}
