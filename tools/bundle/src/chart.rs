//! The Helm chart: the objects of `manifests/kustomization.yaml` as templates, and Helm-specific files from
//! `manifests/helm/`.
//!
//! CRDs go to `crds/`, which Helm installs first. As templates they would be upgraded with the release, but then the
//! chart could not contain the object of `windowsStorage.spec`: Helm queries the API server for the kinds of all
//! objects before it creates the first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde_yaml::Value;

use crate::releases::Release;
use crate::sources::{
    GENERATED, at, crds, documents, generated, listed, mapping_at, mappings_at, object,
    settings_schema, text, text_at, yaml,
};
use crate::{PACKAGE, image, template};

const CHART: &str = "charts/windows-storage-operator";
const VALUES: &str = "manifests/helm/values.yaml";
const SCHEMA: &str = "manifests/helm/values.schema.json";
const SETTINGS: &str = "manifests/helm/windowsstorage.yaml";
const MONITORING: [&str; 2] = [
    "manifests/monitoring/access.yaml",
    "manifests/monitoring/servicemonitor.yaml",
];
const CSV: &str = "manifests/olm/clusterserviceversion.yaml";
const VIEWER: &str = "windows-storage-operator-viewer";

/// Whether a release has the object of the settings. It has it before there are any, because Helm does not take over
/// later what the operator created. It cannot have it before the CRDs exist, as in `helm template`, or if the user of
/// Helm may not create cluster-wide objects.
const HAS_SETTINGS: &str = r#"or .Values.windowsStorage.spec (and .Values.rbac.create (.Capabilities.APIVersions.Has "windowsstorage.dev/v1alpha1"))"#;

pub(crate) fn render(root: &Path, release: &Release) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::from([
        ("Chart.yaml".to_owned(), chart(root, release)?),
        ("values.yaml".to_owned(), values(root, release)?),
        ("values.schema.json".to_owned(), schema(root)?),
        (
            "templates/NOTES.txt".to_owned(),
            text(root, "manifests/helm/NOTES.txt")?,
        ),
    ]);
    for crd in crds(root)? {
        files.insert(format!("crds/{}", crd.file_name), crd.text);
    }
    let mut objects = listed(root)?;
    for path in MONITORING.into_iter().chain([SETTINGS]) {
        let found = documents(root, path)?.into_iter();
        objects.extend(found.map(|object| (path.to_owned(), object)));
    }
    for (path, object) in objects {
        let kind = text_at(&object, "kind", &path)?.to_lowercase();
        if kind == "namespace" {
            continue;
        }
        let is_rbac =
            text_at(&object, "apiVersion", &path)?.starts_with("rbac.") || kind == "serviceaccount";
        let file = if is_rbac { "rbac" } else { &kind };
        let mut conditions = Vec::new();
        match file {
            "rbac" => conditions.push(".Values.rbac.create"),
            "networkpolicy" => conditions.push(".Values.networkPolicy.enabled"),
            "windowsstorage" => conditions.push(HAS_SETTINGS),
            _ => {}
        }
        if text_at(&object, "metadata.name", &path)? == VIEWER {
            conditions.push(".Values.rbac.viewerRole");
        }
        if MONITORING.contains(&path.as_str()) {
            conditions.push(".Values.metrics.serviceMonitor.enabled");
        }
        let mut template = templated(object, &path)?;
        for condition in conditions {
            template = format!("{{{{- if {condition} }}}}\n{template}{{{{- end }}}}\n");
        }
        files
            .entry(format!("templates/{file}.yaml"))
            .and_modify(|text| text.extend(["---\n", &template]))
            .or_insert_with(|| {
                format!("{{{{- /* {} */}}}}\n{template}", GENERATED[2..].trim_end())
            });
    }
    let in_chart = |(file, text)| (Path::new(CHART).join(file), text);
    Ok(files.into_iter().map(in_chart).collect())
}

/// Returns `Chart.yaml`. Its description of the operator is that of the `ClusterServiceVersion`.
fn chart(root: &Path, release: &Release) -> Result<String> {
    let csv: Value = yaml(root, CSV)?;
    let kubernetes = text_at(&csv, "spec.minKubeVersion", CSV)?;
    let version = release.version.to_string();
    let mut members = vec![
        ("apiVersion", "v2".into()),
        ("name", PACKAGE.into()),
        ("type", "application".into()),
        ("version", version.clone().into()),
        ("appVersion", version.into()),
        // Providers' clusters have versions such as 1.30.4-gke.1, which sort before 1.30.4.
        ("kubeVersion", format!(">={kubernetes}-0").into()),
        (
            "description",
            at(&csv, "metadata.annotations.description", CSV)?.clone(),
        ),
        ("keywords", at(&csv, "spec.keywords", CSV)?.clone()),
        ("maintainers", at(&csv, "spec.maintainers", CSV)?.clone()),
    ];
    if let Some(repository) = &release.repository {
        let repository = Value::from(repository.as_str());
        members.push(("home", repository.clone()));
        members.push(("sources", vec![repository].into()));
    }
    generated(&object(members))
}

