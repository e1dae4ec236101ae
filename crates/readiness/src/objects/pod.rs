//! Decodes pods, and the parts of a pod's spec that templates share with them.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{HostPathVolumeSource, PodOS};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, de};

use crate::assess::plugins::{self, Plugin};
use crate::index::{
    Claim, Cluster, DriverPod, Moving, Name, ObjectKey, Pod, PodVolume, PodVolumeSource, System,
    Toleration, VolumeType, intern,
};
use crate::objects::interned;
use crate::objects::metadata::Object;
use crate::objects::node_side::{Container, SecurityContext, node_side};
use crate::objects::placement::{Affinity, placement, selection};
use crate::objects::storage::ClaimTemplateObject;

object_only!(PodSpec, PodStatus, Volume, ClaimSource);

/// The reasons of a container that waits for its image.
const WITHOUT_IMAGE: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
];

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

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub(super) struct PodStatus {
    phase: Option<String>,
    conditions: Option<Vec<Condition>>,
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
}

/// A condition of a pod, a Job or a Node.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    r#type: Option<String>,
    status: Option<String>,
    pub(super) last_transition_time: Option<Time>,
}

impl Condition {
    pub(super) fn is_true(&self, kind: &str) -> bool {
        self.r#type.as_deref() == Some(kind) && self.status.as_deref() == Some("True")
    }
}

#[derive(Deserialize)]
struct ContainerStatus {
    state: Option<ContainerState>,
    image: Option<String>,
}

#[derive(Deserialize)]
struct ContainerState {
    waiting: Option<Stopped>,
    terminated: Option<Stopped>,
}

#[derive(Deserialize)]
struct Stopped {
    reason: Option<String>,
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

/// A CSI volume's source. Only the driver is used.
#[derive(Deserialize)]
pub(super) struct CsiSource {
    #[serde(deserialize_with = "interned")]
    pub(super) driver: Name,
}

/// The in-tree volume whose field is set in a volume.
#[derive(Clone, Default)]
pub(super) struct InTreeSource(pub(super) Option<VolumeType>);

/// An in-tree volume. Only whether an Azure disk is managed matters.
#[derive(Deserialize)]
struct Fields {
    kind: Option<String>,
    #[serde(rename = "diskURI")]
    disk_uri: Option<String>,
}

const AZURE_DISK: &str = "azureDisk";
/// The only kind of Azure disk that its CSI driver takes over.
///
/// Source: Kubernetes' release notes on `CSIMigrationAzureDisk` (kubernetes/kubernetes#103439).
pub(super) const MANAGED: &str = "Managed";

impl<'de> Deserialize<'de> for InTreeSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyField;
        impl<'de> Visitor<'de> for AnyField {
            type Value = InTreeSource;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a volume")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<InTreeSource, A::Error> {
                let mut found = InTreeSource::default();
                while let Some(field) = map.next_key::<String>()? {
                    let Some(plugin) = plugins::by_field(&field) else {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    };
                    let source: Option<Fields> = map.next_value().map_err(|error| {
                        de::Error::custom(format_args!("field {field}: {error}"))
                    })?;
                    if let Some(source) = source {
                        found.0.get_or_insert(source.of(plugin));
                    }
                }
                Ok(found)
            }
        }
        deserializer.deserialize_map(AnyField)
    }
}

impl Fields {
    fn of(&self, plugin: &'static Plugin) -> VolumeType {
        let uri = self.disk_uri.as_deref().unwrap_or_default();
        let is_taken_over = match self.kind.as_deref() {
            // The API server writes `Shared` here, but refuses it for a managed disk: then a manifest has left out the kind.
            None | Some("") => !uri.to_ascii_lowercase().starts_with("http"),
            Some(kind) => kind == MANAGED,
        };
        if plugin.field == AZURE_DISK && !is_taken_over {
            VolumeType::NotTakenOver(plugin)
        } else {
            VolumeType::InTree(plugin)
        }
    }
}

/// Returns the driver or plugin of a volume. A volume with a CSI driver is not in-tree, whatever other fields are set.
pub(super) fn volume_type(csi: Option<&CsiSource>, in_tree: InTreeSource) -> Option<VolumeType> {
    match csi {
        Some(csi) => Some(VolumeType::Csi(csi.driver.clone())),
        None => in_tree.0,
    }
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

pub(super) fn row(object: Object<PodSpec, PodStatus>) -> Option<Pod> {
    let meta = object.metadata;
    let status = object.status.unwrap_or_default();
    if let Some("Succeeded" | "Failed") = status.phase.as_deref() {
        return None;
    }
    let spec = object.spec.unwrap_or_default();
    let node_side = node_side(&spec).unwrap_or_default();
    let driver = (!node_side.names.is_empty()).then(|| {
        let (trouble, image) = status.trouble().unzip();
        Box::new(DriverPod {
            may_reach_csi_proxy: node_side.may_reach_csi_proxy,
            names: node_side.names,
            ready: status.is_ready() && meta.deletion_timestamp.is_none(),
            trouble,
            image: image.flatten(),
        })
    });
    let volumes: Box<[PodVolume]> = spec.volumes().collect();
    let moving = || Moving {
        selection: selection(&spec),
        tolerations: spec.tolerations.clone().unwrap_or_default(),
    };
    let pod = Pod {
        placement: placement(&spec),
        moving: (!volumes.is_empty() && !meta.stays()).then(|| intern(&moving().to_text())),
        volumes,
        node_name: spec.node_name(),
        controller: meta.controller(),
        csi_proxy_pipes: node_side.csi_proxy_pipes.into(),
        driver,
    };
    // A pod without storage still shows that its controller creates pods, and where.
    let matters = !pod.volumes.is_empty()
        || !pod.csi_proxy_pipes.is_empty()
        || pod.driver.is_some()
        || (pod.controller.is_some() && pod.node_name.is_some());
    matters.then_some(pod)
}

/// Stores a pod. What changes of a pod on a node of another system is nobody's news: most pods of a large cluster run there.
pub(super) fn store(cluster: &mut Cluster, key: ObjectKey, pod: Pod) -> bool {
    let is_elsewhere = |pod: &Pod| {
        let node = pod.node_name.as_ref();
        let node = node.and_then(|node| cluster.nodes.get(node));
        node.is_some_and(|node| node.system() == Some(System::Other))
    };
    let stays_elsewhere = is_elsewhere(&pod) && cluster.pods.get(&key).is_none_or(is_elsewhere);
    cluster.pods.apply(key, pod) && !stays_elsewhere
}

impl PodStatus {
    fn is_ready(&self) -> bool {
        let mut conditions = self.conditions.iter().flatten();
        conditions.any(|condition| condition.is_true("Ready"))
    }

    /// Returns why a container waits or terminated, and the image that it waits for. Containers without an image come
    /// first: others may only wait for them.
    fn trouble(&self) -> Option<(String, Option<String>)> {
        let containers = self.init_container_statuses.iter().flatten();
        let containers = containers.chain(self.container_statuses.iter().flatten());
        let troubles = containers.filter_map(ContainerStatus::trouble);
        troubles.min_by_key(|(_, image)| image.is_none())
    }
}

impl ContainerStatus {
    fn trouble(&self) -> Option<(String, Option<String>)> {
        let state = self.state.as_ref()?;
        let stopped = state.waiting.as_ref().or(state.terminated.as_ref())?;
        let reason = stopped.reason.clone().filter(|it| it != "Completed")?;
        let is_pull = WITHOUT_IMAGE.contains(&reason.as_str());
        let image = is_pull.then(|| self.image.clone().unwrap_or_default());
        Some((reason, image))
    }
}
