use super::*;
use crate::failure_actions::FailureAction;

const EXE: &str = r"C:\k\csi-proxy.exe";
const COMMAND: &str =
    r"C:\k\csi-proxy.exe -log_file=C:\var\log\csi-proxy\csi-proxy.log -windows-service";
const THEIRS: &str = r"C:\x\csi-proxy.exe -v=4";
const UPLOAD: &str = r"C:\k\windows-storage\incoming\new";
const PIPE: &str = "csi-proxy-disk-v1";

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
            pipes: vec![PIPE.into()],
        }],
        stop_timeout_seconds: 30,
        start_timeout_seconds: 30,
        environment: BTreeMap::new(),
        replace_foreign: false,
    }
}

/// Returns the state of a node on which `request` was carried out.
fn done(request: &Request) -> Observed {
    let files = request.files.iter();
    let pipes = request.pipes.iter();
    let services = request.services.iter();
    let there = |service: &Service| ObservedService {
        settings: settings(request, service),
        state: ServiceState::Running,
        process_id: Some(100),
        failure_actions: None,
    };
    Observed {
        files: files
            .map(|file| (file.path.clone(), file.sha256.clone()))
            .collect(),
        services: (services.clone())
            .map(|service| (key(&service.name), there(service)))
            .collect(),
        ours: services.map(|service| service.name.clone()).collect(),
        kept: true,
        pipes: pipes
            .flat_map(|pipes| pipes.pipes.clone())
            .map(|pipe| (pipe, Probe::Greets(Some(100))))
            .collect(),
        ..Observed::default()
    }
}

impl Observed {
    /// Another program is in place, and the requested one is uploaded.
    fn upgrade(&mut self) {
        self.files = [(EXE.into(), sha("a"))].into();
        self.uploads = [(UPLOAD.into(), sha("b"))].into();
    }

    fn csi_proxy(&mut self) -> &mut ObservedService {
        self.services.get_mut("csi-proxy").unwrap()
    }

    /// The service is foreign and runs this command.
    fn foreign(&mut self, command: &str) {
        self.ours.clear();
        self.kept = false;
        let settings = &mut self.csi_proxy().settings;
        settings.description = "OpenShift managed csi-proxy".into();
        settings.start_type = 3;
        settings.command = command.into();
    }
}

/// Returns the steps in short form, and what they change.
fn planned(request: &Request, observed: &Observed) -> (String, Change) {
    let plan = plan(request, observed).unwrap();
    let outline = plan.steps.iter().map(|step| match step {
        Step::Pause(name) => format!("pause {name}"),
        Step::Resume(name) => format!("resume {name}"),
        Step::Stop(name) => format!("stop {name}"),
        Step::Replace(file) => format!("replace {}", file.path.rsplit('\\').next().unwrap()),
        Step::Delete(name) => format!("delete {name}"),
        Step::Configure(service) => format!("configure {}", service.name),
        Step::Start(name) => format!("start {name}"),
        Step::AwaitPipes(pipes) => format!("pipes {}", pipes.service),
    });
    let outline: Vec<String> = outline.collect();
    let only_waits = outline.iter().all(|step| step.starts_with("pipes "));
    assert_eq!(plan.changes_anything(), !only_waits, "{outline:?}");
    (outline.join(", "), plan.change)
}

/// Returns a service of the machine that depends on others.
fn seen(name: &str, needs: &[&str], active: bool) -> SeenService {
    SeenService {
        name: name.into(),
        dependencies: needs.iter().map(|&name| name.into()).collect(),
        active,
        ..SeenService::default()
    }
}

/// The name of a case, a change before the request is carried out, changes after that, and the expected steps.
type Case = (
    &'static str,
    fn(&mut Request),
    fn(&mut Request, &mut Observed),
    &'static str,
);

