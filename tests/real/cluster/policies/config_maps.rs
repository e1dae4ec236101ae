//! Policies for the operator's ConfigMaps.

use super::*;

#[test]
fn the_operators_config_maps_are_for_itself_and_administrators() {
    let Some(control_plane) = with_policies(DENY) else {
        return;
    };
    let as_team = control_plane.kubeconfig_for("someone", &["team"]).unwrap();
    let as_operator = control_plane
        .kubeconfig_for_service_account(NAMESPACE, "windows-storage-operator")
        .unwrap();
    let ask = |who: Option<&Path>, line: &str| {
        let who = who.map(|who| format!("--kubeconfig={}", who.display()));
        let mut arguments: Vec<&str> = line.split(' ').collect();
        arguments.extend(who.as_deref());
        said(&control_plane, &arguments, None)
    };
    let (team, operator) = (Some(&*as_team), Some(&*as_operator));
    let patch = "--type=merge -p {\"data\":{\"a\":\"b\"}}";
    for map in [
        "windows-services",
        "windows-storage-host-keys",
        "windows-instances",
    ] {
        let create = format!("create configmap {map} -n {NAMESPACE}");
        let change = format!("patch configmap {map} -n {NAMESPACE} {patch}");
        let delete = format!("delete configmap {map} -n {NAMESPACE}");
        let refused = ask(team, &create);
        assert!(refused.is_refused("Ask an administrator"), "{refused:?}");
        let by_operator = ask(operator, &format!("{create} --dry-run=server"));
        assert!(by_operator.is_silent(), "{by_operator:?}");
        assert!(ask(None, &create).is_silent());
        for line in [&change, &delete] {
            let refused = ask(team, line);
            assert!(refused.is_refused("Ask an administrator"), "{refused:?}");
        }
        assert!(ask(None, &change).is_silent());
        let elsewhere = ask(team, &format!("create configmap {map} -n shop"));
        assert!(elsewhere.is_silent(), "{elsewhere:?}");
    }
    assert!(ask(team, &format!("create configmap other -n {NAMESPACE}")).is_silent());
    // Deleting all ConfigMaps would include these.
    let all = format!("delete --raw /api/v1/namespaces/{NAMESPACE}/configmaps");
    let refused = ask(team, &all);
    assert!(
        refused.warnings.contains("Ask an administrator"),
        "{refused:?}"
    );
    let left = control_plane
        .kubectl(&["get", "configmaps", "-n", NAMESPACE, "-o", "name"])
        .unwrap();
    assert_eq!(
        left.lines()
            .filter(|line| line.contains("/windows-"))
            .count(),
        3,
        "{left}"
    );
    // The namespace itself can still be deleted, by the controller that empties it.
    control_plane
        .start_controller_manager("namespace-controller")
        .unwrap();
    let removed = ask(None, &format!("delete namespace {NAMESPACE} --timeout=60s"));
    assert!(removed.is_silent(), "{removed:?}");
}
