//! Scripts and environment variables of the services document.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use protocol::document::PreScript;
use protocol::paths::{AGENT_EXE, INCOMING_DIR};
use protocol::{Answer, FailureCategory, Outcome, Request};

use crate::host::{Build, COMMAND, Node, csi_proxy_of, is_well, message_of, request_for};
use crate::standin::{Behaviour, standin, standin_for_csi_proxy, until};

const SCRIPT: &str = r"C:\scripts\level.ps1";

fn with_script(id: &str, content: &[u8]) -> Request {
    let mut request = request_for(id, content);
    request.services[0].path = format!("{COMMAND} -level=LEVEL");
    request.services[0].powershell_pre_scripts = vec![PreScript {
        variable_name: "LEVEL".into(),
        path: SCRIPT.into(),
        node_args: vec![],
        arguments: vec!["-Node".into(), "win 1".into()],
    }];
    request
}

/// Wine's PowerShell prints nothing, whatever it runs.
fn replace_powershell(node: &Node) {
    let powershell = node.local(r"C:\windows\system32\WindowsPowerShell\v1.0\powershell.exe");
    fs::create_dir_all(powershell.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&powershell);
    fs::write(&powershell, standin(Behaviour::Well, &[])).unwrap();
    fs::create_dir_all(node.local(r"C:\scripts")).unwrap();
}

#[test]
fn one_that_does_not_end_is_ended_with_all_that_it_has_started() {
    let content = standin_for_csi_proxy(Behaviour::Well);
    // This build has a shorter time limit for scripts.
    let node = Node::with(Build::FaultInjection);
    replace_powershell(&node);
    fs::write(node.local(SCRIPT), r"hang C:\scripts\held").unwrap();
    fs::write(node.local(r"C:\scripts\held"), "").unwrap();
    let begin = Instant::now();
    let hung = node.apply_request(&with_script("hung", &content), Some(&content));
    let message = message_of(&hung, Outcome::Failed, FailureCategory::PreScript);
    assert!(message.contains("did not end within"), "{message}");
    assert!(
        begin.elapsed() < Duration::from_secs(30),
        "{:?}",
        begin.elapsed()
    );
    assert!(node.local(r"C:\k\holding").exists(), "its child was there");
    until("nothing of it lives", || {
        !node
            .run("tasklist")
            .to_lowercase()
            .contains("powershell.exe")
    });
}

#[test]
fn are_carried_out_before_anything_stops_and_again_after_a_boot() {
    let content = standin_for_csi_proxy(Behaviour::Well);
    let node = Node::new();
    replace_powershell(&node);
    let script = |text: &str| fs::write(node.local(SCRIPT), text).unwrap();
    let command = || csi_proxy_of(&node.state()).command.clone().unwrap();

    script("args");
    let first = node.apply_request(&with_script("first", &content), Some(&content));
    assert_eq!(first.end.outcome, Outcome::Applied, "{first:?}");
    assert!(is_well(&first.state, &content), "{first:?}");
    assert!(command().ends_with(" -level=-Node,win 1"), "{}", command());
    let process = csi_proxy_of(&first.state).process_id;

    let before = command();
    for (number, (text, told)) in [
        ("exit 3", "exit status 3"),
        (
            "complain no adapter\n at line 1\n",
            "it says: no adapter at line 1",
        ),
        ("", "printed nothing"),
        ("two\nlines", "more than one line"),
        ("a\"b", "quotes"),
    ]
    .into_iter()
    .enumerate()
    {
        script(text);
        let bad = node.apply_request(&with_script(&format!("bad-{number}"), &content), None);
        let failure = bad.end.failure.unwrap();
        assert_eq!(failure.category, FailureCategory::PreScript, "{text:?}");
        assert!(failure.message.contains(SCRIPT), "{}", failure.message);
        assert!(failure.message.contains(told), "{}", failure.message);
        assert_eq!(csi_proxy_of(&bad.state).process_id, process, "{text:?}");
    }
    // The report about a script whose name is in no console code page is still ASCII.
    let mut named = with_script("named", &content);
    named.services[0].powershell_pre_scripts[0].path = r"C:\scripts\Узел-ノ.ps1".into();
    node.upload_request(&named);
    let said = node.ask(&format!(
        r"{AGENT_EXE} apply --request {INCOMING_DIR}\named.json"
    ));
    assert!(said.is_ascii() && said.contains(r"\u0423"), "{said}");
    let Answer::ApplyResult(failed) = serde_json::from_str(&said).unwrap() else {
        panic!("{said}");
    };
    let message = message_of(&failed, Outcome::Failed, FailureCategory::PreScript);
    assert!(message.contains("Узел-ノ.ps1"), "{message}");

    // A script that others can write is not run at all.
    script("6");
    let set =
        |mode| fs::set_permissions(node.local(SCRIPT), PermissionsExt::from_mode(mode)).unwrap();
    set(0o777);
    let open = node.apply_request(&with_script("open", &content), None);
    let message = message_of(&open, Outcome::Failed, FailureCategory::PreScript);
    assert!(message.contains("can be changed by S-1-1-0"), "{message}");
    set(0o755);
    assert_eq!(command(), before);
    assert_eq!(node.state().request_id.as_deref(), Some("first"));

    script("5");
    node.stop_agent();
    node.start_agent();
    let state = node.eventually("what the script says now is in the command", |state| {
        let service = csi_proxy_of(state);
        service.command.as_ref().unwrap().ends_with(" -level=5") && is_well(state, &content)
    });
    assert_ne!(csi_proxy_of(&state).process_id, process);
    assert_eq!(state.request_id.as_deref(), Some("first"));

    // Only Windows applies the environment; Wine stores the value, but does not pass it on.
    let mut environment = with_script("environment", &content);
    environment
        .environment
        .insert("NO_PROXY".into(), ".svc".into());
    let process = csi_proxy_of(&state).process_id;
    let applied = node.apply_request(&environment, None);
    assert_eq!(applied.end.outcome, Outcome::Applied, "{applied:?}");
    assert_ne!(csi_proxy_of(&applied.state).process_id, process);
    let key = r"reg query HKLM\SYSTEM\CurrentControlSet\Services\csi-proxy /v Environment";
    assert!(node.run(key).contains("NO_PROXY=.svc"));
    let again = node.apply_request(&environment, None);
    assert_eq!(again.end.outcome, Outcome::Unchanged, "{again:?}");

    // A failed change also rolls its environment back.
    let broken = standin(Behaviour::Exits, &[]);
    let mut broken_request = with_script("broken", &broken);
    broken_request
        .environment
        .insert("OTHER".into(), "x".into());
    let rolled_back = node.apply_request(&broken_request, Some(&broken));
    assert_eq!(
        rolled_back.end.outcome,
        Outcome::RolledBack,
        "{rolled_back:?}"
    );
    let variables = node.run(key);
    assert!(
        variables.contains("NO_PROXY=.svc") && !variables.contains("OTHER"),
        "{variables}"
    );
}
