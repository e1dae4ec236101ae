//! From a claim to what it needs.

use super::{
    Case, annotated, asking, case, claim, class, csi_node, linux, object, owner, persistent_volume,
    pod_on, pod_with_claim, windows,
};
use crate::oracle::cluster::{CSI_DRIVER, DEPLOYMENT};
use crate::oracle::volumes::{DEAD, PLUGINS};
use serde_json::{Value, json};

const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const BETA_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
const BETA_DEFAULT: &str = "storageclass.beta.kubernetes.io/is-default-class";
const EBS: &str = "kubernetes.io/aws-ebs";
const DISK: &str = "kubernetes.io/azure-disk";

/// The pod with the claim `data` on the only Windows node, and these.
fn claimed(others: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut objects = vec![windows("win-1"), pod_with_claim()];
    objects.extend(others);
    objects
}

fn bound_claim(class: &str) -> Value {
    claim(
        "data",
        json!({"volumeName": "pv-1", "storageClassName": class}),
    )
}

fn no_row() -> Value {
    json!({"volumes": [], "findings": []})
}

fn of_class(class: &str) -> Value {
    claim("data", json!({"storageClassName": class}))
}

pub fn cases() -> Vec<Case> {
    let mut cases = tables();
    cases.extend(bound());
    cases.extend(classes());
    cases.extend(gone_classes());
    cases.extend(provisioners());
    cases.extend(ephemeral());
    cases
}

fn tables() -> Vec<Case> {
    let mut cases = Vec::new();
    for (plugin, field, driver) in PLUGINS {
        let expected =
            json!({"volumes": [{"plugin": plugin, "csiDriver": driver, "inTree": true}]});
        let volume = json!({"name": "data", field: {}});
        cases.push(
            case!("a plugin inline": [windows("win-1"), pod_on("win-1", "web-0", volume)]
            => expected.clone()),
        );
        let spec = json!({"volumeName": "pv-1"});
        let bound = [
            claim("data", spec),
            persistent_volume("pv-1", json!({field: {}})),
        ];
        cases.push(case!("a plugin in a PersistentVolume": claimed(bound) => expected.clone()));
        cases.push(case!("a plugin in a class": claimed([of_class("std"), class("std", plugin)]) => expected));
    }
    for field in DEAD {
        let plugin = format!("kubernetes.io/{}", field.to_lowercase());
        let expected = json!({"verdict": {"reason": "NoCSIMigration"}, "volumes": [{"plugin": plugin, "csiDriver": null, "inTree": true}]});
        let volume = json!({"name": "data", field: {}});
        cases.push(
            case!("a dead type inline": [windows("win-1"), pod_on("win-1", "web-0", volume)]
            => expected.clone()),
        );
        cases.push(case!("a dead type in a class": claimed([of_class("std"), class("std", &plugin)]) => expected));
    }
    for field in [
        "nfs",
        "iscsi",
        "fc",
        "hostPath",
        "local",
        "emptyDir",
        "flexVolume",
        "configMap",
    ] {
        let volume = json!({"name": "data", field: {}});
        cases.push(
            case!("a type that is not meant": [windows("win-1"), pod_on("win-1", "web-0", volume)]
            => no_row()),
        );
    }
    cases
}

