//! Who may install the chart: a cluster administrator, or a namespace administrator after a cluster administrator's
//! preparation.

use crate::chart::helm::{GUIDE, Helm};
use crate::chart::install::{assert_the_operator_works, cluster};

#[test]
fn the_administrator_of_a_namespace_installs_what_a_cluster_administrator_has_prepared() {
    let (control_plane, administrator) = cluster();
    // This controller aggregates the rules of the role `admin`.
    control_plane
        .start_controller_manager("clusterrole-aggregation-controller")
        .unwrap();
    control_plane
        .kubectl(&["create", "namespace", "storage"])
        .unwrap();
    let bind = "create rolebinding owner --namespace storage --clusterrole admin --user owner";
    let bind: Vec<&str> = bind.split(' ').collect();
    control_plane.kubectl(&bind).unwrap();
    let owner = Helm::with(&control_plane.kubeconfig_for("owner", &[]).unwrap());

    let install = "install ws CHART --namespace storage";
    let refusal = owner.refusal(install);
    let told = "customresourcedefinitions.apiextensions.k8s.io";
    assert!(
        refusal.contains(told) && refusal.contains("forbidden"),
        "{refusal}"
    );
    let apply = ["apply", "--server-side", "-f", "-"];
    let definitions = administrator.run("show crds CHART");
    control_plane
        .kubectl_with_input(&apply, &definitions)
        .unwrap();
    let refusal = owner.refusal(&format!("{install} --skip-crds"));
    assert!(
        refusal.contains("clusterroles") && refusal.contains("forbidden"),
        "{refusal}"
    );

    let show = "template windows-storage-operator CHART --namespace storage \\\n  --show-only templates/rbac.yaml";
    let told = show.replace("CHART", "charts/windows-storage-operator");
    let told = told.replace(" storage ", " windows-storage-operator ");
    assert!(
        GUIDE.contains(&format!("helm {told} | kubectl apply -f -")),
        "{told}"
    );
    let rights = administrator.run(&show.replace("\\\n  ", ""));
    control_plane
        .kubectl_with_input(&["apply", "-f", "-"], &rights)
        .unwrap();
    owner.run(&format!("{install} --skip-crds --set rbac.create=false"));
    assert_the_operator_works(&control_plane);
    owner
        .run("upgrade ws CHART --namespace storage --skip-crds --set rbac.create=false,replicas=1");
    owner.run("uninstall ws --namespace storage");
}
