//! Who may install the chart: a cluster administrator, or a namespace administrator after a cluster administrator's
//! preparation.

use crate::chart::helm::{GUIDE, Helm};
use crate::chart::install::{assert_the_operator_works, cluster};

#[test]
fn the_administrator_of_a_namespace_installs_what_a_cluster_administrator_has_prepared() {
    let (control_plane, administrator) = cluster();
    // This controller aggregates the rules of the role `admin`.
    let controller = "clusterrole-aggregation-controller";
    control_plane.start_controller_manager(controller).unwrap();
    for create in [
        "create namespace storage",
        "create rolebinding owner --namespace storage --clusterrole admin --user owner",
    ] {
        let words: Vec<&str> = create.split(' ').collect();
        control_plane.kubectl(&words).unwrap();
    }
    let owner = Helm::with(&control_plane.kubeconfig_for("owner", &[]).unwrap());

    let install = "install ws CHART --namespace storage";
    let is_forbidden = |line: &str, what: &str| {
        let refusal = owner.refusal(line);
        let told = refusal.contains(what) && refusal.contains("forbidden");
        assert!(told, "{refusal}");
    };
    is_forbidden(install, "customresourcedefinitions.apiextensions.k8s.io");
    is_forbidden(
        &format!("{install} --set crds.enabled=false"),
        "clusterroles",
    );

    let show = "template windows-storage-operator CHART --namespace storage \\\n  --show-only templates/customresourcedefinition.yaml --show-only templates/rbac.yaml";
    let told = show.replace("CHART", "charts/windows-storage-operator");
    let told = told.replace(" storage ", " windows-storage-operator ");
    assert!(
        GUIDE.contains(&format!("helm {told} | kubectl apply --server-side -f -")),
        "{told}"
    );
    let prepared = administrator.run(&show.replace("\\\n  ", ""));
    let apply = ["apply", "--server-side", "-f", "-"];
    control_plane.kubectl_with_input(&apply, &prepared).unwrap();
    let values = "--set crds.enabled=false,rbac.create=false";
    assert!(GUIDE.contains(values));
    owner.run(&format!("{install} {values}"));
    assert_the_operator_works(&control_plane);
    owner.run(&format!(
        "upgrade ws CHART --namespace storage {values},replicaCount=1"
    ));
    owner.run("uninstall ws --namespace storage");
}