/// Returns the values, with the images of the release.
fn values(root: &Path, release: &Release) -> Result<String> {
    let (name, tag, digest) = image::parse(&release.image)?;
    let must_gather = release.must_gather()?;
    let mut values = text(root, VALUES)?;
    for (mark, value) in [
        ("@REPOSITORY@", name),
        ("@TAG@", tag.unwrap_or_default()),
        ("@DIGEST@", digest.unwrap_or_default()),
        ("@MUST_GATHER@", &must_gather),
    ] {
        ensure!(values.contains(mark), "{VALUES}: has no {mark}");
        values = values.replace(mark, value);
    }
    Ok(format!("{GENERATED}{values}"))
}

/// Returns the schema of the values, including that of `WindowsStorage`.
fn schema(root: &Path) -> Result<String> {
    let mut schema: Value = yaml(root, SCHEMA)?;
    let mut spec = settings_schema(root)?;
    refuse_unknown_fields(&mut spec);
    mapping_at(&mut schema, "properties.windowsStorage.properties", SCHEMA)?
        .insert("spec".into(), spec);
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}

/// Rejects unknown fields. The API server does so by itself, but a JSON schema has to say it.
fn refuse_unknown_fields(schema: &mut Value) {
    match schema {
        Value::Mapping(members) => {
            for (_, member) in members.iter_mut() {
                refuse_unknown_fields(member);
            }
            if members.get("properties").is_some_and(Value::is_mapping) {
                members.insert("additionalProperties".into(), false.into());
            }
        }
        Value::Sequence(items) => items.iter_mut().for_each(refuse_unknown_fields),
        _ => {}
    }
}

/// Returns an object as a template.
fn templated(mut object: Value, path: &str) -> Result<String> {
    let labels = mapping_at(&mut object, "metadata.labels", path)?;
    for (label, value) in [
        ("app.kubernetes.io/instance", "{{ .Release.Name }}"),
        ("app.kubernetes.io/version", "{{ .Chart.AppVersion }}"),
        ("app.kubernetes.io/managed-by", "{{ .Release.Service }}"),
        ("helm.sh/chart", "{{ .Chart.Name }}-{{ .Chart.Version }}"),
    ] {
        labels.insert(label.into(), value.into());
    }
    match text_at(&object, "kind", path)? {
        "Deployment" => configure(&mut object, path)?,
        "ServiceMonitor" => {
            let labels = mapping_at(&mut object, "metadata.labels", path)?;
            let mark = "@block .Values.metrics.serviceMonitor.labels";
            labels.insert(mark.into(), "".into());
        }
        _ => {}
    }
    // Puts objects, and the objects they refer to, into the namespace of the release.
    let [own, of_release] = [PACKAGE, "'{{ .Release.Namespace }}'"]
        .map(|namespace| format!("namespace: {namespace}\n"));
    template::fill(&serde_yaml::to_string(&object)?.replace(&own, &of_release))
}

/// Makes the Deployment configurable by the values.
fn configure(deployment: &mut Value, path: &str) -> Result<()> {
    let image = "{{ with .Values.image }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}{{ end }}";
    image::set_in_deployment(deployment, image, path)?;
    for container in mappings_at(deployment, "spec.template.spec.containers", path)? {
        for (key, mark) in [
            (
                "imagePullPolicy",
                "@with .Values.image.pullPolicy => {{ . }}",
            ),
            ("resources", "@block .Values.resources"),
        ] {
            container.insert(key.into(), mark.into());
        }
        if let Some(arguments) = container.get_mut("args").and_then(Value::as_sequence_mut) {
            arguments.push("@with .Values.logLevel => --log-level={{ . }}".into());
            arguments.push("@block .Values.extraArgs".into());
        }
    }
    let mut set = |at: &str, members: &[(&str, &str)]| -> Result<()> {
        let at = mapping_at(deployment, at, path)?;
        for (key, mark) in members {
            at.insert((*key).into(), (*mark).into());
        }
        Ok(())
    };
    set("spec", &[("replicas", "@value .Values.replicas")])?;
    let labels = ("@block .Values.podLabels", "");
    set("spec.template.metadata.labels", &[labels])?;
    let annotations = ("annotations", "@block .Values.podAnnotations");
    set("spec.template.metadata", &[annotations])?;
    set(
        "spec.template.spec",
        &[
            ("imagePullSecrets", "@block .Values.imagePullSecrets"),
            ("nodeSelector", "@block .Values.nodeSelector"),
            ("tolerations", "@block .Values.tolerations"),
            ("affinity", "@block .Values.affinity"),
            (
                "priorityClassName",
                "@with .Values.priorityClassName => {{ toYaml . }}",
            ),
        ],
    )
}
