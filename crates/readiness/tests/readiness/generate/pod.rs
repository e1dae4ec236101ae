//! Pod specs: who asks for Windows, and which volumes there are.

use super::Random;
use crate::oracle::volumes::{DEAD, PLUGINS};
use serde_json::{Value, json};

const BUILD: &str = "node.kubernetes.io/windows-build";

impl Random {
    pub fn pod_spec(&mut self) -> Value {
        let mut spec = json!({"containers": [{"name": "c", "image": "registry.example/app:1"}]});
        self.ask(&mut spec);
        let mut volumes = Vec::new();
        for name in ["data", "logs"] {
            if self.chance(65) {
                let mut volume = self.volume();
                volume["name"] = json!(name);
                volumes.push(volume);
            }
        }
        if !volumes.is_empty() || self.chance(50) {
            spec["volumes"] = json!(volumes);
        }
        spec
    }

    /// Asks for Windows in one of many ways, or nearly.
    fn ask(&mut self, spec: &mut Value) {
        match if self.chance(35) { 0 } else { self.below(20) } {
            0..7 => spec["os"] = json!({"name": "windows"}),
            7 => spec["os"] = json!({"name": "linux"}),
            8..11 => spec["nodeSelector"] = self.selector(),
            11..15 => self.affinity(spec),
            15..18 => spec["runtimeClassName"] = json!(self.pick(&["r-1", "r-2", "r-3"])),
            18 => {
                spec["os"] = json!({"name": "linux"});
                spec["nodeSelector"] = self.selector();
            }
            _ => {}
        }
    }

    pub fn selector(&mut self) -> Value {
        match self.below(8) {
            0..2 => json!({"kubernetes.io/os": "windows"}),
            2 => json!({"beta.kubernetes.io/os": "windows", "zone": "a"}),
            3 => json!({"beta.kubernetes.io/os": "linux"}),
            4 => json!({BUILD: "10.0.20348"}),
            5 => json!({"kubernetes.io/os": "linux"}),
            6 => json!({"node.kubernetes.io/windows": "windows"}),
            _ => json!({}),
        }
    }

