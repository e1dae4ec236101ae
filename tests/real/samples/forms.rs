//! The parts of the DaemonSets that must be the same in all samples.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::samples::catalogue::{Sample, all};

/// Replaces doubled separators, which the programs treat as one.
fn plain(path: &str) -> String {
    path.replace(r"\\", r"\")
}

fn container<'a>(spec: &'a Value, name: &str) -> &'a Value {
    let mut containers = spec["containers"].as_array().unwrap().iter();
    containers
        .find(|container| container["name"] == name)
        .unwrap()
}

/// Returns the driver's container, which comes before the two common sidecars.
fn driver(spec: &Value) -> &Value {
    &spec["containers"][0]
}

/// Returns the value of a flag.
fn flag(container: &Value, name: &str) -> Option<String> {
    let mut args = container["args"].as_array().unwrap().iter();
    let prefix = format!("--{name}=");
    args.find_map(|arg| arg.as_str().unwrap().strip_prefix(&prefix))
        .map(plain)
}

fn texts<'a>(list: &'a Value, pointer: &str) -> BTreeSet<&'a str> {
    let items = list.as_array().into_iter().flatten();
    items
        .filter_map(|item| item.pointer(pointer)?.as_str())
        .collect()
}

fn spec(sample: Sample) -> Value {
    sample.daemon_set()["spec"]["template"]["spec"].clone()
}

#[test]
fn every_daemon_set_survives_pressure() {
    for sample in all() {
        let spec = spec(sample);
        assert_eq!(spec["priorityClassName"], "system-node-critical");
        for container in spec["containers"].as_array().unwrap() {
            let resources = &container["resources"];
            assert!(resources["requests"]["cpu"].is_string(), "{container}");
            assert!(resources["limits"]["memory"].is_string(), "{container}");
        }
    }
}

#[test]
fn the_registrar_gives_the_kubelet_the_socket_that_the_driver_listens_on() {
    for sample in all() {
        let at = sample.path();
        let spec = spec(sample);
        let on_host = format!(
            r"C:\var\lib\kubelet\plugins\{}\csi.sock",
            sample.driver.name
        );
        let registrar = container(&spec, "node-driver-registrar");
        let registered = flag(registrar, "kubelet-registration-path");
        assert_eq!(registered.as_ref(), Some(&on_host), "{}", at.display());

        let address = flag(registrar, "csi-address").unwrap();
        let mut variables = driver(&spec)["env"].as_array().unwrap().iter();
        let listens = variables.find(|it| it["name"] == "CSI_ENDPOINT").unwrap();
        let listens = plain(listens["value"].as_str().unwrap());
        let path = |address: &str| {
            let path = address.trim_start_matches("unix:").trim_start_matches("//");
            path.trim_start_matches("C:").replace('/', r"\")
        };
        assert_eq!(path(&address), path(&listens), "{}", at.display());
        let registry = flag(registrar, "plugin-registration-path");
        if sample.is_host_process() {
            // A HostProcess container sees the host's own paths.
            assert_eq!(address, format!("unix://{on_host}"), "{}", at.display());
            let folder = r"C:\var\lib\kubelet\plugins_registry\";
            assert_eq!(registry.as_deref(), Some(folder), "{}", at.display());
        } else {
            assert_eq!(path(&address), r"\csi\csi.sock", "{}", at.display());
            assert_eq!(registry, None, "{}", at.display());
            let mounts = texts(&registrar["volumeMounts"], "/mountPath");
            assert_eq!(mounts, BTreeSet::from([r"C:\csi", r"C:\registration"]));
            let folders = texts(&spec["volumes"], "/hostPath/path");
            assert!(folders.contains(r"C:\var\lib\kubelet\plugins_registry\"));
        }
        let folder = format!(r"C:\var\lib\kubelet\plugins\{}\", sample.driver.name);
        let folders = texts(&spec["volumes"], "/hostPath/path");
        assert!(folders.contains(folder.as_str()), "{}", at.display());
    }
}

#[test]
fn the_liveness_probe_answers_where_the_kubelet_asks() {
    for sample in all() {
        let spec = spec(sample);
        let driver = driver(&spec);
        let [port] = driver["ports"].as_array().unwrap().as_slice() else {
            panic!("{driver}");
        };
        assert_eq!(driver["livenessProbe"]["httpGet"]["path"], "/healthz");
        assert_eq!(driver["livenessProbe"]["httpGet"]["port"], port["name"]);
        let probe = container(&spec, "liveness-probe");
        let answers = flag(probe, "health-port").unwrap();
        assert_eq!(answers, port["containerPort"].to_string());
        let registrar = container(&spec, "node-driver-registrar");
        assert_eq!(flag(probe, "csi-address"), flag(registrar, "csi-address"));
    }
    // Pods in the host's network share its ports.
    let mut ports: Vec<_> = all()
        .filter(|sample| {
            sample.is_host_process() && !["aws-ebs", "vsphere"].contains(&&*sample.driver.folder)
        })
        .map(|sample| driver(&spec(sample))["ports"][0]["containerPort"].as_u64())
        .collect();
    let count = ports.len();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), count, "{ports:?}");
}

/// `check` says which pipes are volumes, and the API server what belongs to a HostProcess container.
#[test]
fn a_driver_works_through_the_pipes_or_on_the_host_and_never_both() {
    for sample in all() {
        let at = sample.path();
        let spec = spec(sample);
        let mounts = texts(&driver(&spec)["volumeMounts"], "/mountPath").into_iter();
        let pipes = mounts.filter_map(|path| path.strip_prefix(r"\\.\pipe\"));
        assert_eq!(
            pipes.collect::<Vec<_>>(),
            sample.form.pipes,
            "{}",
            at.display()
        );
        let options = &spec["securityContext"]["windowsOptions"];
        if sample.is_host_process() {
            assert_eq!(options["runAsUserName"], r"NT AUTHORITY\SYSTEM");
            for container in spec["containers"].as_array().unwrap() {
                // The image's own entrypoint is a path, which would be looked up on the host.
                let program = container["command"][0].as_str().unwrap();
                assert!(
                    !program.contains(['/', '\\']),
                    "{}: {program}",
                    at.display()
                );
            }
        } else {
            assert!(options["hostProcess"].is_null(), "{}", at.display());
            assert!(spec["hostNetwork"].is_null(), "{}", at.display());
            // This folder contains programs of the node.
            let mounts = driver(&spec)["volumeMounts"].as_array().unwrap();
            for mount in mounts.iter().filter(|mount| mount["mountPath"] == r"C:\k") {
                assert_eq!(mount["readOnly"], true, "{}", at.display());
            }
        }
    }
}

#[test]
fn no_account_may_more_than_named_verbs_on_named_kinds() {
    let objects = all().flat_map(|sample| sample.objects());
    for object in objects {
        for rule in object["rules"].as_array().into_iter().flatten() {
            let text = rule.to_string();
            assert!(!text.contains('*'), "{text}");
            if text.contains("\"secrets\"") || text.contains("\"nodes\"") {
                assert_eq!(rule["verbs"], serde_json::json!(["get"]), "{text}");
            }
        }
        // No binding grants access to Secrets in all namespaces.
        if object["kind"] == "ClusterRoleBinding" {
            let bound = object["roleRef"]["name"].as_str().unwrap();
            assert!(!bound.ends_with("-account-keys"), "{bound}");
        }
    }
}
