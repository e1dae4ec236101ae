//! Tests of what a pod's spec shows of a driver.

use std::iter;

use serde_json::json;

use super::*;

fn side(spec: serde_json::Value) -> Option<NodeSide> {
    node_side(&serde_json::from_value(spec).unwrap())
}

#[test]
fn a_known_driver_is_compared_and_not_what_stands_beside_it() {
    let names = |images: &[&str]| {
        let containers: Vec<_> = images.iter().map(|image| json!({"image": image})).collect();
        let volume = json!({"name": "v", "hostPath": {"path": "/var/lib/kubelet/plugins/a.b"}});
        let found = side(json!({"containers": containers, "volumes": [volume]})).unwrap();
        let images = found.images.into_iter();
        images.map(|image| image.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&["x/log:v1.0", "x/smbplugin:v1.2"]), ["smbplugin"]);
    assert!(names(&["x/log:v1.0", "x/smbplugin@sha256:0"]).is_empty());
    assert_eq!(
        names(&["x/log:v1.0", "x/livenessprobe:v2.0", "x/own:1.2"]),
        ["log", "own"]
    );
    let kubelets =
        json!({"name": "v", "hostPath": {"path": "/var/lib/kubelet/plugins/kubernetes.io/csi"}});
    assert_eq!(side(json!({"volumes": [kubelets]})), None);
}

#[test]
fn of_a_spec_with_thousands_of_sockets_and_folders_few_are_taken() {
    let container = |number: usize| {
        let path = format!("/x/{number}.d/{}", "y".repeat(1_000));
        json!({"image": "csi-node-driver-registrar:v2.1", "args": ["--kubelet-registration-path", path]})
    };
    let volume =
        |number: usize| json!({"name": "v", "hostPath": {"path": format!("/plugins/{number}.e")}});
    let containers: Vec<_> = (0..1_000).map(container).collect();
    let long =
        json!({"name": "v", "hostPath": {"path": format!("/plugins/{}", "z".repeat(5_000))}});
    let volumes: Vec<_> = iter::once(long).chain((0..1_000).map(volume)).collect();
    let found = side(json!({"containers": containers, "volumes": volumes})).unwrap();
    assert_eq!((found.names.len(), found.sidecars.len()), (32, 32));
    assert_eq!(found.wrong_paths.len(), 5);
    let mut paths = found.wrong_paths.iter();
    assert!(paths.all(|path| path.len() < 2_000));
}

#[test]
fn only_pipes_of_csi_proxy_count_and_a_plain_pod_is_no_driver() {
    let volume = |path: &str| json!({"name": "v", "hostPath": {"path": path}});
    let found = side(json!({"volumes": [
        volume(r"\\.\pipe\csi-proxy-disk-v1"), volume(r"\\.\pipe\containerd"),
        volume("//./pipe/csi-proxy-filesystem-v1"), volume(r"\\.\pipe\csi-proxy-disk-v1"),
        volume(r"\\\\.\\pipe\\csi-proxy-smb-v1"), volume(r"C:\pipe\csi-proxy-a"), volume(r".\pipe\csi-proxy-b"),
    ]}));
    assert_eq!(
        found.unwrap().csi_proxy_pipes,
        [
            "csi-proxy-disk-v1",
            "csi-proxy-filesystem-v1",
            "csi-proxy-smb-v1"
        ]
    );
    assert_eq!(
        side(json!({"volumes": [volume(r"C:\data")], "containers": [{"image": "web:1.2"}]})),
        None
    );
}

#[test]
fn a_driver_in_host_process_containers_may_use_the_pipes_unless_it_is_known_not_to() {
    let host = json!({"windowsOptions": {"hostProcess": true}});
    let volume = json!({"name": "v", "hostPath": {"path": r"C:\var\lib\kubelet\plugins\a.b"}});
    for line in [
        "mcr.microsoft.com/oss/kubernetes-csi/azuredisk-csi:v1.13.9 true",
        "mcr.microsoft.com/oss/kubernetes-csi/azuredisk-csi:v1.14.0 false",
        "mcr.microsoft.com/oss/kubernetes-csi/azuredisk-csi@sha256:00 true",
        "registry.k8s.io/csi-vsphere/driver:v3.5.0 false",
        "registry.k8s.io/csi-vsphere/driver:v3.4.0 true",
        "registry.redhat.io/openshift4/ose-azure-disk-csi-driver-rhel9:v4.20 true",
        "example.org/own:v9.0.0 true",
    ] {
        let (image, may_use) = line.split_once(' ').unwrap();
        let may_use = may_use == "true";
        let spec = |of_pod: &serde_json::Value, of_container: &serde_json::Value| {
            json!({
                "securityContext": of_pod, "volumes": [volume],
                "containers": [{"image": image, "securityContext": of_container}],
            })
        };
        let none = json!({});
        for (spec, expected) in [
            (spec(&host, &none), may_use),
            (spec(&none, &host), may_use),
            (
                spec(&none, &json!({"windowsOptions": {"hostProcess": false}})),
                false,
            ),
        ] {
            let side = side(spec.clone()).unwrap();
            assert_eq!(side.may_reach_csi_proxy, expected, "{spec}");
        }
    }
    // A container that is not a driver is ignored.
    let logs = json!({"securityContext": host, "containers": [{"image": "logs:v1.0"}]});
    assert_eq!(side(logs), None);
}

#[test]
fn images_without_a_version_are_not_compared() {
    for (image, version) in [
        ("gcr.io/x/driver:v3.0.1", Some((3, 0))),
        ("gcr.io/x/driver:latest", None),
        ("gcr.io:443/x/driver", None),
        ("gcr.io/x/driver:v3.0.1@sha256:00", Some((3, 0))),
    ] {
        let (repository, tag) = split_image(image);
        let found = versioned(drivers::image_name(repository), tag).map(|image| image.version);
        assert_eq!(found, version, "{image}");
    }
}