const CASES: &[Case] = &[
    ("as requested", |_| (), |_, _| (), ""),
    (
        "as requested, whoever serves the pipes and needs the services",
        |_| (),
        |_, node| {
            node.machine = vec![seen("monitor", &["csi-proxy"], true)];
            node.pipes.insert(PIPE.into(), Probe::Greets(Some(0)));
            node.processes.push(SeenProcess::default());
        },
        "",
    ),
    (
        "the mark in the description makes a service ours",
        |_| (),
        |_, node| node.ours.clear(),
        "",
    ),
    (
        "a first request",
        |_| (),
        |_, node| {
            *node = Observed::default();
            node.uploads = [(UPLOAD.into(), sha("b"))].into();
        },
        "replace csi-proxy.exe, configure csi-proxy, start csi-proxy, pipes csi-proxy",
    ),
    (
        "another program",
        |_| (),
        |_, node| node.upgrade(),
        "stop csi-proxy, replace csi-proxy.exe, start csi-proxy, pipes csi-proxy",
    ),
    (
        "a file that no service runs",
        |request| request.files[0].path = r"C:\k\notes.txt".into(),
        |_, node| {
            node.files.clear();
            node.uploads = [(UPLOAD.into(), sha("b"))].into();
        },
        "replace notes.txt",
    ),
    (
        "a stopped service",
        |_| (),
        |_, node| node.csi_proxy().state = ServiceState::Stopped,
        "start csi-proxy, pipes csi-proxy",
    ),
    (
        "closed pipes",
        |_| (),
        |_, node| node.pipes.clear(),
        "pipes csi-proxy",
    ),
    (
        "another command",
        |_| (),
        |_, node| node.csi_proxy().settings.command = format!("{COMMAND} -v=4"),
        "stop csi-proxy, configure csi-proxy, start csi-proxy, pipes csi-proxy",
    ),
    (
        "another environment",
        |_| (),
        |request, _| {
            let variables = [("NO_PROXY", ".svc"), ("A", "b=c")];
            request.environment = variables
                .map(|(name, value)| (name.into(), value.into()))
                .into();
        },
        "stop csi-proxy, configure csi-proxy, start csi-proxy, pipes csi-proxy",
    ),
    (
        "a service that left the document",
        |request| {
            let old = service("old", r"C:\k\old.exe", &["csi-proxy"]);
            request.services.push(old);
        },
        |request, _| request.services.truncate(1),
        "stop old, delete old",
    ),
    (
        "one that left it and is not ours",
        |request| {
            let old = service("old", r"C:\k\old.exe", &["csi-proxy"]);
            request.services.push(old);
        },
        |request, node| {
            request.services.truncate(1);
            node.ours.truncate(1);
        },
        "",
    ),
    (
        "a diamond stops from the top and starts from the base",
        |request| {
            for (name, needs) in [
                ("top", &["left", "right"][..]),
                ("left", &["csi-proxy"]),
                ("right", &["csi-proxy"]),
            ] {
                let command = format!(r"C:\k\{name}.exe");
                request.services.push(service(name, &command, needs));
            }
        },
        |_, node| node.upgrade(),
        "stop top, stop right, stop left, stop csi-proxy, replace csi-proxy.exe, start csi-proxy, pipes csi-proxy, \
         start left, start right, start top",
    ),
    (
        "a lower priority number starts first and stops last",
        |request| {
            let mut early = service("z-early", r"C:\k\z.exe", &[]);
            early.priority = 1;
            request.services.push(early);
        },
        |_, node| {
            node.upgrade();
            let early = node.services.get_mut("z-early").unwrap();
            early.settings.command = "old".into();
        },
        "stop csi-proxy, stop z-early, replace csi-proxy.exe, configure z-early, start z-early, start csi-proxy, \
         pipes csi-proxy",
    ),
    (
        "services of others that need ours stop first and start again",
        |_| (),
        |_, node| {
            node.upgrade();
            node.machine = vec![
                seen("csi-proxy", &[], true),
                seen("monitor", &["agent-of-others"], true),
                seen("agent-of-others", &["CSI-PROXY"], true),
                seen("idle", &["csi-proxy"], false),
            ];
        },
        "pause monitor, pause agent-of-others, stop csi-proxy, replace csi-proxy.exe, start csi-proxy, pipes csi-proxy, \
         resume agent-of-others, resume monitor",
    ),
    (
        "one of ours above one of others stops as well",
        |request| {
            let user = service("user", r"C:\k\user.exe", &[]);
            request.services.push(user);
        },
        |_, node| {
            node.upgrade();
            node.machine = vec![
                seen("csi-proxy", &[], true),
                seen("between", &["csi-proxy"], true),
                seen("user", &["between"], true),
            ];
        },
        "stop user, pause between, stop csi-proxy, replace csi-proxy.exe, start csi-proxy, pipes csi-proxy, start user, \
         resume between",
    ),
    (
        "a foreign service, with leave",
        |_| (),
        |request, node| {
            request.replace_foreign = true;
            node.foreign(THEIRS);
        },
        "stop csi-proxy, configure csi-proxy, start csi-proxy, pipes csi-proxy",
    ),
];

#[test]
fn the_steps_follow_from_what_differs() {
    for (case, start, change, steps) in CASES {
        let mut request = request();
        start(&mut request);
        let mut observed = done(&request);
        change(&mut request, &mut observed);
        assert_eq!(planned(&request, &observed).0, *steps, "{case}");
        // Once it is carried out, nothing is left to do.
        assert_eq!(plan(&request, &done(&request)), Ok(Plan::default()));
    }
}

