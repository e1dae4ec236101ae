//! The policies of `manifests/policies/upgrades`: what upgrades the cluster is refused while the verdict holds upgrades.

use testbed::objects;

use super::targets::{
    self, ANYWAY, CHANNEL, OPENSHIFT, anyway, core, harmless, kubeadm, order, plan, plans, upgrades,
};
use super::*;
use crate::cluster::harness::SETTINGS;

const POLICIES: [&str; 4] = [
    "openshift",
    "system-upgrade-controller",
    "cluster-api",
    "rancher",
];

/// Applies all policies. Returns false if the API server does not support policies.
fn apply_all(control_plane: &ControlPlane) -> bool {
    POLICIES
        .iter()
        .all(|folder| apply(control_plane, &format!("{WARN}/upgrades/{folder}")))
}

/// Returns the answer to a change as a dry run: `None` if it passes, otherwise the policy's message.
fn refusal(control_plane: &ControlPlane, path: &str, change: &Value) -> Option<String> {
    let path = format!("/apis/{path}?dryRun=All");
    let error = format!("{:#}", control_plane.patch(&path, change).err()?);
    assert!(error.contains("denied request"), "{path} {change}: {error}");
    Some(error)
}

struct Held(ControlPlane);

impl Held {
    /// Writes the verdict, in place of an operator.
    fn say(&self, status: &str, message: &str) {
        let condition = json!({"type": "Upgradeable", "status": status, "reason": "DriversMissing", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        self.write(&json!({"conditions": [condition], "heldSinceVersion": "v1.30.4+rke2r1"}));
    }

    fn write(&self, status: &Value) {
        let path = "/apis/windowsstorage.dev/v1alpha1/windowsstorages/cluster/status";
        self.0.patch(path, &json!({"status": status})).unwrap();
    }

    fn refusal(&self, path: &str, change: &Value) -> Option<String> {
        refusal(&self.0, path, change)
    }

    /// Waits until all upgrades are refused, or none is.
    fn expect(&self, is_held: bool, why: &str) {
        let upgrades = upgrades();
        eventually(why, || {
            let mut upgrades = upgrades.iter();
            upgrades.all(|(path, change, _)| self.refusal(path, change).is_some() == is_held)
        });
    }
}

#[test]
fn while_the_verdict_holds_upgrades_no_target_takes_another_minor_version() {
    let held = Held(ControlPlane::start().unwrap());
    targets::install(&held.0);
    if !apply_all(&held.0) {
        return;
    }
    held.expect(false, "nobody knows the operator's kinds");
    sandbox::install(&held.0).unwrap();
    held.expect(false, "there is no verdict");
    held.0
        .apply(&objects::settings(22, "Administrator"))
        .unwrap();
    held.expect(false, "the verdict has no status yet");
    held.say(
        "False",
        "pod shop/web-0: PersistentVolume pv-orders needs disk.csi.azure.com, missing on win-1",
    );
    held.expect(true, "every policy is enforced");
    for (path, change) in harmless() {
        assert_eq!(held.refusal(&path, &change), None, "{path} {change}");
    }
    messages_say_what_to_do(&held);
    orders_of_an_unknown_version_are_held(&held);
    plans_are_held_by_the_version_of_the_cluster(&held);

    held.say(
        "False",
        &format!("node {}: the CSINode is missing", "ä".repeat(9_000)),
    );
    held.expect(true, "a long message is no way around");
    let (path, change, _) = &upgrades()[0];
    let said = held.refusal(path, change).unwrap();
    assert!(
        said.contains("is held: node ää") && said.contains(&format!("{ANYWAY}=4.18.3")),
        "{said}"
    );

    held.say("True", "every driver is registered");
    held.expect(false, "the verdict allows upgrades");
    held.say("False", "");
    held.expect(true, "without a message they are held as well");
    held.write(&json!({"conditions": []}));
    held.expect(false, "the verdict is not there yet");
    held.say("False", "missing");
    held.expect(true, "it is there");
    held.0
        .kubectl(&["delete", "windowsstorage", "cluster"])
        .unwrap();
    held.expect(false, "the object is gone");
    types_are_right(&held.0, POLICIES.len());
}

fn messages_say_what_to_do(held: &Held) {
    for (path, change, version) in upgrades() {
        let said = held.refusal(&path, &change).unwrap();
        assert!(said.contains("is held: pod shop/web-0: PersistentVolume pv-orders needs disk.csi.azure.com, missing on win-1"), "{said}");
        assert!(
            said.contains("run windows-storage-operator check"),
            "{said}"
        );
        let Some((_, command)) = said.split_once("first run: kubectl ") else {
            assert!(
                said.contains(&format!("the annotation {ANYWAY}: {version}")),
                "{said}"
            );
            continue;
        };
        let command = command.split('"').next().unwrap();
        let annotated = said_of(&held.0, command);
        assert!(annotated.is_taken, "{command}: {annotated:?}");
        assert_eq!(held.refusal(&path, &change), None, "after {command}");
        let undone = command.split('=').next().unwrap().to_owned() + "-";
        assert!(said_of(&held.0, &undone).is_taken, "{undone}");
        assert!(held.refusal(&path, &change).is_some(), "after {undone}");
    }
    // An annotation for another version is none for this.
    let (path, change, _) = upgrades().swap_remove(0);
    assert!(held.refusal(&path, &anyway(change, "4.18.2")).is_some());
}

fn orders_of_an_unknown_version_are_held(held: &Held) {
    // The address of a registry may look like a version.
    for image in ["quay.io/ocp@sha256:cc", "3.12.0.5:5000/ocp@sha256:cc"] {
        let by_image = json!({"spec": {"desiredUpdate": {"image": image, "version": ""}}});
        let said = held.refusal(OPENSHIFT, &by_image).unwrap();
        let told = format!("the upgrade to {image} is held");
        assert!(said.contains(&told), "{said}");
        assert_eq!(held.refusal(OPENSHIFT, &anyway(by_image, image)), None);
    }
    for version in ["4.18.0-rc.1", "4.18.0-0.nightly-2026-08-01-000000", "5.0.1"] {
        assert!(
            held.refusal(OPENSHIFT, &order(version)).is_some(),
            "{version}"
        );
    }
}

/// A new Plan says nothing of before, and a changed one may be older than the cluster.
fn plans_are_held_by_the_version_of_the_cluster(held: &Held) {
    let new = |version: &str| to_new(&held.0, &plan(&json!({"version": version})));
    for version in [
        "v1.31.2+rke2r1",
        "v1.31.2-rke2r1",
        "v1.31.2-rc1+k3s1",
        "v2.0.0+k3s1",
    ] {
        let refused = new(version);
        assert!(
            refused.is_refused("needs disk.csi.azure.com"),
            "{version}: {refused:?}"
        );
    }
    for version in [
        "v1.30.4+rke2r1",
        "v1.29.1+k3s1",
        "v1.31.2",
        "22.04",
        "latest",
    ] {
        assert!(new(version).is_silent(), "{version}");
    }
    let channel = json!({"channel": "https://update.k3s.io/v1-release/channels/latest"});
    assert!(to_new(&held.0, &plan(&channel)).is_silent());
    let anyway = anyway(
        plan(&json!({"version": "v1.31.2+rke2r1"})),
        "v1.31.2+rke2r1",
    );
    assert!(to_new(&held.0, &anyway).is_silent());
    // The cluster was upgraded by other means.
    held.write(&json!({"upgradedWhileHeld": {"from": "v1.30.4", "to": "v1.31.2"}}));
    eventually("what the cluster has is no upgrade", || {
        new("v1.31.9+rke2r1").is_silent()
    });
    let change = json!({"spec": {"version": "v1.31.9+rke2r1"}});
    assert_eq!(held.refusal(&plans("server"), &change), None);
    assert!(new("v1.32.0+rke2r1").is_refused("is held"));
    // Unread: nobody knows the cluster's version, but the Plan's own.
    held.write(&json!({"upgradedWhileHeld": null, "heldSinceVersion": null}));
    eventually("a new Plan is held", || {
        new("v1.30.4+rke2r1").is_refused("is held")
    });
    let change = json!({"spec": {"version": "v1.30.9+rke2r1"}});
    assert_eq!(held.refusal(&plans("server"), &change), None);
    held.write(&json!({"heldSinceVersion": "v1.30.4+rke2r1"}));
}

#[test]
fn an_upgrade_begins_when_the_driver_is_there_and_goes_on_whatever_is_missing_then() {
    let sandbox = Sandbox::start().unwrap();
    targets::install(&sandbox.control_plane);
    if !apply_all(&sandbox.control_plane) {
        return;
    }
    let payload = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/payload");
    let binary = Path::new(env!("CARGO_BIN_EXE_windows-storage-operator"));
    let harness = Harness::with(sandbox, binary, &payload);
    harness.sandbox.add_node("win-1", None).unwrap();
    harness.register("win-1", false);
    harness.apply(&objects::azure_disk_workload("win-1"));
    let control_plane = harness.control_plane();
    let all = |is_held: bool, message: &str| {
        upgrades().iter().all(|(path, change, _)| {
            let said = refusal(control_plane, path, change);
            said.is_some() == is_held && said.is_none_or(|said| said.contains(message))
        })
    };
    let operator = harness.start_without_olm();
    let missing = "pod shop/web-0: PersistentVolume pv-orders (kubernetes.io/azure-disk) needs disk.csi.azure.com, missing on win-1";
    harness.eventually("every upgrade is refused", || all(true, missing));
    harness.register("win-1", true);
    harness.eventually("every upgrade passes", || all(false, ""));

    // They begin, and then the driver is gone.
    for (path, change, _) in upgrades() {
        control_plane
            .patch(&format!("/apis/{path}"), &change)
            .unwrap();
    }
    let desired =
        json!({"status": {"desired": {"version": "4.18.3", "image": "quay.io/ocp@sha256:bb"}}});
    let write = format!("/apis/{OPENSHIFT}/status");
    control_plane.patch(&write, &desired).unwrap();
    harness.register("win-1", false);
    harness.expect(SETTINGS, "Upgradeable", "False", "DriversMissing");
    let next = order("4.19.1");
    harness.eventually("the next upgrade is refused", || {
        refusal(control_plane, OPENSHIFT, &next).is_some()
    });
    for (path, change) in [
        (
            format!("{OPENSHIFT}/status"),
            json!({"status": {"observedGeneration": 2}}),
        ),
        (OPENSHIFT.to_owned(), order("4.18.4")),
        (OPENSHIFT.to_owned(), order("4.17.5")),
        (
            format!("{}/status", plans("server")),
            json!({"status": {"latestVersion": "v1.99.2-rke2r1", "applying": ["win-1"]}}),
        ),
        (
            plans("server"),
            json!({"spec": {"version": "v1.99.3+rke2r1"}}),
        ),
        (
            CHANNEL.to_owned(),
            json!({"status": {"latestVersion": "v1.99.3-rke2r1"}}),
        ),
        (
            core("clusters/c"),
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"topology": {"version": "v1.99.3"}}}),
        ),
        (kubeadm("owned"), json!({"spec": {"version": "v1.99.2"}})),
        (kubeadm("c"), json!({"spec": {"replicas": 1}})),
    ] {
        assert_eq!(
            refusal(control_plane, &path, &change),
            None,
            "{path} {change}"
        );
    }
    // Whoever takes the operator away takes its verdict away.
    operator.terminate().unwrap();
    harness.kubectl("delete crd windowsstorages.windowsstorage.dev");
    harness.eventually("nothing is held", || {
        refusal(control_plane, OPENSHIFT, &next).is_none()
    });
}
