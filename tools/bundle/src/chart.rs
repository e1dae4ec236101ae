//! The Helm chart: the objects of `manifests/kustomization.yaml` as templates, and Helm-specific files from
//! `manifests/helm/`.
//!
//! CRDs are templates, so that they are upgraded with the release. Therefore the chart cannot contain the object of the
//! settings: Helm queries the API server for the kinds of all objects before it creates the first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_yaml::{Mapping, Value};

use crate::releases::Release;
use crate::sources::{
    GENERATED, at, crds, documents, generated, listed, mapping_at, mappings_at, object, text,
    text_at, yaml,
};
use crate::values::Values;
use crate::{PACKAGE, image, template};

const CHART: &str = "charts/windows-storage-operator";
const DISRUPTION: &str = "manifests/helm/poddisruptionbudget.yaml";
/// What comes with monitoring, and the name of the value that asks for it.
const MONITORING: [(&str, &str); 3] = [
    ("manifests/monitoring/access.yaml", "serviceMonitor"),
    ("manifests/monitoring/servicemonitor.yaml", "serviceMonitor"),
    ("manifests/monitoring/alerts.yaml", "prometheusRule"),
];
const DASHBOARD: &str = "manifests/monitoring/dashboard.json";
const CSV: &str = "manifests/olm/clusterserviceversion.yaml";
const VIEWER: &str = "windows-storage-operator-viewer";
const ACCOUNT: &str = "{{ .Values.serviceAccount.name | default \"windows-storage-operator\" }}";

