//! Generates pods.

use serde_json::{Value, json};

use super::{Os, WHEN, digest, hash, labels, namespace, push, workload_name};

/// The owner of a pod or of a ReplicaSet.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// Its kind, of group `apps`.
    pub kind: &'static str,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
}

impl Owner<'_> {
    pub(super) fn reference(&self) -> Value {
        json!([{"apiVersion": "apps/v1", "kind": self.kind, "name": self.name, "uid": self.uid,
            "controller": true, "blockOwnerDeletion": true}])
    }
}

/// Returns the spec of pods and pod templates.
pub(super) fn pod_spec(os: Os, workload: &str, mounts: &[(&str, &str)]) -> Value {
    let environment: Vec<Value> = ["DATABASE_HOST", "DATABASE_NAME", "QUEUE_URL", "LOG_LEVEL", "FEATURE_FLAGS", "REGION", "OTEL_EXPORTER_OTLP_ENDPOINT", "CACHE_TTL_SECONDS"]
        .iter()
        .map(|name| json!({"name": name, "value": format!("{}.shop.example.com:8443/{workload}", name.to_lowercase())}))
        .chain([
            json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}),
            json!({"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}),
            json!({"name": "DATABASE_PASSWORD", "valueFrom": {"secretKeyRef": {"name": format!("{workload}-database"), "key": "password"}}}),
        ])
        .collect();
    let mounts: Vec<Value> = mounts
        .iter()
        .map(|(name, path)| json!({"name": name, "mountPath": path}))
        .chain([json!({"name": "config", "mountPath": "/etc/shop", "readOnly": true})])
        .collect();
    let probe = |path: &str| {
        json!({"httpGet": {"path": path, "port": 8080, "scheme": "HTTP"}, "initialDelaySeconds": 10, "periodSeconds": 10,
            "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3})
    };
    let container = json!({"name": "server", "image": "registry.example.com/shop/server:4.17.2", "imagePullPolicy": "IfNotPresent",
        "args": ["--config=/etc/shop/config.yaml", "--listen=:8080"], "env": environment,
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}, {"name": "metrics", "containerPort": 9090, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
        "livenessProbe": probe("/healthz"), "readinessProbe": probe("/readyz"), "volumeMounts": mounts,
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"});
    let mut spec = json!({"containers": [container], "serviceAccountName": workload, "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler", "enableServiceLinks": true, "priority": 0,
        "nodeSelector": {"kubernetes.io/os": os.as_str()},
        "tolerations": [{"key": "os", "operator": "Equal", "value": "Windows", "effect": "NoSchedule"}],
        "volumes": [{"name": "config", "configMap": {"name": format!("{workload}-config"), "defaultMode": 420}}]});
    if os == Os::Windows {
        spec["os"] = json!({"name": "windows"});
    }
    spec
}

/// Returns a pod's spec after admission and scheduling.
pub(super) fn bound(mut spec: Value, node: &str) -> Value {
    spec["nodeName"] = json!(node);
    for (key, seconds) in [("not-ready", 300), ("unreachable", 300)] {
        push(
            &mut spec["tolerations"],
            json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}),
        );
    }
    push(
        &mut spec["volumes"],
        json!({"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}]}}),
    );
    push(
        &mut spec["containers"][0]["volumeMounts"],
        json!({"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}),
    );
    spec
}

pub(super) fn pod(
    namespace: &str,
    name: &str,
    workload: &str,
    owner: &Owner<'_>,
    spec: &Value,
) -> Value {
    let mut labels = labels(workload);
    labels["pod-template-hash"] = json!("7d9c8b6f5d");
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": owner.reference(), "annotations": {
            "checksum/config": digest(name.len()), "prometheus.io/port": "9090", "prometheus.io/scrape": "true",
            "kubectl.kubernetes.io/restartedAt": WHEN}},
        "spec": spec})
}

/// Returns the status that a kubelet writes for a running pod.
pub fn pod_status(number: usize) -> Value {
    let condition = |name: &str| json!({"type": name, "status": "True", "lastProbeTime": null, "lastTransitionTime": WHEN});
    let ip = format!("10.244.{}.{}", number / 250 % 250, number % 250 + 2);
    json!({"status": {"phase": "Running", "qosClass": "Burstable", "startTime": WHEN, "hostIP": "10.240.0.7", "hostIPs": [{"ip": "10.240.0.7"}],
        "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": [condition("PodReadyToStartContainers"), condition("Initialized"), condition("Ready"), condition("ContainersReady"), condition("PodScheduled")],
        "containerStatuses": [{"name": "server", "image": "registry.example.com/shop/server:4.17.2",
            "imageID": format!("registry.example.com/shop/server@{}", digest(4)), "containerID": format!("containerd://{}{}", hash(number, 32), hash(number + 1, 32)),
            "ready": true, "started": true, "restartCount": 0, "lastState": {}, "state": {"running": {"startedAt": WHEN}}}]}})
}

/// Returns a pod of a ReplicaSet.
pub fn stateless_pod(
    os: Os,
    workload: usize,
    ordinal: usize,
    node: &str,
    owner: &Owner<'_>,
) -> Value {
    let name = format!("{}-{}", owner.name, hash(ordinal, 5));
    let label = workload_name(os, false, workload);
    pod(
        &namespace(workload),
        &name,
        &label,
        owner,
        &bound(pod_spec(os, &label, &[]), node),
    )
}

/// Returns a pod of a StatefulSet, with the claim of its ordinal.
pub fn stateful_pod(
    os: Os,
    workload: usize,
    ordinal: usize,
    node: &str,
    owner: &Owner<'_>,
) -> Value {
    let name = format!("{}-{ordinal}", owner.name);
    let mut spec = bound(pod_spec(os, owner.name, &[("data", "/data")]), node);
    push(
        &mut spec["volumes"],
        json!({"name": "data", "persistentVolumeClaim": {"claimName": format!("data-{name}")}}),
    );
    pod(&namespace(workload), &name, owner.name, owner, &spec)
}
