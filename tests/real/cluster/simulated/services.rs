//! The `windows-services` ConfigMap, edited by others while nodes are reconciled.

use serde_json::{Value, json};

use super::Simulation;
use crate::cluster::harness::{SETTINGS, assert_has};

const MAP: &str = "configmap/windows-services";

#[test]
fn our_entry_stays_as_it_is_and_what_else_is_listed_is_run_by_nobody() {
    let simulation = Simulation::new(2);
    let harness = &simulation.harness;
    // As the Windows Machine Config Operator writes its own.
    let kubelet = json!({
        "name": "kubelet",
        "path": r"C:\k\kubelet.exe --node-ip=NODE_IP",
        "nodeVariablesInCommand": [{"name": "NODE_IP", "nodeObjectJsonPath": "literal"}],
        "powershellPreScripts": [{"variableName": "", "path": "Get-Date", "NodeArgs": null}],
        "dependencies": ["containerd"],
        "bootstrap": true,
        "priority": 1,
    });
    let write = |ours: &Value| {
        let services = json!([kubelet, ours]).to_string();
        simulation.write_config_map(
            "windows-services",
            &json!({"services": services, "files": "[]"}),
        );
    };
    let listed = || -> Vec<Value> {
        let map = harness.get(MAP);
        serde_json::from_str(map["data"]["services"].as_str().unwrap()).unwrap()
    };
    let theirs = json!({"name": "CSI-Proxy", "path": r"C:\k\csi-proxy.exe", "bootstrap": false, "priority": 2});
    write(&theirs);
    let _operator = harness.start_with(&simulation.payload("v1.3.0"));
    for node in ["win-000", "win-001"] {
        harness.expect_csi_proxy(node);
    }
    let told = harness.expect(SETTINGS, "ServicesValid", "True", "OthersNotRun");
    assert_has(&told, &["kubelet"]);
    let [other, ours] = &listed()[..] else {
        panic!("{:?}", listed())
    };
    assert_eq!(*other, kubelet);
    assert_eq!(ours["name"], "CSI-Proxy", "it is mended and not added");
    let command = ours["path"].as_str().unwrap().to_owned();
    assert_eq!(simulation.host("win-000").command(), Some(command));

    let uploads = simulation.host("win-000").counters().uploads;
    for (key, value) in [
        (
            "powershellPreScripts",
            json!([{"variableName": "X", "path": "Get-Date", "NodeArgs": null}]),
        ),
        (
            "nodeVariablesInCommand",
            json!([{"name": "X", "nodeObjectJsonPath": "{.metadata.name}"}]),
        ),
        ("dependencies", json!(["kubelet"])),
        ("path", json!(r"C:\other\csi-proxy.exe -windows-service")),
    ] {
        let mut changed = ours.clone();
        changed[key] = value;
        write(&changed);
        harness.eventually(&format!("{key} is mended"), || listed()[1] == *ours);
    }

    // Flags that csi-proxy does not have are refused before anything is written.
    harness.want(&json!({"csiProxy": {"extraArgs": ["-overlay=1"]}}));
    let told = harness.expect(SETTINGS, "ServicesValid", "False", "InvalidServices");
    assert_has(&told, &["extraArgs", "csi-proxy has no flag -overlay"]);
    assert_eq!(listed()[1], *ours);
    harness.want(&json!({"csiProxy": null}));
    harness.expect(SETTINGS, "ServicesValid", "True", "OthersNotRun");
    let logins = simulation.host("win-000").counters().logins;
    harness.eventually("the node was looked at again", || {
        simulation.host("win-000").counters().logins > logins
    });
    let now = simulation.host("win-000").counters().uploads;
    assert_eq!(now, uploads, "nothing is handed over again");
    assert_eq!(simulation.ready().len(), 2);
    harness.assert_nothing_was_forbidden();
}
