//! Objects that are given more than once: the higher resourceVersion counts, otherwise the one that was read last.

use serde_json::json;

use crate::run::{WINDOWS_NODE, check_files};

/// Returns a pod with this version, phase and plugin.
fn pod(written: &str) -> String {
    let [version, phase, plugin] = written.split(' ').collect::<Vec<_>>()[..] else {
        unreachable!("{written}");
    };
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"nodeName": "win-1", "volumes": [{"name": "data", plugin: {}}]}, "status": {"phase": phase}});
    if version != "-" {
        pod["metadata"]["resourceVersion"] = version.into();
    }
    pod.to_string()
}

#[test]
fn of_one_pod_three_times_the_newest_counts_also_where_one_has_no_version() {
    let pods = [
        "9 Running azureDisk",
        "- Running azureDisk",
        "3 Succeeded azureDisk",
    ]
    .map(pod);
    let all = format!(
        "{WINDOWS_NODE}\n{}",
        pods.map(|pod| format!("---\n{pod}\n")).concat()
    );
    let report = check_files(&[("all.yaml", all.as_bytes())]).judgement();
    assert_eq!(report["volumes"].as_array().unwrap().len(), 1, "{report}");
}

#[test]
fn of_one_pod_twice_the_newer_one_counts_in_one_file_and_in_two() {
    let cases: Vec<(String, String, Option<String>)> =
        serde_yaml::from_str(include_str!("duplicates.yaml")).unwrap();
    for (first, second, plugin) in cases {
        let pods = [pod(&first), pod(&second)];
        let two = check_files(&[
            ("nodes.yaml", WINDOWS_NODE.as_bytes()),
            ("1.yaml", pods[0].as_bytes()),
            ("2.yaml", pods[1].as_bytes()),
        ]);
        let all = format!("{WINDOWS_NODE}\n{}\n---\n{}", pods[0], pods[1]);
        let report = check_files(&[("all.yaml", all.as_bytes())]).judgement();
        assert_eq!(report, two.judgement(), "{first}, {second}");
        let volumes = report["volumes"].as_array().unwrap().iter();
        let plugins: Vec<_> = volumes.map(|volume| volume["plugin"].clone()).collect();
        let expected = plugin.map(|plugin| json!(format!("kubernetes.io/{plugin}")));
        assert_eq!(plugins, Vec::from_iter(expected), "{first}, {second}");
    }
}
