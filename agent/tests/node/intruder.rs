//! What somebody with an account on the node, who is no administrator, could try against what SYSTEM runs.
//!
//! Wine has no access lists of its own: as owner it shows its own user, or nobody where the file is another user's. So owners
//! can be tried here, and who may write where can not. Nor does it keep a second process from serving the same pipe, as
//! Windows does where the first has not asked for others.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::process::Command;

use protocol::paths::{AGENT_EXE, AGENT_PIPE, CSI_PROXY_LOG_DIR, INCOMING_DIR, PROGRAM_DIR};
use protocol::{Answer, FailureCategory, Outcome};

use crate::host::{Build, Node, agent, message_of, sha256};
use crate::standin::{Behaviour, TOOL, standin_for_csi_proxy};

/// `nobody`, whom no host runs as.
const SOMEBODY: u32 = 65_534;

impl Node {
    /// Has something there belong to another owner: by its owner, where this may change it, or by a link to what is
    /// root's.
    fn give_away(&self, path: &str) {
        let path = self.local(path);
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            return chown(path, Some(SOMEBODY), None).unwrap();
        }
        let (aside, roots) = (path.with_extension("aside"), fs::metadata(&path).unwrap());
        fs::rename(&path, aside).unwrap();
        let roots = if roots.is_dir() {
            "/usr/lib"
        } else {
            "/etc/passwd"
        };
        symlink(roots, path).unwrap();
    }

    fn take_back(&self, path: &str) {
        let path = self.local(path);
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            return chown(path, Some(0), None).unwrap();
        }
        fs::remove_file(&path).unwrap();
        fs::rename(path.with_extension("aside"), path).unwrap();
    }
}

#[test]
fn what_belongs_to_others_is_not_used() {
    let csi_proxy = standin_for_csi_proxy(Behaviour::Well);
    let node = Node::new();
    let agent = agent(Build::Payload);
    let library = format!(r"{PROGRAM_DIR}\version.dll");
    fs::write(node.local(&library), "MZ").unwrap();
    for theirs in [PROGRAM_DIR, r"C:\var", &library] {
        node.give_away(theirs);
        let failure = node.install(&agent).unwrap_err();
        assert_eq!(
            failure.category,
            FailureCategory::AccessDenied,
            "{failure:?}"
        );
        let begins = format!("{theirs} belongs to S-1-");
        assert!(failure.message.starts_with(&begins), "{failure:?}");
        assert!(failure.message.contains("takeown /A /F"), "{failure:?}");
        node.take_back(theirs);
        assert_eq!(node.install(&agent), Ok(sha256(&agent)));
    }

    // The service would write its log there, or wherever its owner has it lead.
    fs::create_dir_all(node.local(CSI_PROXY_LOG_DIR)).unwrap();
    node.give_away(CSI_PROXY_LOG_DIR);
    let refused = node.apply("first", &csi_proxy);
    let message = message_of(&refused, Outcome::Failed, FailureCategory::AccessDenied);
    assert!(message.starts_with(CSI_PROXY_LOG_DIR), "{message}");
    node.take_back(CSI_PROXY_LOG_DIR);
    node.applied("second", &csi_proxy);
}

#[test]
fn a_pipe_that_another_process_serves_is_not_taken_for_the_agents() {
    let csi_proxy = standin_for_csi_proxy(Behaviour::Well);
    let node = Node::new();
    node.bring_tool();
    node.stop_agent();
    let name = AGENT_PIPE.trim_start_matches(r"\\.\pipe\");
    let answer = node.while_tool(&format!("serve {name}"), || {
        node.upload("first", &csi_proxy, &sha256(&csi_proxy));
        let command =
            format!(r"{AGENT_EXE} apply --request {INCOMING_DIR}\first.json --timeout 120");
        node.answer(&command)
    });
    // Who is called first says nothing at all, and would be waited for without success.
    match answer {
        // The agent's service serves it, too, and its process is the one that was called then.
        Answer::ApplyResult(result) => {
            assert_eq!(result.end.outcome, Outcome::Applied, "{result:?}");
        }
        Answer::Error(failure) => {
            assert_eq!(
                failure.category,
                FailureCategory::AgentUnavailable,
                "{failure:?}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        node.apply("second", &csi_proxy).end.outcome,
        Outcome::Unchanged
    );
}

#[test]
fn what_is_no_call_is_refused_and_costs_nobody_else_anything() {
    let csi_proxy = standin_for_csi_proxy(Behaviour::Well);
    let node = Node::new();
    node.bring_tool();
    let name = AGENT_PIPE.trim_start_matches(r"\\.\pipe\");
    let send = |content: &[u8]| {
        fs::write(node.local(r"C:\tool\call"), content).unwrap();
        node.run(&format!(r"{TOOL} send {name} C:\tool\call"))
    };
    let apply = |path: &str| {
        let text = serde_json::json!({"call": "apply", "request": path}).to_string();
        (text + "\n").into_bytes()
    };
    for (call, answer) in [
        (b"this is no JSON\n".to_vec(), "refused"),
        (b"\xff\xfe\0\n".to_vec(), "hung up"),
        (
            b"[".repeat(200_000).into_iter().chain(*b"\n").collect(),
            "refused",
        ),
        (apply(r"C:\tool\call"), "refused"),
        (
            apply(r"C:\k\windows-storage\incoming\..\..\x.json"),
            "refused",
        ),
        (apply(r"\\192.0.2.1\share\x.json"), "refused"),
        // Longer than any call, and without an end.
        (vec![b'x'; 10 << 20], "hung up"),
    ] {
        let answered = send(&call);
        let begin = String::from_utf8_lossy(&call[..call.len().min(40)]).into_owned();
        assert!(answered.contains(answer), "{begin}: {answered}");
    }
    node.applied("first", &csi_proxy);
}

/// DLLs that Windows takes from its own folder whatever lies beside a program: those of `KnownDLLs`, and names of API
/// sets, which are no files.
#[test]
fn the_agent_loads_no_library_that_could_lie_beside_it() {
    const KNOWN: [&str; 4] = ["advapi32.dll", "kernel32.dll", "msvcrt.dll", "ntdll.dll"];
    let exe = std::env::temp_dir().join(format!("agent-imports-{}.exe", std::process::id()));
    fs::write(&exe, agent(Build::Payload)).unwrap();
    let mut objdump = Command::new("x86_64-w64-mingw32-objdump");
    let output = objdump.arg("-p").arg(&exe).output().unwrap();
    fs::remove_file(&exe).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).to_lowercase();
    let names = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("dll name: "));
    let names: Vec<&str> = names.collect();
    assert!(names.contains(&"kernel32.dll"), "{names:?}");
    for name in names {
        assert!(
            KNOWN.contains(&name) || name.starts_with("api-ms-win-"),
            "{name}"
        );
    }
}
