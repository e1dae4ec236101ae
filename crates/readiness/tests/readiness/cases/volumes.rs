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
fn with(name: &'static str, others: impl IntoIterator<Item = Value>, expected: Value) -> Case {
    let mut objects = vec![windows("win-1"), pod_with_claim()];
    objects.extend(others);
    case(name, objects, expected)
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
        cases.push(case(
            "a plugin inline",
            vec![windows("win-1"), pod_on("win-1", "web-0", volume)],
            expected.clone(),
        ));
        let spec = json!({"volumeName": "pv-1"});
        let bound = [
            claim("data", spec),
            persistent_volume("pv-1", json!({field: {}})),
        ];
        cases.push(with(
            "a plugin in a PersistentVolume",
            bound,
            expected.clone(),
        ));
        cases.push(with(
            "a plugin in a class",
            [of_class("std"), class("std", plugin)],
            expected,
        ));
    }
    for field in DEAD {
        let plugin = format!("kubernetes.io/{}", field.to_lowercase());
        let expected = json!({"verdict": {"reason": "NoCSIMigration"}, "volumes": [{"plugin": plugin, "csiDriver": null, "inTree": true}]});
        let volume = json!({"name": "data", field: {}});
        cases.push(case(
            "a dead type inline",
            vec![windows("win-1"), pod_on("win-1", "web-0", volume)],
            expected.clone(),
        ));
        cases.push(with(
            "a dead type in a class",
            [of_class("std"), class("std", &plugin)],
            expected,
        ));
    }
    for field in [
        "nfs",
        "iscsi",
        "fc",
        "hostPath",
        "emptyDir",
        "flexVolume",
        "configMap",
    ] {
        let volume = json!({"name": "data", field: {}});
        cases.push(case(
            "a type that is not meant",
            vec![windows("win-1"), pod_on("win-1", "web-0", volume)],
            no_row(),
        ));
    }
    cases
}

fn bound() -> Vec<Case> {
    let to = |spec: Value| {
        [
            claim(
                "data",
                json!({"volumeName": "pv-1", "storageClassName": "std"}),
            ),
            persistent_volume("pv-1", spec),
        ]
    };
    let cinder = || persistent_volume("pv-1", json!({"cinder": {}}));
    vec![
        with(
            "a bound claim",
            to(json!({"azureDisk": {}})),
            json!({"volumes": [{"source": "PersistentVolume", "persistentVolumeClaim": "data", "persistentVolume": "pv-1",
                "storageClass": "std", "plugin": DISK, "missingOn": ["win-1"], "blocking": true}],
                "verdict": {"messageEnd": "pod shop/web-0: PersistentVolume pv-1 (kubernetes.io/azure-disk) needs \
                    disk.csi.azure.com, missing on win-1"}}),
        ),
        with(
            "a bound claim of a type that is not meant",
            to(json!({"nfs": {}})),
            no_row(),
        ),
        with(
            "a PersistentVolume with csi is not in-tree whatever its annotations say",
            [
                claim("data", json!({"volumeName": "pv-1"})),
                annotated(
                    persistent_volume(
                        "pv-1",
                        json!({"csi": {"driver": "x.example.com", "volumeHandle": "h"}}),
                    ),
                    "pv.kubernetes.io/provisioned-by",
                    EBS,
                ),
            ],
            json!({"volumes": [{"plugin": null, "csiDriver": "x.example.com", "inTree": false, "storageClass": null}],
                "verdict": {"reason": "NoInTreeVolumes"}}),
        ),
        with(
            "the volume's name decides, also where it is gone",
            [
                claim(
                    "data",
                    json!({"volumeName": "pv-1", "storageClassName": "std"}),
                ),
                class("std", EBS),
            ],
            json!({"volumes": [], "findings": [["PersistentVolumeNotFound", "PersistentVolumeClaim/shop/data"]]}),
        ),
        with(
            "a claim that is not there",
            [],
            json!({"volumes": [], "findings": [["PersistentVolumeClaimNotFound", "PersistentVolumeClaim/shop/data"]]}),
        ),
        with(
            "the class of a bound claim is the annotation's first",
            [
                annotated(
                    claim(
                        "data",
                        json!({"volumeName": "pv-1", "storageClassName": "std"}),
                    ),
                    CLASS,
                    "old",
                ),
                cinder(),
            ],
            json!({"volumes": [{"storageClass": "old"}]}),
        ),
        with(
            "a bound claim without class has no default class",
            [
                claim("data", json!({"volumeName": "pv-1"})),
                cinder(),
                annotated(class("std", EBS), DEFAULT, "true"),
            ],
            json!({"volumes": [{"storageClass": null}]}),
        ),
        with(
            "an empty volume name is none",
            [
                claim("data", json!({"volumeName": "", "storageClassName": "std"})),
                class("std", EBS),
            ],
            json!({"volumes": [{"source": "StorageClass", "plugin": EBS}], "findings": []}),
        ),
        with(
            "a bound claim has no default class, and an empty one is none",
            [
                claim(
                    "data",
                    json!({"volumeName": "pv-1", "storageClassName": ""}),
                ),
                cinder(),
                annotated(class("std", EBS), DEFAULT, "true"),
            ],
            json!({"volumes": [{"storageClass": null, "plugin": "kubernetes.io/cinder"}]}),
        ),
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
        with(
            "the annotation wins over the class",
            [
                annotated(of_class("b"), CLASS, "a"),
                class("a", EBS),
                class("b", DISK),
            ],
            row("a", EBS),
        ),
        with(
            "an empty class",
            [of_class(""), default("a", EBS, late)],
            no_row(),
        ),
        with(
            "an empty annotation",
            [annotated(of_class("a"), CLASS, ""), class("a", EBS)],
            no_row(),
        ),
        with(
            "no class and no default",
            [unsaid(), class("a", EBS)],
            no_row(),
        ),
        with(
            "the default class",
            [unsaid(), default("a", EBS, None)],
            row("a", EBS),
        ),
        with(
            "the default class by its beta",
            [unsaid(), annotated(class("a", EBS), BETA_DEFAULT, "true")],
            row("a", EBS),
        ),
        with(
            "a class marked as no default",
            [unsaid(), annotated(class("a", EBS), DEFAULT, "false")],
            no_row(),
        ),
        with(
            "the newest default",
            [unsaid(), default("a", EBS, early), default("b", DISK, late)],
            row("b", DISK),
        ),
        with(
            "of equally old defaults the first",
            [unsaid(), default("b", DISK, late), default("a", EBS, late)],
            row("a", EBS),
        ),
        with(
            "a default without time is the oldest",
            [unsaid(), default("a", EBS, None), default("b", DISK, early)],
            row("b", DISK),
        ),
        with(
            "an unbound claim in the message",
            [of_class("a"), class("a", EBS), csi_node("win-1", &[])],
            json!({"verdict": {"message": "pod shop/web-0: PersistentVolumeClaim data (kubernetes.io/aws-ebs) needs \
                ebs.csi.aws.com, missing on win-1"}}),
        ),
    ]
}

