//! Resolves a workload's volumes to the drivers that they need.

use super::cluster::{
    CLAIM, CSI_DRIVER, CSI_NODE, Cluster, PERSISTENT_VOLUME, POD, STATEFUL_SET, STORAGE_CLASS,
    annotation, csi_node_drivers, field, is, list, name, namespace, nonempty, text,
};
use super::workloads::{self, Workload};
use serde_json::Value;
use std::sync::LazyLock;

/// Plugin, its field in a PersistentVolume or pod, and the CSI driver, if one takes over.
const PLUGINS: &str = "
kubernetes.io/aws-ebs awsElasticBlockStore ebs.csi.aws.com
kubernetes.io/azure-disk azureDisk disk.csi.azure.com
kubernetes.io/azure-file azureFile file.csi.azure.com
kubernetes.io/gce-pd gcePersistentDisk pd.csi.storage.gke.io
kubernetes.io/cinder cinder cinder.csi.openstack.org
kubernetes.io/vsphere-volume vsphereVolume csi.vsphere.vmware.com
kubernetes.io/portworx-volume portworxVolume pxd.portworx.com
kubernetes.io/rbd rbd
kubernetes.io/cephfs cephfs
kubernetes.io/glusterfs glusterfs
kubernetes.io/flocker flocker
kubernetes.io/quobyte quobyte
kubernetes.io/storageos storageos
kubernetes.io/scaleio scaleIO
";

type Plugin = (&'static str, &'static str, Option<&'static str>);

fn plugins() -> impl Iterator<Item = Plugin> {
    static TABLE: LazyLock<Vec<Plugin>> = LazyLock::new(|| {
        let rows = PLUGINS.trim().lines().map(|line| {
            let mut words = line.split(' ');
            let mut next = || words.next().unwrap();
            (next(), next(), words.next())
        });
        rows.collect()
    });
    TABLE.iter().copied()
}

/// The only driver in the tables that no plugin is redirected to.
const SMB: &str = "smb.csi.k8s.io";

/// One row of `volumes`, without what depends on the nodes.
pub struct Row<'a> {
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// The pod's Windows node.
    pub node: Option<&'a str>,
    pub volume: &'a str,
    pub found: Found,
    /// Whether the plugin still serves the volume at the target version.
    pub is_served: bool,
}

/// Code and object.
pub type Finding = (&'static str, String);

/// The note, which is no finding, that a claim has neither a class nor a default one.
pub const NO_CLASS: &str = "";

/// The result for a claim, a claim template or an inline volume.
#[derive(Default)]
pub struct Found {
    pub source: &'static str,
    pub claim: Option<String>,
    pub persistent_volume: Option<String>,
    pub storage_class: Option<String>,
    pub backing: Backing,
}

#[derive(Default, PartialEq)]
pub struct Backing {
    /// Set if and only if the volume is in-tree.
    pub plugin: Option<String>,
    pub driver: Option<String>,
}

impl Backing {
    fn of(plugin: Option<&str>, driver: Option<&str>) -> Self {
        Self {
            plugin: plugin.map(str::to_owned),
            driver: driver.map(str::to_owned),
        }
    }
}

pub fn rows(cluster: Cluster<'_>) -> (Vec<Row<'_>>, Vec<Finding>) {
    let mut rows = Vec::new();
    let mut findings = Vec::new();
    for workload in workloads::nowhere(cluster) {
        let volumes = unattended(cluster, &workload, &mut Vec::new());
        if volumes
            .iter()
            .any(|(_, found)| found.backing.plugin.is_some())
        {
            findings.push(("PlacementUnknown", workloads::address(workload.object)));
        }
    }
    for workload in workloads::all(cluster) {
        for (volume, found) in unattended(cluster, &workload, &mut findings) {
            rows.push(Row {
                kind: workload.object["kind"].as_str().unwrap_or_default(),
                namespace: namespace(workload.object),
                name: name(workload.object),
                node: workload.node,
                volume,
                found,
                is_served: false,
            });
        }
    }
    let key = |row: &Row<'_>| {
        let names = [row.namespace, row.name, row.kind, row.volume].map(str::to_owned);
        (names, row.found.claim.clone())
    };
    rows.sort_by_key(key);
    (rows, findings)
}

/// Returns a workload's volumes, less those of a template that a live pod stands for.
pub fn unattended<'a>(
    cluster: Cluster<'a>,
    workload: &Workload<'a>,
    findings: &mut Vec<Finding>,
) -> Vec<(&'a str, Found)> {
    let mut volumes = volumes_of(cluster, workload, findings);
    if !is(workload.object, POD) {
        for pod in workloads::standing(cluster, workload.object) {
            let its = volumes_of(cluster, &pod, &mut Vec::new());
            let stands = |wanted: &(&str, Found)| its.iter().any(|it| stands_for(it, wanted));
            volumes.retain(|volume| !stands(volume));
        }
    }
    volumes
}

