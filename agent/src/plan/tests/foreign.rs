//! What others have on the node.

use super::*;
use crate::failure_actions::{FailureAction, FailureActions};

/// The node with a service of somebody else's, which runs this.
fn foreign(command: &str) -> Observed {
    let mut observed = done(&request());
    observed.ours.clear();
    observed.kept = false;
    let there = observed.services.get_mut("csi-proxy").unwrap();
    there.settings.description = "OpenShift managed csi-proxy".into();
    there.settings.start_type = 3;
    there.settings.command = command.into();
    observed
}

#[test]
fn a_foreign_service_is_let_alone_whatever_it_runs() {
    for command in [COMMAND, r"C:\x\csi-proxy.exe -v=4"] {
        let failure = plan(&request(), &foreign(command)).unwrap_err();
        assert_eq!(failure.category, FailureCategory::Foreign);
        for part in ["csi-proxy", command, "delete it"] {
            assert!(failure.message.contains(part), "{}", failure.message);
        }
    }
}

#[test]
fn a_foreign_service_is_replaced_with_leave_and_can_come_back() {
    let mut request = request();
    request.replace_foreign = true;
    let observed = foreign(r"C:\x\csi-proxy.exe -v=4");
    let plan = plan(&request, &observed).unwrap();
    assert_eq!(
        outline(&plan),
        [
            "stop csi-proxy",
            "configure csi-proxy",
            "start csi-proxy",
            "pipes csi-proxy"
        ]
    );
    assert!(!plan.change.first);
    assert_eq!(
        plan.change.services[0].before.as_ref(),
        Some(&observed.services["csi-proxy"].settings)
    );
    assert!(plan.change.services[0].was_running);
}

#[test]
fn what_windows_does_at_a_crash_comes_back_with_a_foreign_service_only() {
    let theirs = FailureActions {
        reset_seconds: None,
        actions: vec![FailureAction {
            kind: 3,
            delay_milliseconds: 500,
        }],
        on_errors: Some(false),
    };
    let mut request = request();
    request.replace_foreign = true;
    let mut observed = foreign(r"C:\x\csi-proxy.exe -v=4");
    for known in [None, Some(theirs)] {
        let there = observed.services.get_mut("csi-proxy").unwrap();
        there.failure_actions.clone_from(&known);
        let journalled = plan(&request, &observed).unwrap().change.services.remove(0);
        assert_eq!(journalled.failure_actions, known);
        let text = serde_json::to_string(&journalled).unwrap();
        assert_eq!(
            serde_json::from_str::<ServiceChange>(&text).unwrap(),
            journalled
        );
    }
    observed.ours.push("csi-proxy".into());
    let ours = plan(&request, &observed).unwrap().change.services.remove(0);
    assert_eq!(ours.failure_actions, None);
}

#[test]
fn the_mark_in_the_description_is_enough_to_be_ours() {
    let mut observed = done(&request());
    observed.ours.clear();
    assert!(plan(&request(), &observed).is_ok());
}

/// What a request that restarts csi-proxy says where its pipe is served by this process.
fn served_by(process: (u32, u32, &str), service: Option<u32>) -> Result<Plan, Failure> {
    let mut observed = upgrade_of(&request());
    observed.services.get_mut("csi-proxy").unwrap().process_id = service;
    let (id, parent, program) = process;
    let program = program.to_owned();
    let server = SeenProcess {
        id,
        parent,
        program,
    };
    observed
        .pipe_servers
        .insert("csi-proxy-disk-v1".into(), server);
    plan(&request(), &observed)
}

#[test]
fn who_may_serve_the_pipes() {
    let elsewhere = r"C:\x\csi-proxy.exe";
    let previous = r"C:\k\csi-proxy.exe.previous";
    for (what, process, service, fine) in [
        ("the service", (7, 1, EXE), Some(7), true),
        ("a wrapper's child", (7, 6, elsewhere), Some(6), true),
        ("what is left of the service", (7, 1, EXE), None, true),
        ("the same, renamed", (7, 1, previous), None, true),
        ("another instance", (7, 1, EXE), Some(8), false),
        ("another program", (7, 1, elsewhere), None, false),
    ] {
        let planned = served_by(process, service);
        assert_eq!(planned.is_ok(), fine, "{what}");
        if let Err(failure) = planned {
            assert_eq!(failure.category, FailureCategory::Foreign, "{what}");
            assert!(failure.message.contains("process 7"), "{}", failure.message);
            assert!(failure.message.contains(process.2), "{}", failure.message);
        }
    }
}

#[test]
fn a_node_as_requested_does_not_care_who_serves() {
    let mut observed = done(&request());
    let intruder = SeenProcess {
        id: 1,
        ..SeenProcess::default()
    };
    observed
        .pipe_servers
        .insert("csi-proxy-disk-v1".into(), intruder);
    assert_eq!(plan(&request(), &observed), Ok(Plan::default()));
}

fn outsider(name: &str, needs: &[&str], active: bool) -> SeenService {
    SeenService {
        name: name.into(),
        dependencies: needs.iter().map(|&name| name.into()).collect(),
        active,
        ..SeenService::default()
    }
}

#[test]
fn services_of_others_that_need_ours_stop_first_and_start_again() {
    let mut observed = upgrade_of(&request());
    observed.machine = vec![
        outsider("csi-proxy", &[], true),
        outsider("monitor", &["agent-of-others"], true),
        outsider("agent-of-others", &["CSI-PROXY"], true),
        outsider("idle", &["csi-proxy"], false),
    ];
    let plan = plan(&request(), &observed).unwrap();
    assert_eq!(
        outline(&plan),
        [
            "pause monitor",
            "pause agent-of-others",
            "stop csi-proxy",
            r"replace C:\k\csi-proxy.exe",
            "start csi-proxy",
            "pipes csi-proxy",
            "resume agent-of-others",
            "resume monitor"
        ]
    );
    assert_eq!(plan.change.dependents, ["agent-of-others", "monitor"]);
    observed.files = done(&request()).files;
    assert_eq!(
        crate::plan::plan(&request(), &observed),
        Ok(Plan::default())
    );
}

#[test]
fn a_service_of_ours_above_one_of_others_stops_as_well() {
    let mut request = request();
    request
        .services
        .push(service("user", r"C:\k\user.exe", &[]));
    let mut observed = upgrade_of(&request);
    // Somebody has put a service of theirs between two of ours.
    observed.machine = vec![
        outsider("csi-proxy", &[], true),
        outsider("between", &["csi-proxy"], true),
        outsider("user", &["between"], true),
    ];
    let steps = outline(&plan(&request, &observed).unwrap());
    assert_eq!(steps[..3], ["stop user", "pause between", "stop csi-proxy"]);
    assert_eq!(steps[steps.len() - 2..], ["start user", "resume between"]);
}
