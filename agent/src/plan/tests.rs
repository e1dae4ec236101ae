use super::*;

mod foreign;

const EXE: &str = r"C:\k\csi-proxy.exe";
const COMMAND: &str =
    r"C:\k\csi-proxy.exe -log_file=C:\var\log\csi-proxy\csi-proxy.log -windows-service";
const UPLOAD: &str = r"C:\k\windows-storage\incoming\new";

fn sha(digit: &str) -> String {
    digit.repeat(64)
}

fn service(name: &str, command: &str, dependencies: &[&str]) -> Service {
    Service {
        name: name.into(),
        path: command.into(),
        node_variables_in_command: vec![],
        powershell_pre_scripts: vec![],
        dependencies: dependencies.iter().map(|&name| name.into()).collect(),
        bootstrap: false,
        priority: 2,
    }
}

pub(crate) fn request() -> Request {
    Request {
        id: "request-1".into(),
        files: vec![DesiredFile {
            path: EXE.into(),
            sha256: sha("b"),
            upload: Some(UPLOAD.into()),
            packed: None,
        }],
        services: vec![service("csi-proxy", COMMAND, &[])],
        pipes: vec![ServicePipes {
            service: "csi-proxy".into(),
            pipes: vec!["csi-proxy-disk-v1".into()],
        }],
        stop_timeout_seconds: 30,
        start_timeout_seconds: 30,
        environment: BTreeMap::new(),
        replace_foreign: false,
    }
}

/// A node on which `request` is carried out already.
fn done(request: &Request) -> Observed {
    Observed {
        files: request
            .files
            .iter()
            .map(|file| (file.path.clone(), file.sha256.clone()))
            .collect(),
        uploads: BTreeMap::new(),
        services: request
            .services
            .iter()
            .map(|service| {
                (
                    key(&service.name),
                    ObservedService {
                        settings: settings(request, service),
                        state: ServiceState::Running,
                        process_id: Some(100),
                        failure_actions: None,
                    },
                )
            })
            .collect(),
        ours: request
            .services
            .iter()
            .map(|service| service.name.clone())
            .collect(),
        kept: true,
        open_pipes: request
            .pipes
            .iter()
            .flat_map(|pipes| pipes.pipes.clone())
            .collect(),
        pipe_servers: BTreeMap::new(),
        machine: vec![],
    }
}

fn outline(plan: &Plan) -> Vec<String> {
    plan.steps
        .iter()
        .map(|step| match step {
            Step::Pause(name) => format!("pause {name}"),
            Step::Resume(name) => format!("resume {name}"),
            Step::Stop(name) => format!("stop {name}"),
            Step::Replace(file) => format!("replace {}", file.path),
            Step::Delete(name) => format!("delete {name}"),
            Step::Configure(service) => format!("configure {}", service.name),
            Step::Start(name) => format!("start {name}"),
            Step::AwaitPipes(pipes) => format!("pipes {}", pipes.service),
        })
        .collect()
}

#[test]
fn a_node_as_requested_is_left_alone() {
    let plan = plan(&request(), &done(&request())).unwrap();
    assert_eq!(plan, Plan::default());
    assert!(!plan.changes_anything());
}

#[test]
fn a_first_request() {
    let observed = Observed {
        uploads: [(UPLOAD.into(), sha("b"))].into(),
        ..Observed::default()
    };
    let plan = plan(&request(), &observed).unwrap();
    assert_eq!(
        outline(&plan),
        [
            r"replace C:\k\csi-proxy.exe",
            "configure csi-proxy",
            "start csi-proxy",
            "pipes csi-proxy"
        ]
    );
    assert!(plan.change.first);
}

#[test]
fn an_upgrade_stops_replaces_and_starts_without_configuring() {
    let mut observed = done(&request());
    observed.files = [(EXE.into(), sha("a"))].into();
    observed.uploads = [(UPLOAD.into(), sha("b"))].into();
    let plan = plan(&request(), &observed).unwrap();
    assert_eq!(
        outline(&plan),
        [
            "stop csi-proxy",
            r"replace C:\k\csi-proxy.exe",
            "start csi-proxy",
            "pipes csi-proxy"
        ]
    );
    assert!(!plan.change.first && plan.changes_anything());
    assert_eq!(plan.change.files[0].previous_sha256, Some(sha("a")));
    assert!(plan.change.services[0].was_running);
}

#[test]
fn a_change_of_files_alone_or_of_services_alone_is_a_change() {
    let mut request = request();
    request.files[0].path = r"C:\k\notes.txt".into();
    let mut observed = done(&request);
    observed.files.clear();
    observed.uploads = [(UPLOAD.into(), sha("b"))].into();
    let files = plan(&request, &observed).unwrap();
    assert_eq!(outline(&files), [r"replace C:\k\notes.txt"]);
    assert!(files.changes_anything());
    let mut observed = done(&request);
    observed.services.get_mut("csi-proxy").unwrap().state = ServiceState::Stopped;
    assert!(plan(&request, &observed).unwrap().changes_anything());
}

