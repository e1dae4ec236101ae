//! Services whose commands contain values from their Node, and a document that is edited while nodes are reconciled.

use serde_json::json;

use super::Simulation;
use crate::cluster::harness::{SETTINGS, assert_has};

#[test]
fn a_command_takes_values_of_its_node_and_a_mistake_is_told() {
    let simulation = Simulation::new(2);
    let harness = &simulation.harness;
    harness.kubectl("annotate node win-000 example.org/subnet=10.1.0.0/24");
    let service = json!({
        "name": "overlay",
        "path": r"C:\k\overlay.exe --subnet=SUBNET",
        "nodeVariablesInCommand": [{
            "name": "SUBNET",
            "nodeObjectJsonPath": r"{.metadata.annotations.example\.org/subnet}",
        }],
        "bootstrap": false,
        "priority": 3,
    });
    let write = |services: &str| {
        simulation.write_config_map(
            "windows-services",
            &json!({
                "services": services,
                "files": "[]",
                "environmentVars": r#"{"HTTP_PROXY":"http://10.0.0.1:3128"}"#,
            }),
        );
    };
    // The operator's own entry, as someone else has written it.
    let ours = json!({"name": "CSI-Proxy", "path": r"C:\k\csi-proxy.exe", "bootstrap": false, "priority": 2});
    write(&json!([service, ours]).to_string());
    let _operator = harness.start_with(&simulation.payload("v1.3.0"));
    harness.expect_csi_proxy("win-000");
    let told = harness.expect_node("win-001", "False", "UnresolvedCommand");
    assert_has(&told, &["overlay", "SUBNET"]);
    harness.kubectl("annotate node win-001 example.org/subnet=10.1.1.0/24");
    harness.expect_csi_proxy("win-001");

    // An invalid edit and its correction do not disturb working services.
    let uploads = simulation.host("win-000").counters().uploads;
    let good = harness.get("configmap/windows-services")["data"]["services"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        good.contains("-windows-service") && !good.contains("\"csi-proxy\""),
        "our own entry is mended and not added: {good}"
    );
    write(&good.replace("{.metadata", "metadata"));
    let message = harness.expect(SETTINGS, "ServicesValid", "False", "InvalidServices");
    assert!(message.contains("overlay"), "{message}");
    assert_eq!(simulation.ready().len(), 2);
    write(&good);
    harness.expect(SETTINGS, "ServicesValid", "True", "Valid");
    let logins = simulation.host("win-000").counters().logins;
    harness.eventually("the node was looked at again", || {
        simulation.host("win-000").counters().logins > logins
    });
    assert_eq!(
        simulation.host("win-000").counters().uploads,
        uploads,
        "nothing is handed over again"
    );
    harness.assert_nothing_was_forbidden();
}
