//! Claims, volumes and classes, and what brings the drivers.

use super::{NAMESPACES, Random, object};
use crate::oracle::cluster::{CLAIM, DAEMON_SET, PERSISTENT_VOLUME, STORAGE_CLASS};
use crate::oracle::drivers::IMAGES;
use crate::oracle::volumes::{DEAD, PLUGINS};
use serde_json::{Value, json};

const CLASSES: [&str; 4] = ["c-1", "c-1", "c-2", "c-3"];

impl Random {
    /// Of a claim that pods name, one of an ephemeral volume, or one of a StatefulSet, or nearly.
    pub fn claim_name(&mut self) -> &'static str {
        self.pick(&[
            "data",
            "data",
            "data",
            "a-0-data",
            "a-0-logs",
            "data-a-0",
            "data-a-1",
            "data-b-10",
            "data-a-01",
            "data-a-x",
            "data-a-",
            "keep-a-0",
        ])
    }

    pub fn claim(&mut self) -> Value {
        let namespace = self.pick(&NAMESPACES);
        let name = if self.chance(40) {
            "data"
        } else {
            self.claim_name()
        };
        let parts = json!({"metadata": {"annotations": self.claim_annotations()}, "spec": self.claim_spec()});
        object(CLAIM, namespace, name, parts)
    }

    pub fn claim_spec(&mut self) -> Value {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"]});
        match self.below(10) {
            0..5 => spec["storageClassName"] = json!(self.pick(&CLASSES)),
            5 => spec["storageClassName"] = json!(""),
            _ => {}
        }
        match self.below(10) {
            0..3 => spec["volumeName"] = json!(self.pick(&["pv-1", "pv-2", "pv-3"])),
            3 => spec["volumeName"] = json!(""),
            _ => {}
        }
        spec
    }

    pub fn claim_annotations(&mut self) -> Value {
        let mut annotations = json!({});
        if self.chance(12) {
            annotations["volume.beta.kubernetes.io/storage-class"] =
                json!(self.pick(&["c-1", "c-2", "c-3", ""]));
        }
        for key in [
            "volume.kubernetes.io/storage-provisioner",
            "volume.beta.kubernetes.io/storage-provisioner",
        ] {
            if self.chance(12) {
                annotations[key] = json!(self.provisioner());
            }
        }
        annotations
    }

    /// In-tree, dead, a CSI driver, or neither.
    fn provisioner(&mut self) -> String {
        match self.below(20) {
            0..10 => PLUGINS[self.plugin()].0.to_owned(),
            10..13 => format!("kubernetes.io/{}", self.pick(&DEAD).to_lowercase()),
            13..16 => self.driver(),
            16..18 => "x.example.com".to_owned(),
            _ => self
                .pick(&[
                    "kubernetes.io/no-provisioner",
                    "example.com/nfs",
                    "kubernetes.io/scaleIO",
                ])
                .to_owned(),
        }
    }

    pub fn claim_templates(&mut self, spec: &mut Value) {
        if self.chance(20) {
            return;
        }
        let mut templates = Vec::new();
        for name in ["data", "keep"] {
            if self.chance(60) {
                let annotations = self.claim_annotations();
                templates.push(json!({"metadata": {"name": name, "annotations": annotations}, "spec": self.claim_spec()}));
            }
        }
        spec["volumeClaimTemplates"] = json!(templates);
    }

    pub fn persistent_volume(&mut self) -> Value {
        let name = self.pick(&["pv-1", "pv-2", "pv-3"]);
        let mut spec = self.source(false);
        spec["storageClassName"] = json!(self.pick(&CLASSES));
        let mut parts = json!({"spec": spec});
        if self.chance(20) {
            let (plugin, _, driver) = PLUGINS[self.plugin()];
            parts["metadata"] = json!({"annotations": {
                "pv.kubernetes.io/provisioned-by": plugin, "pv.kubernetes.io/migrated-to": driver}});
        }
        object(PERSISTENT_VOLUME, "", name, parts)
    }

    pub fn storage_class(&mut self) -> Value {
        let name = self.pick(&CLASSES);
        let mut parts = json!({"provisioner": self.provisioner(), "metadata": {}});
        let prefix = match self.below(10) {
            0..4 => Some("storageclass"),
            4..6 => Some("storageclass.beta"),
            _ => None,
        };
        if let Some(prefix) = prefix {
            let value = self.pick(&["true", "true", "true", "false"]);
            parts["metadata"]["annotations"] =
                json!({format!("{prefix}.kubernetes.io/is-default-class"): value});
        }
        if self.chance(70) {
            let second = self.below(3);
            parts["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:0{second}Z"));
        }
        object(STORAGE_CLASS, "", name, parts)
    }

    /// A DaemonSet that looks like a driver's, though perhaps not for Windows.
    pub fn driver_daemon_set(&mut self) -> Value {
        let namespace = self.pick(&NAMESPACES);
        let name = self.pick(&["a", "b", "c"]);
        let mut container = json!({"name": "driver", "image": self.image()});
        self.registration(&mut container);
        let mut volumes = Vec::new();
        for index in 0..self.below(5) {
            let path = self.host_path();
            volumes.push(json!({"name": format!("v-{index}"), "hostPath": {"path": path}}));
        }
        let mut spec = json!({"containers": [{"name": "first", "image": "registry.example/app:1"}], "volumes": volumes});
        if self.chance(85) {
            spec["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
        } else {
            spec["nodeSelector"] = self.selector();
        }
        if self.chance(85) {
            spec["containers"].as_array_mut().unwrap().push(container);
        } else {
            spec["initContainers"] = json!([container]);
        }
        let parts = json!({
            "metadata": {"uid": self.uid("ds", namespace, name)},
            "spec": {"selector": {}, "template": {"spec": spec}},
        });
        object(DAEMON_SET, namespace, name, parts)
    }

    fn image(&mut self) -> String {
        let registry = self.pick(&[
            "registry.k8s.io/",
            "localhost:5000/",
            "mcr.example/k8s/",
            "",
        ]);
        let repository = if self.chance(40) {
            self.pick(&IMAGES).0
        } else {
            self.pick(&["app", "other/driver", "not-smbplugin", "azuredisk-csi/tool"])
        };
        let tag = self.pick(&["", ":v1.2.3", ":v1@sha256:0123", "@sha256:0123"]);
        format!("{registry}{repository}{tag}")
    }

    fn registration(&mut self, container: &mut Value) {
        const FLAG: &str = "--kubelet-registration-path";
        let driver = self.driver();
        let path = match self.below(5) {
            0..2 => format!(r"C:\var\lib\kubelet\plugins\{driver}\csi.sock"),
            2 => format!(r"C:\\var\\lib\\kubelet\\plugins\\{driver}\\csi.sock"),
            3 => format!("/var/lib/kubelet/plugins/{driver}/csi.sock"),
            _ => format!(r"C:\var\lib\kubelet\plugins\{driver}-old\csi.sock"),
        };
        match self.below(10) {
            0..2 => container["args"] = json!(["-v=2", format!("{FLAG}={path}")]),
            2 => container["command"] = json!(["registrar.exe", FLAG, path]),
            3 => {
                container["args"] = json!([format!("{FLAG}=$(REG)")]);
                container["env"] =
                    json!([{"name": "A", "value": "b"}, {"name": "REG", "value": path}]);
            }
            4 => {
                container["args"] = json!([FLAG, r"C:\var\lib\kubelet\plugins\$(NAME)\$(FILE)"]);
                container["env"] = json!([{"name": "NAME", "value": driver},
                    {"name": "FILE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
            }
            5 => container["args"] = json!([format!("--csi-address={path}")]),
            _ => {}
        }
    }

    fn host_path(&mut self) -> String {
        let driver = self.driver();
        match self.below(10) {
            0 => format!(r"C:\var\lib\kubelet\plugins\{driver}"),
            1 => format!(r"C:\var\lib\kubelet\plugins\{driver}\"),
            2 => format!(r"C:\var\lib\kubelet\plugins\old\{driver}"),
            3 => r"C:\var\lib\kubelet\plugins_registry".to_owned(),
            4 => r"\\.\pipe\containerd-containerd".to_owned(),
            _ => self
                .pick(&[
                    r"\\.\pipe\csi-proxy-disk-v1",
                    r"\\.\pipe\csi-proxy-volume-v1",
                    r"\\.\pipe\csi-proxy-filesystem-v1",
                ])
                .to_owned(),
        }
    }
}
