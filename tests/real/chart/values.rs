//! The effect of the chart's values, and which values are refused.

use serde_json::Value;

use crate::chart::helm::{Helm, OPERATOR, Objects};

/// Values, and where they show: values, object, pointer, expected value.
const VALUES: &str = r#"
- [{replicaCount: 0}, DEPLOYMENT, /spec/replicas, 0]
- [{topologySpreadConstraints: [{maxSkew: 1}]}, DEPLOYMENT, POD/spec/topologySpreadConstraints, [{maxSkew: 1}]]
- [{commonLabels: {team: "7"}}, DEPLOYMENT, /metadata/labels/team, "7"]
- [{commonLabels: {team: "7"}}, DEPLOYMENT, POD/metadata/labels/team, "7"]
- [{commonLabels: {team: "7"}, podLabels: {team: "8"}}, DEPLOYMENT, POD/metadata/labels/team, "8"]
- [{commonLabels: {release: a}, metrics: {serviceMonitor: {enabled: true, labels: {release: b}}}}, ServiceMonitor NAME, /metadata/labels/release, b]
- [{commonLabels: {team: "7"}}, CustomResourceDefinition /windowsstorages.windowsstorage.dev, /metadata/labels/team, "7"]
- [{serviceAccount: {name: mine}}, DEPLOYMENT, POD/spec/serviceAccountName, mine]
- [{serviceAccount: {name: mine, annotations: {a: b}}}, "ServiceAccount NAMESPACE/mine", /metadata/annotations, {a: b}]
- [{serviceAccount: {name: mine}}, "ClusterRoleBinding /NAMESPACE", /subjects/0/name, mine]
- [{serviceAccount: {create: false, name: mine}}, "RoleBinding NAME", /subjects/0/name, mine]
- [{podDisruptionBudget: {enabled: true}}, PodDisruptionBudget NAME, /spec/maxUnavailable, 1]
- [{podDisruptionBudget: {enabled: true, maxUnavailable: 50%}}, PodDisruptionBudget NAME, /spec/maxUnavailable, 50%]
- [{}, CustomResourceDefinition /windowsstorages.windowsstorage.dev, /metadata/annotations, {helm.sh/resource-policy: keep}]
- [{crds: {keep: false}}, CustomResourceDefinition /windowsstorages.windowsstorage.dev, /metadata/annotations, null]
- [{metrics: {prometheusRule: {enabled: true, labels: {release: prometheus}}}}, PrometheusRule NAME, /metadata/labels/release, prometheus]
- [{metrics: {prometheusRule: {enabled: true, runbooks: "https://x.org/a"}}}, PrometheusRule NAME, /spec/groups/1/rules/0/annotations/runbook_url, "https://x.org/a/docs/monitoring.md#windowsstorageoperatordown"]
- [{metrics: {dashboard: {enabled: true, labels: {folder: "7"}}}}, ConfigMap NAME-dashboard, /metadata/labels/folder, "7"]
- [{image: {repository: "registry.example.com:5000/storage/operator", tag: "2"}}, DEPLOYMENT, CONTAINER/image, "registry.example.com:5000/storage/operator:2"]
- [{image: {repository: example.com/operator, tag: ""}}, DEPLOYMENT, CONTAINER/image, "example.com/operator:VERSION"]
- [{image: {repository: example.com/operator, digest: "sha256:DIGEST"}}, DEPLOYMENT, CONTAINER/image, "example.com/operator@sha256:DIGEST"]
- [{image: {pullPolicy: Always}}, DEPLOYMENT, CONTAINER/imagePullPolicy, Always]
- [{imagePullSecrets: [{name: registry}]}, DEPLOYMENT, POD/spec/imagePullSecrets, [{name: registry}]]
- [{resources: {limits: {memory: 1Gi}}}, DEPLOYMENT, CONTAINER/resources, {requests: {cpu: 10m, memory: 64Mi}, limits: {memory: 1Gi}}]
- [{nodeSelector: {pool: infra}}, DEPLOYMENT, POD/spec/nodeSelector, {kubernetes.io/os: linux, pool: infra}]
- [{tolerations: [{key: infra, operator: Exists}]}, DEPLOYMENT, POD/spec/tolerations, [{key: infra, operator: Exists}]]
- [{affinity: {podAntiAffinity: null}}, DEPLOYMENT, POD/spec/affinity, null]
- [{priorityClassName: system-cluster-critical}, DEPLOYMENT, POD/spec/priorityClassName, system-cluster-critical]
- [{podLabels: {team: "7"}}, DEPLOYMENT, POD/metadata/labels, {app.kubernetes.io/name: windows-storage-operator, team: "7"}]
- [{podLabels: {team: "7"}}, DEPLOYMENT, /spec/selector/matchLabels, {app.kubernetes.io/name: windows-storage-operator}]
- [{podAnnotations: {sidecar.istio.io/inject: "false"}}, DEPLOYMENT, POD/metadata/annotations, {sidecar.istio.io/inject: "false"}]
- [{logLevel: debug}, DEPLOYMENT, CONTAINER/args/5, --log-level=debug]
- [{logLevel: debug, extraArgs: ["--leader-elect=false"]}, DEPLOYMENT, CONTAINER/args/6, --leader-elect=false]
- [{metrics: {serviceMonitor: {enabled: true, labels: {release: prometheus}}}}, ServiceMonitor NAME, /metadata/labels/release, prometheus]
"#;

