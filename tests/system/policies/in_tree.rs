//! Policies for in-tree volumes, and for storage of in-tree plugins.

use super::*;

#[test]
fn new_in_tree_volumes_for_windows_are_refused() {
    let Some(control_plane) = with_policies(DENY) else {
        return;
    };
    let new = |object: &Value| to_new(&control_plane, object);
    for plugin in &PLUGINS {
        let volume = in_tree(plugin.field);
        let driver = plugin.driver.unwrap_or("none takes over");
        let words = format!("data ({}, CSI driver: {driver})", plugin.field);
        let refused = new(&pod("shop", &windows(&volume)));
        assert!(refused.is_refused(&words), "{refused:?}");
        let refused = new(&class(plugin.name));
        assert!(refused.is_refused("in-tree provisioners"), "{refused:?}");
    }
    let volume = in_tree("azureDisk");
    let with = |member: &str, value: Value| {
        let mut spec = volume.clone();
        spec[member] = value;
        spec
    };
    let affinity = |terms: Value| {
        with(
            "affinity",
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}),
        )
    };
    let os = |values: &[&str]| json!({"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": values}]});
    for (asks, more) in [
        (true, with("os", json!({"name": "windows"}))),
        (
            true,
            with(
                "nodeSelector",
                json!({"node.kubernetes.io/windows-build": "10.0.20348"}),
            ),
        ),
        (
            true,
            with(
                "nodeSelector",
                json!({"kubernetes.azure.com/os-sku": "Windows2022"}),
            ),
        ),
        (true, affinity(json!([os(&["windows"]), os(&["windows"])]))),
        (false, affinity(json!([os(&["windows"]), os(&["linux"])]))),
        (false, affinity(json!([os(&["windows", "linux"])]))),
        (false, with("os", json!({"name": "linux"}))),
        (
            false,
            with("nodeSelector", json!({"kubernetes.io/os": "linux"})),
        ),
        (false, volume.clone()),
    ] {
        for object in [
            pod("shop", &more),
            deployment("shop", &more),
            cron_job("shop", &more),
        ] {
            let said = new(&object);
            assert_eq!(said.is_refused("in-tree volumes"), asks, "{more}: {said:?}");
            assert_eq!(said.is_silent(), !asks, "{more}: {said:?}");
        }
    }
}

#[test]
fn what_has_in_tree_volumes_already_goes_on() {
    let Some(control_plane) = with_policies(DENY) else {
        return;
    };
    let new = |object: &Value| to_new(&control_plane, object);
    let volume = in_tree("azureDisk");
    // Pods that a controller creates do not count as new, and neither do existing objects.
    let mut owned = pod("shop", &windows(&volume));
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "d", "uid": "u", "controller": true}]);
    assert!(new(&owned).is_silent());
    control_plane
        .kubectl(&[
            "delete",
            "validatingadmissionpolicybinding",
            "windows-storage-in-tree-volumes",
        ])
        .unwrap();
    let before = deployment("shop", &windows(&volume));
    eventually("without its binding the policy does nothing", || {
        said(&control_plane, &["create"], Some(&before)).is_taken
    });
    assert!(apply(&control_plane, DENY));
    eventually("it is enforced again", || {
        new(&pod("shop", &windows(&volume))).is_refused("in-tree volumes")
    });
    let scaled = said(
        &control_plane,
        &["scale", "deployment/d", "-n", "shop", "--replicas=2"],
        None,
    );
    assert!(scaled.is_silent(), "{scaled:?}");
    let restarted = said(
        &control_plane,
        &["rollout", "restart", "deployment/d", "-n", "shop"],
        None,
    );
    assert!(restarted.is_silent(), "{restarted:?}");
    let mut more = before.clone();
    let volumes = &mut more["spec"]["template"]["spec"]["volumes"];
    volumes
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "more", "azureFile": {"secretName": "s", "shareName": "s"}}));
    let refused = said(
        &control_plane,
        &["apply", "--server-side", "--force-conflicts"],
        Some(&more),
    );
    assert!(
        refused.is_refused("instead of more (azureFile"),
        "{refused:?}"
    );
}

#[test]
fn persistent_volumes_are_refused_but_not_what_a_class_provisions() {
    let Some(control_plane) = with_policies(DENY) else {
        return;
    };
    let new = |object: &Value| to_new(&control_plane, object);
    let volume = |source: Value, annotations: Value| {
        let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv", "annotations": annotations},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}});
        volume["spec"]
            .as_object_mut()
            .unwrap()
            .extend(source.as_object().unwrap().clone());
        volume
    };
    let disk =
        json!({"azureDisk": {"kind": "Managed", "diskName": "d", "diskURI": "/subscriptions/d"}});
    let refused = new(&volume(disk.clone(), json!({})));
    assert!(refused.is_refused("Use spec.csi"), "{refused:?}");
    let provisioned = json!({"pv.kubernetes.io/provisioned-by": "kubernetes.io/azure-disk"});
    for taken in [
        volume(disk, provisioned),
        volume(
            json!({"csi": {"driver": "disk.csi.azure.com", "volumeHandle": "d"}}),
            json!({}),
        ),
        volume(
            json!({"nfs": {"server": "192.0.2.1", "path": "/"}}),
            json!({}),
        ),
        class("disk.csi.azure.com"),
        class("kubernetes.io/no-provisioner"),
        class("example.com/nfs"),
    ] {
        let taken = new(&taken);
        assert!(taken.is_silent(), "{taken:?}");
    }
}
