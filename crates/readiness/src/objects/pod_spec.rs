//! The parts of a pod's spec that are used, in pods and in templates alike.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, NodeSelector, PodOS, WindowsSecurityContextOptions,
};
use serde::Deserialize;

use crate::index::{Claim, Name, PodVolume, PodVolumeSource, Toleration, intern};
use crate::objects::interned;
use crate::objects::storage::ClaimTemplateObject;
use crate::objects::volume_source::{CsiSource, InTreeSource, volume_type};

object_only!(PodSpec, Volume, ClaimSource);

/// The spec of a pod or pod template.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct PodSpec {
    node_name: Option<String>,
    pub(super) os: Option<PodOS>,
    pub(super) node_selector: Option<BTreeMap<String, String>>,
    pub(super) affinity: Option<Affinity>,
    pub(super) runtime_class_name: Option<String>,
    pub(super) volumes: Option<Vec<Volume>>,
    pub(super) containers: Option<Vec<Container>>,
    pub(super) init_containers: Option<Vec<Container>>,
    pub(super) tolerations: Option<Vec<Toleration>>,
    pub(super) security_context: Option<SecurityContext>,
}

/// The fields of a container that can show a driver.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    pub(super) image: Option<String>,
    pub(super) command: Option<Vec<String>>,
    pub(super) args: Option<Vec<String>>,
    pub(super) env: Option<Vec<Variable>>,
    pub(super) security_context: Option<SecurityContext>,
}

/// The Windows part of a pod's or container's security context.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecurityContext {
    pub(super) windows_options: Option<WindowsSecurityContextOptions>,
}

#[derive(Deserialize)]
pub(super) struct Variable {
    pub(super) name: Option<String>,
    pub(super) value: Option<String>,
}

/// `spec.affinity`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    pub(super) node_affinity: Option<NodeAffinity>,
}

#[derive(Default, Deserialize)]
pub(super) struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: Option<NodeSelector>,
}

/// A volume of a pod.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct Volume {
    #[serde(deserialize_with = "interned")]
    pub(super) name: Name,
    persistent_volume_claim: Option<ClaimSource>,
    ephemeral: Option<EphemeralSource>,
    pub(super) host_path: Option<HostPathVolumeSource>,
    csi: Option<CsiSource>,
    #[serde(flatten)]
    in_tree: InTreeSource,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
struct ClaimSource {
    #[serde(deserialize_with = "interned")]
    claim_name: Name,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EphemeralSource {
    volume_claim_template: Option<ClaimTemplateObject>,
}

impl PodSpec {
    /// Returns the node in `spec.nodeName`.
    pub(super) fn node_name(&self) -> Option<Name> {
        let name = self.node_name.as_deref().filter(|name| !name.is_empty());
        name.map(intern)
    }

    /// Returns the relevant volumes.
    pub(super) fn volumes(&self) -> impl Iterator<Item = PodVolume> {
        let volumes = self.volumes.iter().flatten();
        volumes.filter_map(|volume| {
            Some(PodVolume {
                name: volume.name.clone(),
                source: volume.source()?,
            })
        })
    }
}

impl Volume {
    fn source(&self) -> Option<PodVolumeSource> {
        if let Some(claim) = &self.persistent_volume_claim {
            return Some(PodVolumeSource::Claim(claim.claim_name.clone()));
        }
        if let Some(ephemeral) = &self.ephemeral {
            let template = ephemeral.volume_claim_template.as_ref();
            let claim = template.map_or_else(Claim::default, ClaimTemplateObject::claim);
            return Some(PodVolumeSource::Ephemeral(claim));
        }
        volume_type(self.csi.as_ref(), self.in_tree.clone()).map(PodVolumeSource::Inline)
    }
}
