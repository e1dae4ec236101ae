use super::*;
use crate::assess::codes;

#[test]
fn two_daemon_sets_for_one_driver_on_windows_are_one_too_many() {
    let by_hand = daemon_set("storage", "azuredisk-win", IMAGE);
    let other = daemon_set("kube-system", "azurefile-win", "x/azurefile-csi:v1.30.0");
    let for_linux = linux(daemon_set("kube-system", "azuredisk", IMAGE));
    let found = report_with(&[driver_set(), by_hand, other.clone(), for_linux.clone()]);
    let findings = of_driver(&found, AZURE_DISK);
    says!(findings => DAEMON_SET_DUPLICATE, "DaemonSet/storage/azuredisk-win",
        "so does kube-system/azuredisk-win");
    let found = report_with(&[driver_set(), other, for_linux]);
    silent(of_driver(&found, AZURE_DISK), codes::DAEMON_SET_DUPLICATE);
}

#[test]
fn a_difference_in_the_minor_version_is_a_skew_and_one_in_the_patch_is_not() {
    let skew = |windows: &str, others: &str| {
        let set = |name, image: &str| daemon_set("kube-system", name, image);
        let objects = [
            set("azuredisk-win", windows),
            linux(set("azuredisk-node", others)),
        ];
        let found = report_with(&objects);
        of_driver(&found, AZURE_DISK).to_vec()
    };
    let x = |tag: &str| format!("x/azuredisk-csi{tag}");
    let found = skew(&x(":v1.28.5-windows-hp"), &x(":v1.30.2"));
    let object = "DaemonSet/kube-system/azuredisk-win";
    says!(&found => VERSION_SKEW, object, "v1.28.5-windows-hp", "azuredisk-node", "v1.30.2");
    let rhel = |tag| format!("x/ose-azure-disk-csi-driver-rhel{tag}");
    says!(&skew(&rhel("8:v4.13.1"), &rhel("9:v4.14.1")) => VERSION_SKEW, object, "v4.14.1");
    for (windows, others) in [
        (x(":v3.0.1"), x(":v3.0.2")),
        (x(":v1.30.2-windows-hp"), x(":v1.30.2")),
        (x(":latest"), x(":v1.30.2")),
        (x(":v1.28.5"), x("@sha256:00")),
        (x(":v1.28.5"), rhel("9:v4.14.1")),
        (x(":20240101"), x(":20250101")),
    ] {
        silent(&skew(&windows, &others), codes::VERSION_SKEW);
    }
}

#[test]
fn sidecars_have_versions_of_their_own() {
    let containers = |registrar: &str, proxy: &str| {
        json!([
            {"image": IMAGE}, {"image": format!("x/csi-node-driver-registrar:{registrar}")},
            {"image": format!("x/log-shipper:{proxy}")}, {"image": "x/livenessprobe"}, {},
        ])
    };
    let windows = change(driver_set(), "containers", containers("v2.8.0", "v1.0.0"));
    let others = daemon_set("kube-system", "azuredisk", IMAGE);
    let others = linux(change(
        others,
        "containers",
        containers("v2.10.0", "v1.1.0"),
    ));
    let found = report_with(&[windows, others]);
    silent(of_driver(&found, AZURE_DISK), codes::VERSION_SKEW);
}

#[test]
fn a_driver_without_its_csi_driver_object_is_named() {
    let csi_driver = |name: &str| json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}});
    let object = format!("CSIDriver/{AZURE_DISK}");
    let found = live_report_with(&[driver_set()]);
    says!(of_driver(&found, AZURE_DISK) => CSI_DRIVER_MISSING, &object, "apply");
    let found = report_with(&[driver_set(), csi_driver("other")]);
    says!(of_driver(&found, AZURE_DISK) => CSI_DRIVER_MISSING, &object);
    for silent_on in [
        report_with(&[driver_set()]),
        report_with(&[driver_set(), csi_driver(AZURE_DISK)]),
        live_report(&start()),
    ] {
        silent(of_driver(&silent_on, AZURE_DISK), codes::CSI_DRIVER_MISSING);
    }
}

fn switches(namespace: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"namespace": namespace, "name": "internal-feature-states.csi.vsphere.vmware.com"},
    })
}

fn vsphere_set(tag: &str) -> Value {
    let image = format!("gcr.io/cloud-provider-vsphere/csi/release/driver{tag}");
    let set = daemon_set("vmware-system-csi", "vsphere-csi-node-windows", &image);
    let mut containers = set["spec"]["template"]["spec"]["containers"].clone();
    containers
        .as_array_mut()
        .unwrap()
        .push(json!({"image": "x/fluent-bit:1.9.0"}));
    change(set, "containers", containers)
}

