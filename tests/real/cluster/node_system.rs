//! A node whose operating system becomes known late, or changes.

use testbed::objects;

use crate::cluster::harness::Harness;

#[test]
fn the_pods_of_a_node_that_turns_to_windows_are_seen() {
    let harness = Harness::new();
    let sandbox = &harness.sandbox;
    sandbox.add_node("win-1", None).unwrap();
    sandbox.register("win-1", &[]).unwrap();
    sandbox.add_node("late", None).unwrap();
    harness.kubectl("label node late kubernetes.io/os=linux --overwrite");
    // Nothing in the pod itself requires Windows.
    let workload = objects::azure_disk_workload("late").replace("  os: {name: windows}\n", "");
    harness.apply(&workload);
    let _operator = harness.start();
    harness.expect_gate("True", "NoInTreeVolumes", &[]);

    harness.kubectl("label node late kubernetes.io/os=windows --overwrite");
    sandbox.register("late", &[]).unwrap();
    harness.expect_gate("False", "DriversMissing", &["pod shop/web-0", "late"]);
    harness.assert_nothing_was_forbidden();
}