fn bound() -> Vec<Case> {
    let to = |spec: Value| [bound_claim("std"), persistent_volume("pv-1", spec)];
    let cinder = || persistent_volume("pv-1", json!({"cinder": {}}));
    vec![
        case!("a bound claim": claimed(to(json!({"azureDisk": {}})))
            => json!({"volumes": [{"source": "PersistentVolume", "persistentVolumeClaim": "data",
                "persistentVolume": "pv-1", "storageClass": "std", "plugin": DISK, "missingOn": ["win-1"],
                "blocking": true}],
                "verdict": {"messageEnd": "pod shop/web-0: PersistentVolume pv-1 (kubernetes.io/azure-disk) needs disk.csi.azure.com, missing on win-1"}})),
        case!("a bound claim of a type that is not meant": claimed(to(json!({"nfs": {}}))) => no_row()),
        case!("a PersistentVolume with csi is not in-tree whatever its annotations say":
            claimed([claim("data", json!({"volumeName": "pv-1"})), annotated(persistent_volume("pv-1",
                json!({"csi": {"driver": "x.example.com", "volumeHandle": "h"}})),
                "pv.kubernetes.io/provisioned-by", EBS)])
            => json!({"volumes": [{"plugin": null, "csiDriver": "x.example.com", "inTree": false,
                "storageClass": null}], "verdict": {"reason": "NoInTreeVolumes"}})),
        case!("the volume's name decides, also where it is gone":
            claimed([bound_claim("std"), class("std",
                EBS)])
            => json!({"volumes": [], "findings": [["PersistentVolumeNotFound",
                "PersistentVolumeClaim/shop/data"]]})),
        case!("a claim that is not there": claimed([])
            => json!({"volumes": [], "findings": [["PersistentVolumeClaimNotFound",
                "PersistentVolumeClaim/shop/data"]]})),
        case!("the class of a bound claim is the annotation's first":
            claimed([annotated(bound_claim("std"),
                CLASS, "old"), cinder()])
            => json!({"volumes": [{"storageClass": "old"}]})),
        case!("a bound claim without class has no default class":
            claimed([claim("data", json!({"volumeName": "pv-1"})), cinder(), annotated(class("std", EBS),
                DEFAULT, "true")])
            => json!({"volumes": [{"storageClass": null}]})),
        case!("an empty volume name is none":
            claimed([claim("data", json!({"volumeName": "", "storageClassName": "std"})), class("std",
                EBS)])
            => json!({"volumes": [{"source": "StorageClass", "plugin": EBS}], "findings": []})),
        case!("a bound claim has no default class, and an empty one is none":
            claimed([bound_claim(""), cinder(),
                annotated(class("std", EBS), DEFAULT, "true")])
            => json!({"volumes": [{"storageClass": null, "plugin": "kubernetes.io/cinder"}]})),
    ]
}

fn classes() -> Vec<Case> {
    let row = |class: &str, plugin: &str| {
        json!({"volumes": [{"source": "StorageClass", "persistentVolumeClaim": "data", "persistentVolume": null,
            "storageClass": class, "plugin": plugin}], "findings": []})
    };
    let default = |name: &str, plugin: &str, created: Option<&str>| {
        let mut class = annotated(class(name, plugin), DEFAULT, "true");
        class["metadata"]["creationTimestamp"] = json!(created);
        class
    };
    let unsaid = || claim("data", json!({}));
    let early = Some("2026-01-01T00:00:00Z");
    let late = Some("2026-02-01T00:00:00Z");
    vec![
        case!("the annotation wins over the class":
            claimed([annotated(of_class("b"), CLASS, "a"), class("a", EBS), class("b", DISK)])
            => row("a", EBS)),
        case!("an empty class": claimed([of_class(""), default("a", EBS, late)]) => no_row()),
        case!("an empty annotation": claimed([annotated(of_class("a"), CLASS, ""), class("a", EBS)])
            => no_row()),
        case!("no class and no default": claimed([unsaid(), class("a", EBS)]) => no_row()),
        case!("the default class": claimed([unsaid(), default("a", EBS, None)]) => row("a", EBS)),
        case!("the default class by its beta":
            claimed([unsaid(), annotated(class("a", EBS), BETA_DEFAULT, "true")])
            => row("a", EBS)),
        case!("a class marked as no default":
            claimed([unsaid(), annotated(class("a", EBS), DEFAULT, "false")])
            => no_row()),
        case!("the newest default":
            claimed([unsaid(), default("a", EBS, early), default("b", DISK, late)])
            => row("b", DISK)),
        case!("of equally old defaults the first":
            claimed([unsaid(), default("b", DISK, late), default("a", EBS, late)])
            => row("a", EBS)),
        case!("a default without time is the oldest":
            claimed([unsaid(), default("a", EBS, None), default("b", DISK, early)])
            => row("b", DISK)),
        case!("an unbound claim in the message":
            claimed([of_class("a"), class("a", EBS), csi_node("win-1", &[])])
            => json!({"verdict": {"message": "pod shop/web-0: PersistentVolumeClaim data (kubernetes.io/aws-ebs) needs ebs.csi.aws.com, missing on win-1"}})),
    ]
}

