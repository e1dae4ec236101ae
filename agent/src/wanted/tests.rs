use super::*;

const THEIRS: &str = r"C:\x\csi-proxy.exe -v=4";
const UPLOAD: &str = r"C:\k\windows-storage\incoming\new";
const PIPE: &str = "csi-proxy-disk-v1";

fn sha(digit: &str) -> String {
    digit.repeat(64)
}

pub(crate) fn request() -> Request {
    Request {
        id: "request-1".into(),
        attempt: String::new(),
        sha256: sha("b"),
        upload: Some(UPLOAD.into()),
        packed: None,
        flags: vec!["-windows-service".into()],
        pipes: vec![PIPE.into()],
        stop_timeout_seconds: 30,
        start_timeout_seconds: 30,
        replace_foreign: false,
    }
}

pub(crate) fn settings() -> ServiceSettings {
    ServiceSettings::of(&request())
}

/// Returns the state of a node on which the request was carried out.
fn done() -> Observed {
    Observed {
        sha256: Some(sha("b")),
        service: Some(ObservedService {
            settings: settings(),
            state: ServiceState::Running,
            process_id: Some(100),
        }),
        pipes: [(PIPE.to_owned(), Probe::Greets(Some(100)))].into(),
        ..Observed::default()
    }
}

impl Observed {
    /// Another program is in place, and the requested one is uploaded.
    fn upgrade(&mut self) {
        self.sha256 = Some(sha("a"));
        self.from_sha256 = Some(sha("b"));
    }

    fn service(&mut self) -> &mut ObservedService {
        self.service.as_mut().unwrap()
    }

    /// The service is another owner's and runs this command.
    fn foreign(&mut self, command: &str) {
        let settings = &mut self.service().settings;
        settings.description = "OpenShift managed csi-proxy".into();
        settings.command = command.into();
    }
}

