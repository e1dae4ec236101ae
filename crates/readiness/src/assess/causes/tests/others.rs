//! Findings that are not on the way of a driver to a node.

use super::*;
use crate::assess::codes;

fn advice_at(kubelet: &str, field: &str, source: Value, driver: &str) -> Vec<Finding> {
    let objects = [node(kubelet, &[]), csi_node(&[]), user(field, source)];
    of_driver(&report(&objects), driver).to_vec()
}

#[test]
fn the_advice_on_a_driver_follows_the_clusters_version() {
    let azure = || json!({"secretName": "s", "shareName": "s"});
    let file = "file.csi.azure.com";
    let object = "CSIDriver/file.csi.azure.com";
    for (kubelet, code, word) in [
        ("v1.25.4", codes::IN_TREE_RECOMMENDED, "OpenShift 4.13"),
        (
            "v1.26.1",
            codes::CSI_RECOMMENDED,
            "gone from Kubernetes 1.30",
        ),
        ("v1.30.1", codes::PLUGIN_REMOVED, "no in-tree plugin"),
    ] {
        says(
            &advice_at(kubelet, "azureFile", azure(), file),
            code,
            object,
            &[word],
        );
    }
    let vsphere = || json!({"volumePath": "p"});
    let found = advice_at("v1.26.1", "vsphereVolume", vsphere(), VSPHERE);
    let words = ["CSIWithMigrationDriver", "8.0.1-22088125"];
    says(
        &found,
        codes::CSI_OPT_IN,
        "CSIDriver/csi.vsphere.vmware.com",
        &words,
    );
    let found = advice_at("v1.27.1", "vsphereVolume", vsphere(), VSPHERE);
    says!(&found => CSI_RECOMMENDED, "CSIDriver/csi.vsphere.vmware.com", "7.0.3-21424296");
    silent(&found, codes::CSI_OPT_IN);
}

#[test]
fn data_that_no_driver_takes_over_moves_with_a_warning_where_it_may_be_lost() {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "shop", "name": "data"},
        "spec": {"volumeName": "pv-1"},
    });
    let volume = |policy: &str| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"},
            "spec": {"rbd": {"image": "i"}, "persistentVolumeReclaimPolicy": policy},
        })
    };
    let found = |policy| {
        let pod = user("persistentVolumeClaim", json!({"claimName": "data"}));
        report(&[
            node("v1.30.4", &[]),
            csi_node(&[]),
            pod,
            claim.clone(),
            volume(policy),
        ])
        .findings
    };
    let object = "PersistentVolumeClaim/shop/data";
    let lost = found("Delete");
    says!(&lost => DATA_MUST_MOVE, object, "kubernetes.io/rbd", "1.31", "pv-migrate", "Warning",
        "kubectl patch pv pv-1");
    let kept = found("Retain");
    says(&kept, codes::DATA_MUST_MOVE, object, &["smb.csi.k8s.io"]);
    assert!(!kept[0].message.contains("Warning"));
    let inline = report(&[
        node("v1.30.4", &[]),
        csi_node(&[]),
        user("cephfs", json!({"monitors": []})),
    ]);
    says!(&inline.findings => DATA_MUST_MOVE, "Pod/shop/web-0", "volume data of Pod/shop/web-0");
    silent(&report(&start()).findings, codes::DATA_MUST_MOVE);
}

#[test]
fn what_dangles_is_named() {
    let claim = |spec: Value| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "shop", "name": "data"},
            "spec": spec,
        })
    };
    let found = |objects: &[Value]| {
        let pod = user("persistentVolumeClaim", json!({"claimName": "data"}));
        let start = vec![node("v1.30.4", &[]), csi_node(&[]), pod];
        report(&with(start, objects)).findings
    };
    let object = "PersistentVolumeClaim/shop/data";
    says!(&found(&[]) => PERSISTENT_VOLUME_CLAIM_NOT_FOUND, object, "create it");
    let bound = claim(json!({"volumeName": "pv-1"}));
    says!(&found(&[bound]) => PERSISTENT_VOLUME_NOT_FOUND, object, "pv-1");
    let of_class = claim(json!({"storageClassName": "gone"}));
    says!(&found(&[of_class]) => STORAGE_CLASS_NOT_FOUND, "StorageClass/gone", "create it");
}

#[test]
fn an_owner_that_is_its_own_controller_is_named() {
    let owner = |name: &str, of: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"namespace": "shop", "name": name, "uid": name, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": of, "uid": of, "controller": true},
            ]},
            "spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "windows"}}}},
        })
    };
    let found = report_with(&[owner("a", "b"), owner("b", "a")]).findings;
    let circles = found
        .iter()
        .filter(|finding| finding.code == codes::OWNER_CIRCLE);
    let objects: Vec<&str> = circles.map(|finding| &*finding.object).collect();
    assert_eq!(objects, ["ReplicaSet/shop/a", "ReplicaSet/shop/b"]);
    let found = report_with(&[owner("a", "gone")]).findings;
    silent(&found, codes::OWNER_CIRCLE);
}

#[test]
fn a_csi_proxy_of_another_owner_as_a_daemon_set_is_named_and_an_old_one_warned_of() {
    let set = |image: &str| daemon_set("kube-system", "csi-proxy", image);
    let object = "DaemonSet/kube-system/csi-proxy";
    let found =
        report_with(&[set("ghcr.io/kubernetes-sigs/sig-windows/csi-proxy:v1.0.2")]).findings;
    says!(&found => CSI_PROXY_DAEMON_SET, object, "v1.0.2", "External");
    says!(&found => CSI_PROXY_VULNERABLE, object, "CVE-2023-3893", "1.1.3");
    for image in ["example.org/csi-proxy:v1.1.3", "example.org:5000/csi-proxy"] {
        let found = report_with(&[set(image)]).findings;
        says(&found, codes::CSI_PROXY_DAEMON_SET, object, &[]);
        assert!(
            found
                .iter()
                .all(|finding| finding.code != codes::CSI_PROXY_VULNERABLE),
            "{image}"
        );
    }
    let elsewhere = linux(set("example.org/csi-proxy:v1.0.2"));
    assert!(report_with(&[elsewhere]).findings.is_empty());
    let other = set("example.org/csi-proxy-tools:v1.0.2");
    assert!(report_with(&[other]).findings.is_empty());
}