/// Whether a pod's volume represents a volume of its owner's template.
fn stands_for(pods: &(&str, Found), wanted: &(&str, Found)) -> bool {
    let (pods, wanted) = ((pods.0, &pods.1), (wanted.0, &wanted.1));
    let is_same = match &wanted.1.claim {
        Some(claim) => pods.1.claim.as_ref() == Some(claim),
        None => {
            pods.1.backing == wanted.1.backing && pods.1.storage_class == wanted.1.storage_class
        }
    };
    pods.0 == wanted.0 && is_same
}

fn volumes_of<'a>(
    cluster: Cluster<'a>,
    workload: &Workload<'a>,
    findings: &mut Vec<Finding>,
) -> Vec<(&'a str, Found)> {
    let mut found = Vec::new();
    let templates: &[Value] = if is(workload.object, STATEFUL_SET) {
        list(workload.object, &["spec", "volumeClaimTemplates"])
    } else {
        &[]
    };
    for (number, template) in templates.iter().enumerate() {
        let mut before = templates[..number].iter();
        if before.any(|before| name(before) == name(template)) {
            continue;
        }
        let claims: Vec<_> = cluster
            .of(CLAIM)
            .filter(|claim| namespace(claim) == namespace(workload.object))
            .filter(|claim| is_claim_of(name(claim), name(template), name(workload.object)))
            .collect();
        for claim in &claims {
            found.extend(
                resolve(cluster, claim, Some(name(claim)), workload, findings)
                    .map(|it| (name(template), it)),
            );
        }
        if claims.is_empty() {
            found.extend(
                resolve(cluster, template, None, workload, findings).map(|it| (name(template), it)),
            );
        }
    }
    for volume in list(workload.spec, &["volumes"]) {
        let volume_name = text(volume, &["name"]).unwrap_or_default();
        // The StatefulSet controller replaces such a volume with the claim.
        if !templates
            .iter()
            .any(|template| name(template) == volume_name)
        {
            found.extend(
                volume_of_pod(cluster, volume, volume_name, workload, findings)
                    .map(|it| (volume_name, it)),
            );
        }
    }
    found
}

fn is_claim_of(claim: &str, template: &str, set: &str) -> bool {
    claim
        .strip_prefix(&format!("{template}-{set}-"))
        .is_some_and(|ordinal| {
            ordinal == "0"
                || !ordinal.is_empty()
                    && !ordinal.starts_with('0')
                    && ordinal.chars().all(|digit| digit.is_ascii_digit())
        })
}

fn volume_of_pod(
    cluster: Cluster<'_>,
    volume: &Value,
    volume_name: &str,
    workload: &Workload<'_>,
    findings: &mut Vec<Finding>,
) -> Option<Found> {
    let in_namespace = namespace(workload.object);
    if let Some(backing) = backing(volume) {
        return Some(Found {
            source: "Inline",
            backing,
            ..Found::default()
        });
    }
    if let Some(claim_name) = nonempty(volume, &["persistentVolumeClaim", "claimName"]) {
        let Some(claim) = cluster.get(CLAIM, in_namespace, claim_name) else {
            findings.push((
                "PersistentVolumeClaimNotFound",
                claim_address(in_namespace, claim_name),
            ));
            return None;
        };
        return resolve(cluster, claim, Some(claim_name), workload, findings);
    }
    let template = field(volume, &["ephemeral", "volumeClaimTemplate"])?;
    if !is(workload.object, POD) {
        return resolve(cluster, template, None, workload, findings);
    }
    let claim_name = format!("{}-{volume_name}", name(workload.object));
    let claim = cluster
        .get(CLAIM, in_namespace, &claim_name)
        .unwrap_or(template);
    resolve(cluster, claim, Some(&claim_name), workload, findings)
}

fn claim_address(in_namespace: &str, claim_name: &str) -> String {
    format!("PersistentVolumeClaim/{in_namespace}/{claim_name}")
}

/// Returns the plugin and driver that serve a pod's volume or a PersistentVolume, which have the same fields.
pub fn backing(volume: &Value) -> Option<Backing> {
    if let Some(driver) = nonempty(volume, &["csi", "driver"]) {
        return Some(Backing::of(None, Some(driver)));
    }
    let mut there = plugins().filter(|(_, in_field, _)| field(volume, &[in_field]).is_some());
    let (plugin, in_field, driver) = there.next()?;
    let of_it = |key: &str| text(volume, &[in_field, key]).unwrap_or_default();
    let is_left = in_field == "azureDisk"
        && match of_it("kind") {
            "" => of_it("diskURI").to_lowercase().starts_with("http"),
            kind => kind != "Managed",
        };
    Some(Backing::of(Some(plugin), driver.filter(|_| !is_left)))
}

