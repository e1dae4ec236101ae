//! Policies for in-tree volumes, and for storage of in-tree plugins.

use super::*;

#[test]
fn new_in_tree_volumes_for_windows_are_refused() {
    let Some(control_plane) = enforced() else {
        return;
    };
    let new = |object: &Value| to_new(control_plane, object);
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
    let binding = "validatingadmissionpolicybinding windows-storage-in-tree-volumes";
    assert!(said_of(&control_plane, &format!("delete {binding}")).is_taken);
    let before = deployment("shop", &windows(&volume));
    eventually("without its binding the policy does nothing", || {
        said(&control_plane, &["create"], Some(&before)).is_taken
    });
    assert!(apply(&control_plane, DENY));
    eventually("it is enforced again", || {
        new(&pod("shop", &windows(&volume))).is_refused("in-tree volumes")
    });
    let scaled = said_of(&control_plane, "scale deployment/d -n shop --replicas=2");
    assert!(scaled.is_silent(), "{scaled:?}");
    let restarted = said_of(&control_plane, "rollout restart deployment/d -n shop");
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
fn old_in_tree_volumes_count_when_an_object_newly_asks_for_windows() {
    let Some(control_plane) = with_policies(DENY) else {
        return;
    };
    let volume = in_tree("azureDisk");
    // The node selector of a pod can be extended before its scheduling.
    let mut gated = pod("shop", &volume);
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/later"}]);
    let selector = json!({"nodeSelector": {"kubernetes.io/os": "windows"}});
    let template = json!({"template": {"spec": selector.clone()}});
    for (object, name, change) in [
        (
            deployment("shop", &volume),
            "deployment/d",
            template.clone(),
        ),
        (
            cron_job("shop", &volume),
            "cronjob/j",
            json!({"jobTemplate": {"spec": template}}),
        ),
        (gated, "pod/p", selector),
    ] {
        let created = said(&control_plane, &["create"], Some(&object));
        assert!(created.is_silent(), "{created:?}");
        let patch = |change: &Value| {
            let change = change.to_string();
            let patch = ["patch", name, "-n", "shop", "--type=merge", "-p", &change];
            said(&control_plane, &patch, None)
        };
        let labelled = patch(&json!({"metadata": {"labels": {"a": "b"}}}));
        assert!(labelled.is_silent(), "{labelled:?}");
        let refused = patch(&json!({"spec": change}));
        assert!(
            refused.is_refused("instead of data (azureDisk"),
            "{name}: {refused:?}"
        );
    }
}

#[test]
fn persistent_volumes_are_refused_but_not_what_a_class_provisions() {
    let Some(control_plane) = enforced() else {
        return;
    };
    let new = |object: &Value| to_new(control_plane, object);
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
    // What is provisioned is written by a ServiceAccount.
    let provisioned = volume(
        disk,
        json!({"pv.kubernetes.io/provisioned-by": "kubernetes.io/azure-disk"}),
    );
    let refused = new(&provisioned);
    assert!(refused.is_refused("Use spec.csi"), "{refused:?}");
    let binder = "system:serviceaccount:kube-system:persistent-volume-binder";
    let taken = by(control_plane, (binder, &[]), &provisioned);
    assert!(taken.is_silent(), "{taken:?}");
    for taken in [
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