#[test]
fn what_is_needed_to_go_back_is_known() {
    let first = Observed {
        uploads: [(UPLOAD.into(), sha("b"))].into(),
        ..Observed::default()
    };
    assert!(planned(&request(), &first).1.first);
    let mut observed = done(&request());
    observed.upgrade();
    let change = planned(&request(), &observed).1;
    assert!(!change.first && change.services[0].was_running);
    assert_eq!(change.files[0].previous_sha256, Some(sha("a")));

    let mut replace = request();
    replace.replace_foreign = true;
    observed.foreign(THEIRS);
    let theirs = FailureActions {
        reset_seconds: None,
        actions: vec![FailureAction {
            kind: 3,
            delay_milliseconds: 500,
        }],
        on_errors: Some(false),
    };
    for known in [None, Some(theirs)] {
        observed.csi_proxy().failure_actions.clone_from(&known);
        let mut change = planned(&replace, &observed).1;
        assert!(!change.first);
        let service = change.services.remove(0);
        assert!(service.was_running);
        assert_eq!(
            service.before.as_ref(),
            Some(&observed.csi_proxy().settings)
        );
        assert_eq!(service.failure_actions, known);
        let text = serde_json::to_string(&service).unwrap();
        assert_eq!(
            serde_json::from_str::<ServiceChange>(&text).unwrap(),
            service
        );
    }
    // The agent's own services always have the same ones.
    observed.ours.push("csi-proxy".into());
    let ours = planned(&replace, &observed).1.services.remove(0);
    assert_eq!(ours.failure_actions, None);
}

#[test]
fn what_cannot_be_carried_out_is_refused_before_anything_stops() {
    type Refused = (
        FailureCategory,
        fn(&mut Request, &mut Observed),
        &'static [&'static str],
    );
    let cases: [Refused; 6] = [
        (
            FailureCategory::UploadMissing,
            |_, node| node.files.clear(),
            &[EXE, UPLOAD],
        ),
        (
            FailureCategory::UploadMissing,
            |request, node| {
                node.files.clear();
                request.files[0].upload = None;
            },
            &[EXE],
        ),
        (
            FailureCategory::HashMismatch,
            |_, node| {
                node.upgrade();
                node.uploads = [(UPLOAD.into(), sha("c"))].into();
            },
            &[UPLOAD],
        ),
        (
            FailureCategory::InvalidRequest,
            |request, _| (request.services, request.pipes) = (vec![], vec![]),
            &["no services"],
        ),
        // A foreign service is never changed, whatever it runs.
        (
            FailureCategory::Foreign,
            |_, node| node.foreign(COMMAND),
            &["csi-proxy", COMMAND, "delete it"],
        ),
        (
            FailureCategory::Foreign,
            |_, node| node.foreign(THEIRS),
            &["csi-proxy", THEIRS, "delete it"],
        ),
    ];
    for (category, change, parts) in cases {
        let mut request = request();
        let mut observed = done(&request);
        change(&mut request, &mut observed);
        let failure = plan(&request, &observed).unwrap_err();
        assert_eq!(failure.category, category, "{failure}");
        for part in parts {
            assert!(failure.message.contains(part), "{failure}");
        }
    }
}

#[test]
fn who_may_serve_the_pipes() {
    let elsewhere = r"C:\x\csi-proxy.exe";
    let previous = r"C:\k\csi-proxy.exe.previous";
    for (what, parent, program, service, fine) in [
        ("the service", 1, EXE, Some(7), true),
        ("a wrapper's child", 6, elsewhere, Some(6), true),
        ("what is left of the service", 1, EXE, None, true),
        ("the same, renamed", 1, previous, None, true),
        ("another instance", 1, EXE, Some(8), false),
        ("another program", 1, elsewhere, None, false),
    ] {
        let mut observed = done(&request());
        observed.upgrade();
        observed.csi_proxy().process_id = service;
        let server = SeenProcess {
            id: 7,
            parent,
            program: program.to_owned(),
        };
        observed.pipes.insert(PIPE.into(), Probe::Silent(Some(7)));
        observed.processes.push(server);
        let planned = plan(&request(), &observed);
        assert_eq!(planned.is_ok(), fine, "{what}");
        if let Err(failure) = planned {
            assert_eq!(failure.category, FailureCategory::Foreign, "{what}");
            assert!(failure.message.contains("process 7"), "{failure}");
            assert!(failure.message.contains(program), "{failure}");
        }
    }
}