fn gone_classes() -> Vec<Case> {
    let row = |plugin: &str| json!({"volumes": [{"storageClass": "gone", "plugin": plugin}], "findings": []});
    let gone = || of_class("gone");
    vec![
        with(
            "a class that is gone",
            [gone()],
            json!({"volumes": [], "findings": [["StorageClassNotFound", "StorageClass/gone"]]}),
        ),
        with(
            "a noted provisioner",
            [annotated(gone(), PROVISIONER, EBS)],
            row(EBS),
        ),
        with(
            "a provisioner noted by the beta annotation",
            [annotated(gone(), BETA_PROVISIONER, EBS)],
            row(EBS),
        ),
        with(
            "of two noted provisioners",
            [annotated(
                annotated(gone(), BETA_PROVISIONER, EBS),
                PROVISIONER,
                DISK,
            )],
            row(DISK),
        ),
        with(
            "an unknown provisioner that is noted",
            [annotated(gone(), PROVISIONER, "example.com/nfs")],
            no_row(),
        ),
        with(
            "a note proves nothing where the class is there",
            [
                annotated(of_class("std"), PROVISIONER, EBS),
                class("std", DISK),
            ],
            json!({"volumes": [{"plugin": DISK}]}),
        ),
    ]
}

fn provisioners() -> Vec<Case> {
    let own = || [of_class("std"), class("std", "x.example.com")];
    let known = || {
        json!({"volumes": [{"plugin": null, "csiDriver": "x.example.com", "inTree": false, "blocking": false,
            "missingOn": ["win-1"]}]})
    };
    let mut by_object = with("a provisioner that a CSIDriver knows", own(), known());
    by_object.objects.push(object(
        CSI_DRIVER,
        false,
        "x.example.com",
        json!({"spec": {}}),
    ));
    let mut by_node = with("a provisioner that a Linux node knows", own(), known());
    by_node
        .objects
        .extend([linux("n-1"), csi_node("n-1", &["x.example.com"])]);
    let table = |name, driver: &str| {
        with(
            name,
            [of_class("std"), class("std", driver)],
            json!({"volumes": [{"csiDriver": driver, "inTree": false}]}),
        )
    };
    vec![
        with("a provisioner that nobody knows", own(), no_row()),
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
        case(
            "an ephemeral volume without its claim",
            vec![windows("win-1"), pod(), class("std", EBS)],
            json!({"volumes": [{"source": "StorageClass", "persistentVolumeClaim": "web-0-data", "storageClass": "std",
                "plugin": EBS}]}),
        ),
        case(
            "an ephemeral volume with its claim",
            vec![
                windows("win-1"),
                pod(),
                class("std", EBS),
                claim("web-0-data", json!({"volumeName": "pv-1"})),
                persistent_volume("pv-1", json!({"azureDisk": {}})),
            ],
            json!({"volumes": [{"source": "PersistentVolume", "persistentVolumeClaim": "web-0-data", "storageClass": null,
                "plugin": DISK}]}),
        ),
        case(
            "an ephemeral volume of a template has no claim",
            vec![
                windows("win-1"),
                csi_node("win-1", &[]),
                owner(DEPLOYMENT, "web", asking(volume())),
                class("std", EBS),
                claim("web-data", json!({"storageClassName": ""})),
            ],
            json!({"volumes": [{"workload": {"kind": "Deployment"}, "persistentVolumeClaim": null, "plugin": EBS}],
                "verdict": {"message": "deployment shop/web: volume data (kubernetes.io/aws-ebs) needs ebs.csi.aws.com, \
                    missing on win-1"}}),
        ),
    ]
}