fn switch_findings(objects: &[Value]) -> Vec<Finding> {
    let found = report(&with(start_vsphere(), objects));
    of_driver(&found, VSPHERE).to_vec()
}

#[test]
fn the_vsphere_switch_is_off_unless_the_driver_takes_it_for_on() {
    let object = "ConfigMap/vmware-system-csi/internal-feature-states.csi.vsphere.vmware.com";
    let off = |value: &str| json!({"csi-windows-support": value});
    for (tag, data, is_off) in [
        (":v3.0.1", off("false"), true),
        (":v3.0.1", off("False"), true),
        (":v3.0.1", off("\"true\""), true),
        (":v3.3.0", off("false"), true),
        ("@sha256:00", off("false"), true),
        (":v3.0.1", json!({"csi-migration": "true"}), true),
        (":v3.0.1", json!(null), true),
        (":v3.0.1", off("true"), false),
        (":v3.0.1", off("True"), false),
        (":v3.0.1", off("1"), false),
        (":v3.2.0", json!({"csi-migration": "true"}), false),
        ("@sha256:00", json!({}), false),
        (":latest", json!({}), false),
    ] {
        let found = switch_findings(&[vsphere_set(tag), switches("vmware-system-csi", &data)]);
        if is_off {
            let words = [
                "kubectl patch configmap -n vmware-system-csi internal-feature-states.csi.vsphere.vmware.com",
                r#"'{"data":{"csi-windows-support":"true"}}'"#,
                "kubectl rollout restart daemonset -n vmware-system-csi vsphere-csi-node-windows",
            ];
            says(&found, codes::FEATURE_SWITCH_OFF, object, &words);
        } else {
            silent(&found, codes::FEATURE_SWITCH_OFF);
        }
    }
}

#[test]
fn the_vsphere_switch_counts_where_the_driver_reads_it() {
    let off = json!({"csi-windows-support": "false"});
    let on = json!({"csi-windows-support": "true"});
    let openshift = "openshift-cluster-csi-drivers";
    let own = "vmware-system-csi";
    let object =
        |namespace| format!("ConfigMap/{namespace}/internal-feature-states.csi.vsphere.vmware.com");
    let found = switch_findings(&[switches("somewhere", &off)]);
    silent(&found, codes::FEATURE_SWITCH_OFF);
    let found = switch_findings(&[switches(openshift, &off)]);
    says!(&found => FEATURE_SWITCH_OFF, &object(openshift), "restart the driver's pods");
    let found = switch_findings(&[
        vsphere_set(":v3.0.1"),
        switches(openshift, &off),
        switches(own, &on),
    ]);
    silent(&found, codes::FEATURE_SWITCH_OFF);
    let found = switch_findings(&[
        vsphere_set(":v3.0.1"),
        switches(openshift, &on),
        switches(own, &off),
    ]);
    says(&found, codes::FEATURE_SWITCH_OFF, &object(own), &[]);
    let mut elsewhere = vsphere_set(":v3.0.1");
    elsewhere["metadata"]["namespace"] = json!("somewhere");
    let found = switch_findings(&[elsewhere, switches("somewhere", &off)]);
    says(&found, codes::FEATURE_SWITCH_OFF, &object("somewhere"), &[]);
    // Another driver has no such switch, and one that is registered everywhere has it on.
    let found = report_with(&[switches(own, &off)]);
    silent(of_driver(&found, AZURE_DISK), codes::FEATURE_SWITCH_OFF);
    let mut registered = with(start_vsphere(), &[switches(own, &off)]);
    registered[1] = csi_node(&[VSPHERE]);
    silent!(of_driver(&report(&registered), VSPHERE) => FEATURE_SWITCH_OFF);
}

#[test]
fn of_a_mirrored_vsphere_driver_only_its_own_image_tells_its_age() {
    for (tag, is_off) in [("v3.3.0", false), ("v3.0.1", true)] {
        let containers = json!([
            {"image": format!("mirror.example/storage/driver:{tag}"),
             "args": [r"--kubelet-registration-path=C:\var\lib\kubelet\plugins\csi.vsphere.vmware.com\csi.sock"]},
            {"image": "mirror.example/fluent-bit:1.9.0"},
        ]);
        let set = change(vsphere_set(""), "containers", containers);
        let found = switch_findings(&[set, switches("vmware-system-csi", &json!({}))]);
        let is_found = found
            .iter()
            .any(|finding| finding.code == codes::FEATURE_SWITCH_OFF);
        assert_eq!(is_found, is_off, "{tag}");
    }
}