#[test]
fn each_value_is_where_it_belongs() {
    let helm = Helm::offline();
    let name = format!("{OPERATOR}/{OPERATOR}");
    let table = VALUES
        .replace("DEPLOYMENT", "Deployment NAME")
        .replace("NAMESPACE", OPERATOR)
        .replace("NAME", &name)
        .replace("CONTAINER", "POD/spec/containers/0")
        .replace("POD", "/spec/template")
        .replace("VERSION", env!("CARGO_PKG_VERSION"))
        .replace("DIGEST", &"0f".repeat(32));
    let rows: Vec<(Value, String, String, Value)> = serde_yaml::from_str(&table).unwrap();
    for (values, object, pointer, expected) in rows {
        let values = values.to_string();
        let objects = helm.template(OPERATOR, &values);
        let found = objects[&object].pointer(&pointer);
        assert_eq!(*found.unwrap_or(&Value::Null), expected, "{values}");
    }
}

#[test]
fn what_is_switched_off_is_not_there() {
    let helm = Helm::offline();
    let kinds = |objects: &Objects| -> Vec<String> {
        let kinds = objects.values().map(|object| object["kind"].as_str());
        kinds.map(|kind| kind.unwrap().to_owned()).collect()
    };
    let all = kinds(&helm.template(OPERATOR, ""));
    for (values, gone) in [
        ("networkPolicy: {enabled: false}", "NetworkPolicy"),
        ("rbac: {viewerRole: false}", "ClusterRole"),
        (
            "rbac: {create: false}",
            "ClusterRole ClusterRole ClusterRole ClusterRoleBinding Role RoleBinding",
        ),
        ("serviceAccount: {create: false}", "ServiceAccount"),
        (
            "crds: {enabled: false}",
            "CustomResourceDefinition CustomResourceDefinition",
        ),
    ] {
        let mut left = kinds(&helm.template(OPERATOR, values));
        left.extend(gone.split(' ').map(str::to_owned));
        left.sort();
        assert_eq!(left, all, "{values}");
    }
}

/// Values that are refused, with a part of the error: the path of the value, and what is wrong with it.
const REFUSED: &str = r#"
- [{replicas: 2}, "additional properties 'replicas' not allowed"]
- [{replicaCount: two}, "at '/replicaCount': got string, want integer"]
- [{replicaCount: -1}, "at '/replicaCount': minimum: got -1, want 0"]
- [{commonLabels: {app.kubernetes.io/name: mine}}, "at '/commonLabels/app.kubernetes.io~1name'"]
- [{metrics: {prometheusRule: {runbooks: docs}}}, "at '/metrics/prometheusRule/runbooks'"]
- [{image: "example.com/operator:1"}, "at '/image': got string, want object"]
- [{image: {repository: ""}}, "at '/image/repository'"]
- [{image: {tag: a b}}, "at '/image/tag'"]
- [{image: {tag: 1}}, "at '/image/tag': got number, want string"]
- [{image: {digest: "sha256:0f"}}, "at '/image/digest'"]
- [{image: {pullPolicy: Sometimes}}, "at '/image/pullPolicy': value must be one of"]
- [{imagePullSecrets: [registry]}, "at '/imagePullSecrets/0': got string, want object"]
- [{resources: {limit: {}}}, "at '/resources': additional properties 'limit' not allowed"]
- [{nodeSelector: {pool: 1}}, "at '/nodeSelector/pool': got number, want string"]
- [{nodeSelector: {kubernetes.io/os: windows}}, "at '/nodeSelector/kubernetes.io~1os': value must be 'linux'"]
- [{nodeSelector: {kubernetes.io/os: null}}, "at '/nodeSelector': missing property 'kubernetes.io/os'"]
- [{metrics: {serviceMonitor: null}}, "at '/metrics': missing property 'serviceMonitor'"]
- [{podLabels: {app.kubernetes.io/name: mine}}, "at '/podLabels"]
- [{logLevel: verbose}, "at '/logLevel': value must be one of"]
- [{extraArgs: --once}, "at '/extraArgs': got string, want array"]
- [{rbac: {create: "no"}}, "at '/rbac/create': got string, want boolean"]
- [{windowsStorage: {spec: {}}}, "additional properties 'windowsStorage' not allowed"]
- [{image: null}, "at '': missing property 'image'"]
- [{nodeSelector: null}, "at '': missing property 'nodeSelector'"]
- [{rbac: null}, "at '': missing property 'rbac'"]
- [{metrics: null}, "at '': missing property 'metrics'"]
- [{networkPolicy: null}, "at '': missing property 'networkPolicy'"]
- [{crds: null}, "at '': missing property 'crds'"]
- [{podDisruptionBudget: {maxUnavailable: null}}, "at '/podDisruptionBudget': missing property 'maxUnavailable'"]
- [{podDisruptionBudget: {maxUnavailable: half}}, "at '/podDisruptionBudget/maxUnavailable'"]
- [{mustGather: null}, "at '': missing property 'mustGather'"]
"#;

#[test]
fn wrong_values_are_refused_by_name() {
    let helm = Helm::offline();
    let rows: Vec<(Value, String)> = serde_yaml::from_str(REFUSED).unwrap();
    for (values, complaint) in rows {
        let refusal = helm.refused(&values.to_string());
        assert!(refusal.contains(&complaint), "{values}: {refusal}");
    }
}
