//! The API server and etcd stop, hang, and come back, while objects change.

use testbed::control_plane::Request;
use testbed::sandbox::Operator;

use super::{NODES, Scene};

#[test]
fn an_api_server_that_was_killed_and_started_again_makes_no_difference() {
    let scene = Scene::new();
    let mut operator = scene.start();
    let calm = scene.calm();
    scene.register(NODES[1], true);
    scene.expect_open();
    let (mark, openings) = (scene.mark(), scene.openings());
    let control_plane = scene.control_plane();
    control_plane.stop_api_server().unwrap();
    scene.eventually("the operator notices", || {
        scene.told_since(mark).contains("watch interrupted")
    });
    // The driver is gone when the operator can read again.
    control_plane.start_api_server().unwrap();
    scene.register(NODES[1], false);
    scene.expect_missing(NODES[1]);
    assert_eq!(scene.openings(), openings, "opened without the driver");

    // The other way round: the driver is registered, and the gate opens once.
    control_plane.stop_api_server().unwrap();
    control_plane.start_api_server().unwrap();
    scene.expect_as_calm(&calm);
    assert_eq!(operator.ended().unwrap(), None);
}

#[test]
#[ignore = "make chaos"]
fn an_etcd_that_was_killed_and_started_again_makes_no_difference() {
    let scene = Scene::new();
    let mut operator = scene.start();
    let calm = scene.calm();
    let openings = scene.openings();
    let control_plane = scene.control_plane();
    control_plane.stop_etcd().unwrap();
    // Without etcd, the API server accepts no writes: it refuses them or does not answer.
    let mark = scene.mark();
    assert!(
        scene
            .sandbox
            .control_plane
            .kubectl(&["label", "node", NODES[0], "a=b", "--request-timeout=5s"])
            .is_err()
    );
    control_plane.restart_etcd().unwrap();
    scene.eventually("the API server has etcd again", || {
        let labelled = control_plane.kubectl(&["label", "node", NODES[0], "a=c", "--overwrite"]);
        labelled.is_ok()
    });
    assert_eq!(scene.openings(), openings, "{}", scene.told_since(mark));
    scene.expect_as_calm(&calm);
    assert_eq!(operator.ended().unwrap(), None);
}

#[test]
#[ignore = "make chaos"]
fn an_etcd_restored_from_a_backup_is_read_anew_and_what_it_holds_stays_held() {
    // The lease goes back first, where there is one; without it, what is listed and watched.
    etcd_is_restored(Scene::launch_electing, "the Lease went back from");
    etcd_is_restored(Scene::launch, " went back from");
}

fn etcd_is_restored(launch: fn(&Scene) -> Operator, ends: &str) {
    let scene = Scene::new();
    let operator = launch(&scene);
    scene.expect_both_at_work();
    let calm = scene.calm();
    let control_plane = scene.control_plane();
    // The API server stops for the backup. A leader that is longer without it than its lease lasts would end.
    assert!(operator.terminate().unwrap().success());
    let backup = control_plane.back_up_etcd().unwrap();
    let mut operator = launch(&scene);
    scene.expect_missing(NODES[1]);
    scene.register(NODES[1], true);
    scene.expect_open();
    let (mark, openings) = (scene.mark(), scene.openings());
    control_plane.restore_etcd(&backup).unwrap();
    // The registration is not in the backup. Whoever watched from a version that only the old store knew would not see that.
    let status = operator.wait().unwrap();
    assert_eq!(status.code(), Some(1), "{}", scene.told_since(mark));
    let told = scene.told_since(mark);
    // On a busy machine the lease runs out before the API server is back.
    let ends = [ends, "the lease could not be renewed"];
    assert!(ends.iter().any(|end| told.contains(end)), "{told}");
    let before = scene.requests().len();
    operator = launch(&scene);
    scene.expect_missing(NODES[1]);
    scene.expect_end(&calm.held);
    let asked = scene.requests().split_off(before);
    for node in NODES {
        let is_write =
            |asked: &&Request| asked.verb == "patch" && asked.name.as_deref() == Some(node);
        assert!(asked.iter().filter(is_write).count() <= 1, "{asked:#?}");
    }
    assert_eq!(scene.openings(), openings, "{}", scene.told_since(mark));
    scene.register(NODES[1], true);
    scene.expect_open();
    scene.expect_end(&calm.open);
    assert_eq!(operator.ended().unwrap(), None);
}

#[test]
#[ignore = "make chaos"]
fn an_etcd_that_hangs_holds_writes_up_and_nothing_else_comes_of_it() {
    let scene = Scene::new();
    // A leader, which notices at its next renewal.
    let mut operator = scene.start_electing();
    let calm = scene.calm();
    let (mark, openings) = (scene.mark(), scene.openings());
    let control_plane = scene.control_plane();
    control_plane.pause_etcd(true).unwrap();
    std::thread::scope(|scope| {
        // In flight while nothing can be written, so its result is known only later.
        let late = scope.spawn(|| scene.register(NODES[0], false));
        scene.eventually("the operator notices", || {
            scene.told_since(mark).contains("cannot renew the lease")
        });
        control_plane.pause_etcd(false).unwrap();
        // The request may have failed; then it is sent again.
        if late.join().is_err() {
            scene.register(NODES[0], false);
        }
    });
    scene.expect_missing("win-000, win-001");
    assert_eq!(scene.openings(), openings);
    scene.register(NODES[0], true);
    scene.expect_as_calm(&calm);
    assert_eq!(operator.ended().unwrap(), None);
}