pub(crate) fn render(root: &Path, release: &Release) -> Result<BTreeMap<PathBuf, String>> {
    let values = Values::of(root, release)?;
    let mut files = BTreeMap::from([
        ("Chart.yaml".to_owned(), chart(root, release)?),
        ("README.md".to_owned(), values.readme()?),
        ("values.yaml".to_owned(), values.yaml()?),
        ("values.schema.json".to_owned(), values.schema()?),
        (
            "templates/NOTES.txt".to_owned(),
            text(root, "manifests/helm/NOTES.txt")?,
        ),
        // As files, their braces are not Helm's.
        ("files/dashboard.json".to_owned(), text(root, DASHBOARD)?),
    ]);
    let mut objects = listed(root)?;
    for path in MONITORING
        .map(|(path, _)| path)
        .into_iter()
        .chain([DISRUPTION])
    {
        let found = documents(root, path)?.into_iter();
        objects.extend(found.map(|object| (path.to_owned(), object)));
    }
    for crd in crds(root)? {
        let path = format!("crds/{}", crd.file_name);
        objects.push((path.clone(), yaml(root, &path)?));
    }
    objects.push((DASHBOARD.to_owned(), dashboard()));
    for (path, mut object) in objects {
        let kind = text_at(&object, "kind", &path)?.to_lowercase();
        let name = text_at(&object, "metadata.name", &path)?.to_owned();
        if kind == "namespace" {
            continue;
        }
        if kind == "prometheusrule" {
            let spec = at(&object, "spec", &path)?;
            files.insert("files/alerts.yaml".to_owned(), serde_yaml::to_string(spec)?);
        }
        let is_rbac = text_at(&object, "apiVersion", &path)?.starts_with("rbac.")
            || (kind == "serviceaccount" && name != PACKAGE);
        let file = if is_rbac { "rbac" } else { &kind };
        let condition = match file {
            "rbac" => Some("rbac.create"),
            "networkpolicy" => Some("networkPolicy.enabled"),
            "serviceaccount" => Some("serviceAccount.create"),
            "poddisruptionbudget" => Some("podDisruptionBudget.enabled"),
            "customresourcedefinition" => Some("crds.enabled"),
            _ if path == DASHBOARD => Some("metrics.dashboard.enabled"),
            _ => None,
        };
        let mut conditions: Vec<String> = condition.into_iter().map(str::to_owned).collect();
        conditions.extend((name == VIEWER).then(|| "rbac.viewerRole".to_owned()));
        let monitoring = MONITORING.iter().find(|(of, _)| *of == path);
        conditions.extend(monitoring.map(|(_, value)| format!("metrics.{value}.enabled")));
        let mut template = templated(&mut object, &path)?;
        for condition in conditions {
            template = format!("{{{{- if .Values.{condition} }}}}\n{template}{{{{- end }}}}\n");
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

/// Returns the dashboard's `ConfigMap`.
fn dashboard() -> Value {
    let labels = [("app.kubernetes.io/name", PACKAGE.into())];
    let metadata = [
        ("name", "windows-storage-operator-dashboard".into()),
        ("namespace", PACKAGE.into()),
        ("labels", object(labels)),
    ];
    let json = r#"@with (.Files.Get "files/dashboard.json") => {{ toJson . }}"#;
    object([
        ("apiVersion", "v1".into()),
        ("kind", "ConfigMap".into()),
        ("metadata", object(metadata)),
        (
            "data",
            object([("windows-storage-operator.json", json.into())]),
        ),
    ])
}

/// Returns an object as a template.
fn templated(object: &mut Value, path: &str) -> Result<String> {
    let more = match text_at(object, "kind", path)? {
        "ServiceMonitor" => Some("metrics.serviceMonitor.labels"),
        "PrometheusRule" => Some("metrics.prometheusRule.labels"),
        "ConfigMap" => Some("metrics.dashboard.labels"),
        _ => None,
    };
    // A key that both have may be there only once.
    let common = match more {
        Some(more) => format!("@block (merge (dict) .Values.{more} .Values.commonLabels)"),
        None => "@block .Values.commonLabels".to_owned(),
    };
    let metadata = mapping_at(object, "metadata", path)?;
    let labels = metadata.entry("labels".into());
    labels.or_insert_with(|| Value::Mapping(Mapping::new()));
    let labels = mapping_at(object, "metadata.labels", path)?;
    for (label, value) in [
        ("app.kubernetes.io/instance", "{{ .Release.Name }}"),
        ("app.kubernetes.io/version", "{{ .Chart.AppVersion }}"),
        ("app.kubernetes.io/managed-by", "{{ .Release.Service }}"),
        ("app.kubernetes.io/name", PACKAGE),
        ("helm.sh/chart", "{{ .Chart.Name }}-{{ .Chart.Version }}"),
        (&common, ""),
    ] {
        labels.insert(label.into(), value.into());
    }
    match text_at(object, "kind", path)?.to_owned().as_str() {
        "Deployment" => configure(object, path)?,
        "PrometheusRule" => {
            let mark = r#"@with (.Files.Get "files/alerts.yaml") => {{ . | replace "https://windows-storage-operator.invalid" $.Values.metrics.prometheusRule.runbooks | nindent 2 }}"#;
            let members = object.as_mapping_mut();
            members.map(|members| members.insert("spec".into(), mark.into()));
        }
        "ServiceAccount" if text_at(object, "metadata.name", path)? == PACKAGE => {
            let metadata = mapping_at(object, "metadata", path)?;
            metadata.insert("name".into(), ACCOUNT.into());
            let mark = "@block .Values.serviceAccount.annotations";
            metadata.insert("annotations".into(), mark.into());
        }
        "RoleBinding" | "ClusterRoleBinding" => {
            for subject in mappings_at(object, "subjects", path)? {
                if subject.get("name").and_then(Value::as_str) == Some(PACKAGE) {
                    subject.insert("name".into(), ACCOUNT.into());
                }
            }
        }
        "CustomResourceDefinition" => {
            let mark = r#"@block (ternary (dict "helm.sh/resource-policy" "keep") dict .Values.crds.keep)"#;
            mapping_at(object, "metadata", path)?.insert("annotations".into(), mark.into());
        }
        "PodDisruptionBudget" => {
            let mark = "@value .Values.podDisruptionBudget.maxUnavailable";
            mapping_at(object, "spec", path)?.insert("maxUnavailable".into(), mark.into());
        }
        _ => {}
    }
    // Puts objects, and the objects they refer to, into the namespace of the release.
    let [own, of_release] = [PACKAGE, "'{{ .Release.Namespace }}'"]
        .map(|namespace| format!("namespace: {namespace}\n"));
    template::fill(&serde_yaml::to_string(object)?.replace(&own, &of_release))
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
    set("spec", &[("replicas", "@value .Values.replicaCount")])?;
    let labels = "@block (merge (dict) .Values.podLabels .Values.commonLabels)";
    let labels = (labels, "");
    set("spec.template.metadata.labels", &[labels])?;
    let annotations = ("annotations", "@block .Values.podAnnotations");
    set("spec.template.metadata", &[annotations])?;
    set(
        "spec.template.spec",
        &[
            ("serviceAccountName", ACCOUNT),
            ("imagePullSecrets", "@block .Values.imagePullSecrets"),
            ("nodeSelector", "@block .Values.nodeSelector"),
            ("tolerations", "@block .Values.tolerations"),
            ("affinity", "@block .Values.affinity"),
            (
                "topologySpreadConstraints",
                "@block .Values.topologySpreadConstraints",
            ),
            (
                "priorityClassName",
                "@with .Values.priorityClassName => {{ toYaml . }}",
            ),
        ],
    )
}
