//! Reports to show.

use crate::assess::report::{
    API_VERSION, ClusterFacts, DriverReadiness, Finding, KIND, NodeReadiness, ReadinessReport,
    Reason, Source, Upgradeable, Verdict, VolumeUse, Workload,
};

pub const AZURE_DISK: &str = "disk.csi.azure.com";
pub const AZURE_FILE: &str = "file.csi.azure.com";
pub const SMB: &str = "smb.csi.k8s.io";

pub fn report(upgradeable: Upgradeable, reason: Reason, message: &str) -> ReadinessReport {
    ReadinessReport {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        cluster: ClusterFacts {
            kubernetes_version: Some("v1.30.4".to_owned()),
            windows_nodes: 0,
        },
        verdict: Verdict {
            upgradeable,
            reason,
            message: message.to_owned(),
        },
        nodes: Vec::new(),
        volumes: Vec::new(),
        drivers: Vec::new(),
        findings: Vec::new(),
    }
}

pub fn with_nodes(mut report: ReadinessReport, nodes: Vec<NodeReadiness>) -> ReadinessReport {
    report.cluster.windows_nodes = nodes.len();
    report.nodes = nodes;
    report
}

pub fn finding(code: &str, object: &str, message: &str) -> Finding {
    Finding {
        code: code.to_owned(),
        object: object.to_owned(),
        message: message.to_owned(),
    }
}

pub fn node(name: &str, drivers: Option<&[&str]>, missing: &[&str]) -> NodeReadiness {
    NodeReadiness {
        name: name.to_owned(),
        csi_node: drivers.is_some(),
        drivers: strings(drivers.unwrap_or_default()),
        missing_drivers: strings(missing),
        ready: drivers.is_some() && missing.is_empty(),
        findings: Vec::new(),
        needs_csi_proxy: false,
    }
}

pub fn driver(name: &str, registered_on: &[&str], missing_on: &[&str]) -> DriverReadiness {
    DriverReadiness {
        name: name.to_owned(),
        registered_on: strings(registered_on),
        missing_on: strings(missing_on),
        daemon_set: None,
        csi_proxy_pipes: Vec::new(),
        findings: Vec::new(),
    }
}

/// A volume of a pod in the namespace `shop`, behind a claim and a `PersistentVolume` that are named after both.
pub fn volume(
    pod: &str,
    volume: &str,
    plugin: Option<&str>,
    driver: Option<&str>,
    missing_on: &[&str],
) -> VolumeUse {
    VolumeUse {
        workload: Workload {
            kind: "Pod".to_owned(),
            namespace: "shop".to_owned(),
            name: pod.to_owned(),
        },
        volume: volume.to_owned(),
        source: Source::PersistentVolume,
        persistent_volume_claim: Some(format!("{volume}-{pod}")),
        persistent_volume: Some(format!("pv-{volume}-{pod}")),
        storage_class: Some("std".to_owned()),
        plugin: plugin.map(str::to_owned),
        csi_driver: driver.map(str::to_owned),
        in_tree: plugin.is_some(),
        blocking: plugin.is_some() && (driver.is_none() || !missing_on.is_empty()),
        missing_on: strings(missing_on),
    }
}

fn strings(strings: &[&str]) -> Vec<String> {
    strings.iter().map(|&string| string.to_owned()).collect()
}

/// Two drivers missing, a plugin without a driver, a CSI-only driver missing, and findings everywhere.
pub fn held() -> ReadinessReport {
    let mut report = with_nodes(
        report(
            Upgradeable::False,
            Reason::NoCSIMigration,
            "pod shop/cache-0: volume data (kubernetes.io/rbd) has no CSI driver that takes over",
        ),
        vec![
            node("win-1", Some(&[AZURE_FILE]), &[AZURE_DISK, SMB]),
            node("win-2", Some(&[AZURE_DISK, AZURE_FILE]), &[]),
            node("win-3", None, &[AZURE_DISK, AZURE_FILE]),
        ],
    );
    let stopped =
        "csi-proxy is installed and stopped. Look at C:\\var\\log\\csi-proxy\\csi-proxy.log";
    report.nodes[0].ready = false;
    report.nodes[0]
        .findings
        .push(finding("CSIProxyNotReady", "Node/win-1", stopped));
    report.nodes[2].findings = vec![
        finding(
            "CSINodeMissing",
            "CSINode/win-3",
            "there is no CSINode object. Look at the kubelet's log",
        ),
        finding("CSIProxyNotReady", "Node/win-3", stopped),
    ];

    let mut disk = driver(AZURE_DISK, &["win-2"], &["win-1", "win-3"]);
    disk.daemon_set = Some("kube-system/csi-azuredisk-node-win".to_owned());
    disk.csi_proxy_pipes = vec!["csi-proxy-disk-v1".to_owned()];
    disk.findings.push(finding(
        "DriverPodNotReady",
        "Pod/kube-system/csi-azuredisk-node-win-x7k2p",
        "container node-driver-registrar restarts. Look at its log",
    ));
    let mut file = driver(AZURE_FILE, &["win-1", "win-2"], &["win-3"]);
    file.findings.push(finding(
        "DaemonSetMissing",
        "CSIDriver/file.csi.azure.com",
        "no DaemonSet for Windows nodes registers it. Deploy the driver with Windows support",
    ));
    let smb = driver(SMB, &[], &["win-1"]);
    report.drivers = vec![disk, file, smb];

    let mut inline = volume(
        "report-29400",
        "scratch",
        Some("kubernetes.io/azure-file"),
        Some(AZURE_FILE),
        &["win-3"],
    );
    inline.workload.kind = "CronJob".to_owned();
    inline.source = Source::Inline;
    inline.persistent_volume_claim = None;
    inline.persistent_volume = None;
    inline.storage_class = None;
    let disk = Some("kubernetes.io/azure-disk");
    let lacking = &["win-1", "win-3"];
    report.volumes = vec![
        volume("cache-0", "data", Some("kubernetes.io/rbd"), None, &[]),
        inline,
        volume("share-0", "files", None, Some(SMB), &["win-1"]),
        volume("web-0", "data", disk, Some(AZURE_DISK), lacking),
        volume("web-1", "data", disk, Some(AZURE_DISK), lacking),
    ];
    report.findings.push(finding(
        "PersistentVolumeClaimNotFound",
        "PersistentVolumeClaim/shop/old",
        "pod shop/old-0 names this claim, and it is not there. Create it or delete the pod",
    ));
    report
}