/// Resolves a claim, or the template of a claim that does not exist yet. `claim_name` is its name, if known.
fn resolve(
    cluster: Cluster<'_>,
    claim: &Value,
    claim_name: Option<&str>,
    workload: &Workload<'_>,
    findings: &mut Vec<Finding>,
) -> Option<Found> {
    let own_class = annotation(claim, "volume.beta.kubernetes.io/storage-class")
        .or_else(|| text(claim, &["spec", "storageClassName"]));
    // A volume that is bound to the claim is the claim's, whatever the claim says.
    let of_claim = |claim: &&str| {
        let bound = cluster.of(PERSISTENT_VOLUME).filter(|volume| {
            let of = |part: &str| text(volume, &["spec", "claimRef", part]);
            of("name") == Some(*claim)
                && of("namespace") == Some(namespace(workload.object))
                && text(volume, &["status", "phase"]) == Some("Bound")
                && field(volume, &["spec"]).and_then(backing).is_some()
        });
        bound.map(name).min()
    };
    let bound = claim_name.as_ref().and_then(of_claim);
    if let Some(volume) = nonempty(claim, &["spec", "volumeName"]).or(bound) {
        let Some(there) = cluster.get(PERSISTENT_VOLUME, "", volume) else {
            // A template's claim without a name is reported on its owner.
            let object = claim_name.map_or_else(
                || workloads::address(workload.object),
                |claim| claim_address(namespace(workload.object), claim),
            );
            findings.push(("PersistentVolumeNotFound", object));
            return None;
        };
        return Some(Found {
            source: "PersistentVolume",
            claim: claim_name.map(str::to_owned),
            persistent_volume: Some(volume.to_owned()),
            storage_class: own_class
                .filter(|class| !class.is_empty())
                .map(str::to_owned),
            backing: backing(&there["spec"])?,
        });
    }
    let class = own_class.or_else(|| default_class(cluster));
    if class.is_none() {
        findings.push((NO_CLASS, String::new()));
    }
    let class = class?;
    if class.is_empty() {
        return None;
    }
    let provisioner = if let Some(there) = cluster.get(STORAGE_CLASS, "", class) {
        text(there, &["provisioner"])
    } else {
        let noted = [
            "volume.kubernetes.io/storage-provisioner",
            "volume.beta.kubernetes.io/storage-provisioner",
        ]
        .into_iter()
        .find_map(|key| annotation(claim, key).filter(|provisioner| !provisioner.is_empty()));
        if noted.is_none() {
            findings.push(("StorageClassNotFound", format!("StorageClass/{class}")));
        }
        noted
    };
    let mut backing = provisioned_by(cluster, provisioner?)?;
    if backing.plugin.as_deref() == Some("kubernetes.io/azure-disk")
        && let Some(there) = cluster.get(STORAGE_CLASS, "", class)
        && let Some(parameters) = there["parameters"].as_object()
        && parameters.iter().any(|(key, value)| {
            key.to_lowercase() == "kind"
                && value
                    .as_str()
                    .is_none_or(|it| !["managed", ""].contains(&it.to_lowercase().as_str()))
        })
    {
        backing.driver = None;
    }
    Some(Found {
        source: "StorageClass",
        claim: claim_name.map(str::to_owned),
        persistent_volume: None,
        storage_class: Some(class.to_owned()),
        backing,
    })
}

/// Returns the newest class marked as default; the first by name if several are equally new.
fn default_class(cluster: Cluster<'_>) -> Option<&str> {
    let mut marked: Vec<_> = cluster
        .of(STORAGE_CLASS)
        .filter(|class| {
            [
                "storageclass.kubernetes.io/is-default-class",
                "storageclass.beta.kubernetes.io/is-default-class",
            ]
            .into_iter()
            .any(|key| annotation(class, key) == Some("true"))
        })
        .map(|class| (text(class, &["metadata", "creationTimestamp"]), name(class)))
        .collect();
    marked.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    marked.first().map(|(_, class)| *class)
}

fn provisioned_by(cluster: Cluster<'_>, provisioner: &str) -> Option<Backing> {
    if let Some((plugin, _, driver)) = plugins().find(|(plugin, ..)| *plugin == provisioner) {
        return Some(Backing::of(Some(plugin), driver));
    }
    let known = cluster
        .of(CSI_DRIVER)
        .any(|driver| name(driver) == provisioner)
        || cluster
            .of(CSI_NODE)
            .any(|node| csi_node_drivers(node).contains(&provisioner))
        || known_drivers().any(|driver| driver == provisioner);
    known.then(|| Backing::of(None, Some(provisioner)))
}

/// Returns the drivers of the tables.
pub fn known_drivers() -> impl Iterator<Item = String> {
    let drivers = plugins().filter_map(|(_, _, driver)| driver);
    drivers.chain([SMB]).map(str::to_owned)
}