#[test]
fn uploads_are_judged_before_anything_is_stopped() {
    let mut observed = done(&request());
    observed.files.clear();
    assert_eq!(
        plan(&request(), &observed).unwrap_err().category,
        FailureCategory::UploadMissing
    );
    observed.uploads = [(UPLOAD.into(), sha("c"))].into();
    assert_eq!(
        plan(&request(), &observed).unwrap_err().category,
        FailureCategory::HashMismatch
    );
    let mut without = request();
    without.files[0].upload = None;
    assert_eq!(
        plan(&without, &observed).unwrap_err().category,
        FailureCategory::UploadMissing
    );
}

#[test]
fn another_command_of_ours_is_changed() {
    let mut observed = done(&request());
    let there = observed.services.get_mut("csi-proxy").unwrap();
    there.settings.command = format!("{COMMAND} -v=4");
    assert_eq!(
        outline(&plan(&request(), &observed).unwrap()),
        [
            "stop csi-proxy",
            "configure csi-proxy",
            "start csi-proxy",
            "pipes csi-proxy"
        ]
    );
}

#[test]
fn a_stopped_service_is_started_and_missing_pipes_are_waited_for() {
    let mut observed = done(&request());
    observed.services.get_mut("csi-proxy").unwrap().state = ServiceState::Stopped;
    assert_eq!(
        outline(&plan(&request(), &observed).unwrap()),
        ["start csi-proxy", "pipes csi-proxy"]
    );
    observed = done(&request());
    observed.open_pipes.clear();
    let plan = plan(&request(), &observed).unwrap();
    assert_eq!(outline(&plan), ["pipes csi-proxy"]);
    assert!(!plan.changes_anything());
}

#[test]
fn dependents_stop_first_and_start_last() {
    let mut request = request();
    request
        .services
        .push(service("user", r"C:\k\user.exe", &["csi-proxy"]));
    request
        .services
        .push(service("a-user-of-user", r"C:\k\user2.exe", &["user"]));
    let mut observed = done(&request);
    observed.files = [(EXE.into(), sha("a"))].into();
    observed.uploads = [(UPLOAD.into(), sha("b"))].into();
    assert_eq!(
        outline(&plan(&request, &observed).unwrap()),
        [
            "stop a-user-of-user",
            "stop user",
            "stop csi-proxy",
            r"replace C:\k\csi-proxy.exe",
            "start csi-proxy",
            "pipes csi-proxy",
            "start user",
            "start a-user-of-user"
        ]
    );
}

#[test]
fn what_left_the_document_goes_if_it_is_ours() {
    let mut before = request();
    before
        .services
        .push(service("old", r"C:\k\old.exe", &["csi-proxy"]));
    let mut observed = done(&before);
    assert_eq!(
        outline(&plan(&request(), &observed).unwrap()),
        ["stop old", "delete old"]
    );

    observed.ours.retain(|name| name != "old");
    assert_eq!(outline(&plan(&request(), &observed).unwrap()), [""; 0]);
}

#[test]
fn an_empty_list_removes_nothing() {
    let mut empty = request();
    empty.services.clear();
    empty.pipes.clear();
    assert_eq!(
        plan(&empty, &done(&request())).unwrap_err().category,
        FailureCategory::InvalidRequest
    );
}

fn upgrade_of(request: &Request) -> Observed {
    let mut observed = done(request);
    observed.files = [(EXE.into(), sha("a"))].into();
    observed.uploads = [(UPLOAD.into(), sha("b"))].into();
    observed
}

#[test]
fn another_environment_restarts() {
    let mut request = request();
    let observed = done(&request);
    request.environment.insert("NO_PROXY".into(), ".svc".into());
    request.environment.insert("A".into(), "b=c".into());
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
    assert_eq!(
        settings(&request, &request.services[0]).environment,
        ["A=b=c", "NO_PROXY=.svc"]
    );
    assert_eq!(super::plan(&request, &done(&request)), Ok(Plan::default()));
}

#[test]
fn a_diamond_stops_from_the_top_and_starts_from_the_base() {
    let mut request = request();
    for (name, needs) in [
        ("top", &["left", "right"][..]),
        ("left", &["csi-proxy"]),
        ("right", &["csi-proxy"]),
    ] {
        let command = format!(r"C:\k\{name}.exe");
        request.services.push(service(name, &command, needs));
    }
    let plan = plan(&request, &upgrade_of(&request)).unwrap();
    assert_eq!(
        outline(&plan),
        [
            "stop top",
            "stop right",
            "stop left",
            "stop csi-proxy",
            r"replace C:\k\csi-proxy.exe",
            "start csi-proxy",
            "pipes csi-proxy",
            "start left",
            "start right",
            "start top"
        ]
    );
}

#[test]
fn a_lower_priority_number_starts_first_and_stops_last() {
    let mut request = request();
    let mut early = service("z-early", r"C:\k\z.exe", &[]);
    early.priority = 1;
    request.services.push(early);
    let mut observed = upgrade_of(&request);
    observed
        .services
        .get_mut("z-early")
        .unwrap()
        .settings
        .command = "old".into();
    assert_eq!(
        outline(&plan(&request, &observed).unwrap()),
        [
            "stop csi-proxy",
            "stop z-early",
            r"replace C:\k\csi-proxy.exe",
            "configure z-early",
            "start z-early",
            "start csi-proxy",
            "pipes csi-proxy"
        ]
    );
}