/// Returns the steps in short form.
fn outline(steps: &[Step]) -> String {
    let words = steps.iter().map(|step| match step {
        Step::Stop => "stop",
        Step::Replace { .. } => "replace",
        Step::Delete => "delete",
        Step::Configure(_) => "configure",
        Step::Start => "start",
        Step::AwaitPipes => "pipes",
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn steps_from_what_is_there_to_what_is_wanted() {
    type Case = (&'static str, fn(&mut Observed), &'static str);
    let cases: [Case; 11] = [
        ("as requested", |_| (), ""),
        (
            "first installation",
            |node| {
                node.upgrade();
                (node.sha256, node.service) = (None, None);
            },
            "replace configure start pipes",
        ),
        ("upgrade", Observed::upgrade, "stop replace start pipes"),
        (
            "other flags",
            |node| node.service().settings.command += " -v=4",
            "stop configure start pipes",
        ),
        (
            "what does not need a restart",
            |node| node.service().settings.start_type = 3,
            "configure",
        ),
        (
            "stopped",
            |node| node.service().state = ServiceState::Stopped,
            "start pipes",
        ),
        (
            "an upgrade of what is stopped",
            |node| {
                node.upgrade();
                node.service().state = ServiceState::Stopped;
            },
            "stop replace start pipes",
        ),
        (
            "paused counts as running",
            |node| node.service().state = ServiceState::Paused,
            "",
        ),
        (
            "mute",
            |node| node.pipes = [(PIPE.to_owned(), Probe::Silent(Some(100)))].into(),
            "pipes",
        ),
        ("closed", |node| node.pipes.clear(), "pipes"),
        (
            "another owner's",
            |node| node.foreign(THEIRS),
            "stop configure start pipes",
        ),
    ];
    for (name, change, expected) in cases {
        let mut node = done();
        change(&mut node);
        let steps = plan(&Wanted::of(&request()), &node).unwrap();
        assert_eq!(outline(&steps), expected, "{name}");
    }
}

#[test]
fn only_the_announced_content_is_used() {
    type Case = (fn(&mut Request, &mut Observed), &'static str);
    let cases: [Case; 3] = [
        (|request, _| request.upload = None, "no upload is named"),
        (|_, node| node.from_sha256 = None, "is not there"),
        (|_, node| node.from_sha256 = Some(sha("c")), "as announced"),
    ];
    for (change, words) in cases {
        let (mut request, mut node) = (request(), done());
        node.upgrade();
        change(&mut request, &mut node);
        let failure = plan(&Wanted::of(&request), &node).unwrap_err();
        assert_eq!(failure.category, FailureCategory::BadUpload);
        assert!(failure.message.contains(words), "{failure}");
    }
}

#[test]
fn what_is_of_others_or_in_the_way_is_refused_before_anything_stops() {
    let server = |id, parent, program: &str| SeenProcess {
        id,
        parent,
        program: program.into(),
    };
    let refused = |is_kept, change: &dyn Fn(&mut Request, &mut Observed)| {
        let (mut request, mut node) = (request(), done());
        node.upgrade();
        change(&mut request, &mut node);
        let steps = plan(&Wanted::of(&request), &node).unwrap();
        refuse(&request, &node, &steps, is_kept).err().map(|why| {
            // What needs ours is no csi-proxy to replace, or to leave to its owner.
            let expected = if node.dependents.is_empty() {
                FailureCategory::Foreign
            } else {
                FailureCategory::Other
            };
            assert_eq!(why.category, expected);
            why.message
        })
    };
    assert_eq!(refused(false, &|_, _| ()), None);
    let theirs = refused(false, &|_, node| node.foreign(THEIRS)).unwrap();
    assert!(theirs.contains(THEIRS), "{theirs}");
    // Somebody has changed the description of ours.
    assert_eq!(refused(true, &|_, node| node.foreign(THEIRS)), None);
    let replaced = refused(false, &|request, node| {
        node.foreign(THEIRS);
        request.replace_foreign = true;
    });
    assert_eq!(replaced, None);
    let needed = refused(false, &|_, node| node.dependents.push("monitor".into()));
    assert!(needed.unwrap().contains("stop monitor first"));

    let served_by = |process: SeenProcess, own: Option<u32>| {
        refused(false, &move |_, node| {
            node.service().process_id = own;
            let probe = Probe::Greets(Some(process.id));
            node.pipes.insert(PIPE.into(), probe);
            node.processes.push(process.clone());
        })
    };
    let other = r"C:\other.exe";
    let intruder = served_by(server(7, 1, other), Some(100)).unwrap();
    assert!(intruder.contains(r"process 7, C:\other.exe"), "{intruder}");
    assert!(served_by(server(7, 1, other), None).is_some());
    assert_eq!(
        served_by(server(101, 100, other), Some(100)),
        None,
        "a wrapper's child"
    );
    for left in [CSI_PROXY_EXE, CSI_PROXY_PREVIOUS] {
        assert_eq!(served_by(server(7, 1, left), None), None, "left over");
    }
}

/// The program before the change; then what is in place and what was set aside now; and what is wanted to be in place.
#[test]
fn every_point_of_a_replacement_goes_back() {
    for (before, current, set_aside, wanted, is_lost) in [
        ("a", "a", "0", "a", false),
        // Between the two renames, and after the second.
        ("a", "", "a", "a", false),
        ("a", "b", "a", "a", false),
        // After going back.
        ("a", "a", "", "a", false),
        ("a", "b", "", "b", true),
        ("a", "c", "", "c", true),
        ("a", "", "", "", true),
        // There was none: the new one goes, and only that one.
        ("", "b", "", "", false),
        ("", "c", "", "c", false),
        ("", "", "", "", false),
    ] {
        let content = |digit: &str| (!digit.is_empty()).then(|| sha(digit));
        let before = Before {
            was_kept: true,
            sha256: content(before),
            service: Some(settings()),
            was_running: true,
        };
        let (current, set_aside) = (content(current), content(set_aside));
        let kept = request();
        let (back, problem) = Wanted::before(
            &request(),
            &before,
            Some(&kept),
            current.as_deref(),
            set_aside.as_deref(),
        );
        let case = format!("{before:?} {current:?} {set_aside:?}");
        assert_eq!(back.sha256, content(wanted), "{case}");
        assert_eq!(problem.is_some(), is_lost, "{case}");
        assert_eq!(back.aside, UPLOAD);
        assert_eq!((back.runs, &*back.pipes), (true, &kept.pipes[..]));
        let node = Observed {
            sha256: current,
            from_sha256: set_aside,
            ..done()
        };
        assert!(plan(&back, &node).is_ok(), "{case}");
    }
}

#[test]
fn what_was_stopped_or_not_there_goes_back_to_that() {
    let node = done();
    let back = |service: Option<ServiceSettings>| {
        let before = Before {
            was_kept: true,
            service,
            ..Before::default()
        };
        let (back, _) = Wanted::before(&request(), &before, None, node.sha256.as_deref(), None);
        outline(&plan(&back, &node).unwrap())
    };
    assert_eq!(back(None), "stop replace delete");
    assert_eq!(back(Some(settings())), "stop replace");
}