fn gone_classes() -> Vec<Case> {
    let row = |plugin: &str| json!({"volumes": [{"storageClass": "gone", "plugin": plugin}], "findings": []});
    let gone = || of_class("gone");
    vec![
        case!("a class that is gone": claimed([gone()])
            => json!({"volumes": [], "findings": [["StorageClassNotFound", "StorageClass/gone"]]})),
        case!("a noted provisioner": claimed([annotated(gone(), PROVISIONER, EBS)]) => row(EBS)),
        case!("a provisioner noted by the beta annotation":
            claimed([annotated(gone(), BETA_PROVISIONER, EBS)])
            => row(EBS)),
        case!("of two noted provisioners":
            claimed([annotated(annotated(gone(), BETA_PROVISIONER, EBS), PROVISIONER, DISK)])
            => row(DISK)),
        case!("an unknown provisioner that is noted":
            claimed([annotated(gone(), PROVISIONER, "example.com/nfs")])
            => no_row()),
        case!("a note proves nothing where the class is there":
            claimed([annotated(of_class("std"), PROVISIONER, EBS), class("std", DISK)])
            => json!({"volumes": [{"plugin": DISK}]})),
    ]
}

fn provisioners() -> Vec<Case> {
    let own = || [of_class("std"), class("std", "x.example.com")];
    let known = || {
        json!({"volumes": [{"plugin": null, "csiDriver": "x.example.com", "inTree": false, "blocking": false,
            "missingOn": ["win-1"]}]})
    };
    let mut by_object = case!("a provisioner that a CSIDriver knows": claimed(own()) => known());
    let known_driver = object(CSI_DRIVER, false, "x.example.com", json!({}));
    by_object.objects.push(known_driver);
    let mut by_node = case!("a provisioner that a Linux node knows": claimed(own()) => known());
    by_node
        .objects
        .extend([linux("n-1"), csi_node("n-1", &["x.example.com"])]);
    let table = |name, driver: &str| {
        let expected = json!({"volumes": [{"csiDriver": driver, "inTree": false}]});
        let objects = claimed([of_class("std"), class("std", driver)]);
        case(name, objects, expected)
    };
    vec![
        case!("a provisioner that nobody knows": claimed(own()) => no_row()),
        by_object,
        by_node,
        table("a provisioner of the table of plugins", "pxd.portworx.com"),
        table("a provisioner of the table of DaemonSets", "smb.csi.k8s.io"),
    ]
}

fn ephemeral() -> Vec<Case> {
    let volume = || json!({"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "std"}}}});
    let pod = || pod_on("win-1", "web-0", volume());
    vec![
        case!("an ephemeral volume without its claim": [windows("win-1"), pod(), class("std", EBS)]
            => json!({"volumes": [{"source": "StorageClass", "persistentVolumeClaim": "web-0-data",
                "storageClass": "std", "plugin": EBS}]})),
        case!("an ephemeral volume with its claim":
            [windows("win-1"), pod(), class("std", EBS), claim("web-0-data", json!({"volumeName": "pv-1"})),
                persistent_volume("pv-1", json!({"azureDisk": {}}))]
            => json!({"volumes": [{"source": "PersistentVolume", "persistentVolumeClaim": "web-0-data",
                "storageClass": null, "plugin": DISK}]})),
        case!("an ephemeral volume of a template has no claim":
            [windows("win-1"), csi_node("win-1", &[]), owner(DEPLOYMENT, "web", asking(volume())),
                class("std", EBS), claim("web-data", json!({"storageClassName": ""}))]
            => json!({"volumes": [{"workload": {"kind": "Deployment"}, "persistentVolumeClaim": null,
                "plugin": EBS}],
                "verdict": {"message": "deployment shop/web: volume data (kubernetes.io/aws-ebs) needs ebs.csi.aws.com, missing on win-1"}})),
    ]
}