/// Everything as it should be.
pub fn registered() -> ReadinessReport {
    let mut report = with_nodes(
        report(
            Upgradeable::True,
            Reason::DriversRegistered,
            "the CSI drivers are registered",
        ),
        vec![
            node("win-1", Some(&[AZURE_DISK]), &[]),
            node("win-2", Some(&[AZURE_DISK, SMB]), &[]),
        ],
    );
    report.drivers = vec![
        driver(AZURE_DISK, &["win-1", "win-2"], &[]),
        driver(SMB, &["win-2"], &[]),
    ];
    report.volumes = vec![volume(
        "web-0",
        "data",
        Some("kubernetes.io/azure-disk"),
        Some(AZURE_DISK),
        &[],
    )];
    report
}

/// No Windows nodes, nothing else.
pub fn empty() -> ReadinessReport {
    report(
        Upgradeable::True,
        Reason::NoWindowsNodes,
        "the cluster has no Windows nodes",
    )
}

/// What would hold, accepted by the administrator.
pub fn overridden() -> ReadinessReport {
    let mut report = with_nodes(
        report(
            Upgradeable::True,
            Reason::Override,
            "the administrator accepts the risk (upgradeGate: Ignore), else DriversMissing: pod shop/web-0",
        ),
        vec![node("win-1", Some(&[]), &[AZURE_DISK])],
    );
    report.drivers = vec![driver(AZURE_DISK, &[], &["win-1"])];
    report.volumes = vec![volume(
        "web-0",
        "data",
        Some("kubernetes.io/azure-disk"),
        Some(AZURE_DISK),
        &["win-1"],
    )];
    report
}

/// Not everything could be read; this much was.
pub fn unknown() -> ReadinessReport {
    let mut report = overridden();
    report.verdict = Verdict {
        upgradeable: Upgradeable::False,
        reason: Reason::ReadinessUnknown,
        message: "not all of the cluster has been read, missing: StorageClass (forbidden)"
            .to_owned(),
    };
    report
}

/// As many nodes and volumes as there may be.
pub fn huge() -> ReadinessReport {
    let names: Vec<String> = (0..600).map(|number| format!("win-{number:03}")).collect();
    let (lacking, having) = names.split_at(70);
    let lacking: Vec<&str> = lacking.iter().map(String::as_str).collect();
    let having: Vec<&str> = having.iter().map(String::as_str).collect();
    let nodes = lacking
        .iter()
        .map(|name| {
            let mut node = node(name, Some(&[]), &[AZURE_DISK]);
            let object = format!("Node/{name}");
            node.findings
                .push(finding("DriverPodMissing", &object, "no pod of the driver"));
            node
        })
        .chain(
            having
                .iter()
                .map(|name| node(name, Some(&[AZURE_DISK]), &[])),
        );
    let mut report = with_nodes(
        report(Upgradeable::False, Reason::DriversMissing, "many"),
        nodes.collect(),
    );
    report.drivers = vec![driver(AZURE_DISK, &having, &lacking)];
    report.volumes = (0..3_000)
        .map(|number| {
            volume(
                &format!("web-{number:04}"),
                "data",
                Some("kubernetes.io/azure-disk"),
                Some(AZURE_DISK),
                &lacking,
            )
        })
        .collect();
    report.findings = (0..30)
        .map(|number| finding("Odd", "Pod/shop/odd", &format!("the reason is {number:02}")))
        .collect();
    report
}

/// What a terminal or a browser would obey, wherever a text can be.
pub const HOSTILE: &str =
    "<b a=\"1\">&\u{1b}[2J\n\r\t\u{7f}\u{9b}31m\u{202e}\u{2066}\u{200b}\u{feff}\u{2028}end";

/// Hostile text in every field.
pub fn hostile() -> ReadinessReport {
    let mut report = with_nodes(
        report(Upgradeable::False, Reason::ReadinessUnknown, HOSTILE),
        vec![node(HOSTILE, Some(&[HOSTILE]), &[HOSTILE])],
    );
    report.cluster.kubernetes_version = Some(HOSTILE.to_owned());
    let found = vec![finding(HOSTILE, HOSTILE, HOSTILE)];
    report.nodes[0].findings.clone_from(&found);
    // Not told with a driver already.
    report.nodes[0].findings[0].code.push('2');
    let mut driver = driver(HOSTILE, &[HOSTILE], &[HOSTILE]);
    driver.daemon_set = Some(HOSTILE.to_owned());
    driver.csi_proxy_pipes = vec![HOSTILE.to_owned()];
    driver.findings.clone_from(&found);
    report.drivers = vec![driver];
    let mut volume = volume(HOSTILE, HOSTILE, Some(HOSTILE), Some(HOSTILE), &[HOSTILE]);
    volume.workload.kind = HOSTILE.to_owned();
    volume.workload.namespace = HOSTILE.to_owned();
    volume.storage_class = Some(HOSTILE.to_owned());
    report.volumes = vec![volume];
    report.findings = found;
    report
}