    fn affinity(&mut self, spec: &mut Value) {
        let terms: Vec<_> = (0..=self.below(2)).map(|_| self.term()).collect();
        let key = if self.chance(90) {
            "requiredDuringSchedulingIgnoredDuringExecution"
        } else {
            let preferred = json!([{"weight": 1, "preference": terms[0]}]);
            spec["affinity"] = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}});
            return;
        };
        spec["affinity"] = json!({"nodeAffinity": {key: {"nodeSelectorTerms": terms}}});
    }

    fn term(&mut self) -> Value {
        if self.chance(8) {
            return json!({});
        }
        if self.chance(8) {
            return json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n-1"]}]});
        }
        let mut expressions = vec![self.expression()];
        if self.chance(30) {
            expressions.push(json!({"key": "zone", "operator": "Exists"}));
        }
        if self.chance(20) {
            expressions.push(self.expression());
        }
        json!({"matchExpressions": expressions})
    }

    fn expression(&mut self) -> Value {
        if self.chance(40) {
            return match self.below(7) {
                0 => {
                    json!({"key": BUILD, "operator": "In", "values": ["10.0.17763", "10.0.20348"]})
                }
                1 => json!({"key": BUILD, "operator": "Exists"}),
                2 => json!({"key": BUILD, "operator": "Gt", "values": ["17763"]}),
                3 => json!({"key": BUILD, "operator": "Lt", "values": ["20348"]}),
                4 => json!({"key": BUILD, "operator": "NotIn", "values": ["10.0.17763"]}),
                5 => json!({"key": BUILD, "operator": "DoesNotExist"}),
                _ => json!({"key": "node.kubernetes.io/build", "operator": "Exists"}),
            };
        }
        let key = self.pick(&[
            "kubernetes.io/os",
            "kubernetes.io/os",
            "beta.kubernetes.io/os",
            "example.com/os",
        ]);
        match self.below(10) {
            0..3 => json!({"key": key, "operator": "In", "values": ["windows"]}),
            3 => json!({"key": key, "operator": "In", "values": ["windows", "linux"]}),
            4 => json!({"key": key, "operator": "In", "values": ["linux"]}),
            5..7 => json!({"key": key, "operator": "NotIn", "values": ["linux"]}),
            7 => json!({"key": key, "operator": "NotIn", "values": ["darwin", "linux"]}),
            8 => json!({"key": key, "operator": "NotIn", "values": ["linux", "windows"]}),
            _ => {
                let operator = self.pick(&["Exists", "NotIn"]);
                let values = if operator == "NotIn" {
                    json!(["darwin"])
                } else {
                    json!([])
                };
                json!({"key": key, "operator": operator, "values": values})
            }
        }
    }

    /// A volume of a pod, but for its name.
    fn volume(&mut self) -> Value {
        match self.below(12) {
            0..5 => {
                let claim = if self.chance(60) {
                    "data"
                } else {
                    self.claim_name()
                };
                json!({"persistentVolumeClaim": {"claimName": claim}})
            }
            5..8 => {
                let mut template = json!({"spec": self.claim_spec()});
                let annotations = self.claim_annotations();
                if annotations != json!({}) {
                    template["metadata"] = json!({"annotations": annotations});
                }
                json!({"ephemeral": {"volumeClaimTemplate": template}})
            }
            8..11 => self.source(true),
            _ => self.pick(&[
                || json!({"emptyDir": {}}),
                || json!({"configMap": {"name": "c"}}),
            ])(),
        }
    }

    /// What names the place of the data, inline in a pod or in a PersistentVolume.
    pub fn source(&mut self, inline: bool) -> Value {
        match self.below(20) {
            0..11 => {
                let (_, field, _) = PLUGINS[self.plugin()];
                let value = match field {
                    "awsElasticBlockStore" | "cinder" => json!({"volumeID": "v"}),
                    "azureDisk" => json!({"diskName": "d", "diskURI": "u"}),
                    "azureFile" => json!({"secretName": "s", "shareName": "s"}),
                    "gcePersistentDisk" => json!({"pdName": "p"}),
                    "vsphereVolume" => json!({"volumePath": "[ds] v.vmdk"}),
                    _ => json!({"volumeID": "v", "fsType": "ntfs"}),
                };
                json!({field: value})
            }
            11..14 => self.dead_source(inline),
            14..18 => {
                let driver = self.driver();
                if inline {
                    json!({"csi": {"driver": driver}})
                } else {
                    json!({"csi": {"driver": driver, "volumeHandle": "h"}})
                }
            }
            18 => json!({"hostPath": {"path": "C:\\data"}}),
            _ => json!({"nfs": {"server": "nfs.example", "path": "/"}}),
        }
    }

    fn dead_source(&mut self, inline: bool) -> Value {
        let field = self.pick(&DEAD);
        let value = match (field, inline) {
            ("rbd", _) => json!({"monitors": ["m"], "image": "i"}),
            ("cephfs", _) => json!({"monitors": ["m"]}),
            ("glusterfs", _) => json!({"endpoints": "e", "path": "p"}),
            ("flocker", _) => json!({"datasetName": "d"}),
            ("quobyte", _) => json!({"registry": "r:1", "volume": "v"}),
            ("storageos", _) => json!({"volumeName": "v"}),
            _ => {
                json!({"gateway": "g", "system": "s", "secretRef": {"name": "s"}, "volumeName": "v"})
            }
        };
        json!({field: value})
    }

    /// The name of a CSI driver: one that takes over, another of the tables, or one that only the cluster can know.
    pub fn driver(&mut self) -> String {
        match self.below(10) {
            0..7 => PLUGINS[self.plugin()].2,
            7 => "smb.csi.k8s.io",
            _ => self.pick(&["x.example.com", "y.example.com"]),
        }
        .to_owned()
    }
}
