//! Attacks on what SYSTEM runs by an account on the node that is not an administrator.
//!
//! Wine has no access control lists of its own: it derives them from Unix permissions. "Others" become Everyone, and the
//! owner is Wine's own user, or nobody if another user owns the file. Wine has no junctions, and follows a Unix symbolic
//! link without reporting it, so the library's own tests cover links.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use protocol::paths::{
    AGENT_EXE, AGENT_PREVIOUS, AGENT_SERVICE, CSI_PROXY_EXE, CSI_PROXY_LOG_DIR, DESIRED_FILE,
    JOURNAL_FILE, PROGRAM_DIR,
};
use protocol::{FailureCategory, Outcome};

use crate::host::{Build, Node, agent, is_well, message_of, sha256};
use crate::standin::{Behaviour, standin_for_csi_proxy};

/// `nobody`, a user that no host runs as.
const SOMEBODY: u32 = 65_534;

impl Node {
    /// Gives a file or folder another owner: by changing its owner if the test may do that, or else by a link to one that
    /// root owns.
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

    /// Returns the permissions of others on a file or folder: 4 read, 2 write, 1 run or traverse.
    fn others_may(&self, path: &str) -> u32 {
        fs::metadata(self.local(path)).unwrap().mode() & 7
    }

    fn let_others(&self, path: &str, rights: u32) {
        let path = self.local(path);
        let mode = fs::metadata(&path).unwrap().mode() & 0o770 | rights;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
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
    // Windows looks there first for the libraries of a program without a manifest.
    let local = format!("{CSI_PROXY_EXE}.local");
    fs::create_dir(node.local(&local)).unwrap();
    for theirs in [PROGRAM_DIR, r"C:\var", &library, &local, AGENT_EXE] {
        node.give_away(theirs);
        let failure = node.install(&agent).unwrap_err();
        assert_eq!(failure.category, FailureCategory::Untrusted, "{failure:?}");
        let begins = format!("{theirs} belongs to S-1-");
        assert!(failure.message.starts_with(&begins), "{failure:?}");
        assert!(failure.message.contains("takeown /A /F"), "{failure:?}");
        node.take_back(theirs);
        assert_eq!(node.install(&agent), Ok(sha256(&agent)));
    }

    // The service would write its log there, or to wherever the folder's owner redirects it.
    fs::create_dir_all(node.local(CSI_PROXY_LOG_DIR)).unwrap();
    node.give_away(CSI_PROXY_LOG_DIR);
    let refused = node.apply("first", &csi_proxy);
    let message = message_of(&refused, Outcome::Failed, FailureCategory::Untrusted);
    assert!(message.starts_with(CSI_PROXY_LOG_DIR), "{message}");
    node.take_back(CSI_PROXY_LOG_DIR);
    node.applied("second", &csi_proxy);

    // SYSTEM would run what its owner may replace.
    node.give_away(CSI_PROXY_EXE);
    let refused = node.apply("third", &csi_proxy);
    let message = message_of(&refused, Outcome::Failed, FailureCategory::Untrusted);
    assert!(message.starts_with(CSI_PROXY_EXE), "{message}");
    assert_eq!(refused.state.request_id.as_deref(), Some("second"));
    node.take_back(CSI_PROXY_EXE);
}

#[test]
fn rights_to_write_are_taken_away_and_others_stay() {
    let csi_proxy = standin_for_csi_proxy(Behaviour::Well);
    let node = Node::new();
    let agent = agent(Build::Payload);
    node.applied("first", &csi_proxy);
    for (before, after) in [(7, 5), (5, 5), (1, 1), (0, 0)] {
        node.let_others(PROGRAM_DIR, before);
        assert_eq!(node.install(&agent), Ok(sha256(&agent)), "{before}");
        assert_eq!(node.others_may(PROGRAM_DIR), after, "{before}");
    }
    node.let_others(PROGRAM_DIR, 5);

    // The agent's own files are protected one by one; files of others are only refused, for their owners to fix.
    for ours in [AGENT_EXE, CSI_PROXY_EXE] {
        node.let_others(ours, 7);
    }
    assert_eq!(node.install(&agent), Ok(sha256(&agent)));
    let again = node.apply("second", &csi_proxy);
    assert_eq!(again.end.outcome, Outcome::Unchanged, "{again:?}");
    for ours in [AGENT_EXE, CSI_PROXY_EXE] {
        assert_eq!(node.others_may(ours), 5, "{ours}");
    }
    let theirs = format!(r"{PROGRAM_DIR}\version.dll");
    fs::write(node.local(&theirs), "MZ").unwrap();
    node.let_others(&theirs, 7);
    let failure = node.install(&agent).unwrap_err();
    assert_eq!(failure.category, FailureCategory::Untrusted);
    let begins = format!("{theirs} can be changed by S-1-1-0");
    assert!(failure.message.starts_with(&begins), "{failure:?}");
    assert!(failure.message.contains("icacls"), "{failure:?}");
    assert_eq!(node.others_may(&theirs), 7);
}

/// A second name stands for a handle that was opened before the file was protected.
#[test]
fn programs_that_lay_there_are_copied_before_they_are_run() {
    let csi_proxy = standin_for_csi_proxy(Behaviour::Well);
    let node = Node::new();
    let agent = agent(Build::Payload);
    let lay = |program: &str, content: &[u8]| {
        let (path, other) = (node.local(program), node.local(r"C:\other.exe"));
        let _ = fs::remove_file(&other);
        fs::write(&path, content).unwrap();
        fs::hard_link(path, &other).unwrap();
        other
    };
    let other = lay(CSI_PROXY_EXE, &csi_proxy);
    node.applied("first", &csi_proxy);
    fs::write(other, "theirs").unwrap();
    assert!(is_well(&node.state(), &csi_proxy));
    let other = lay(&format!("{DESIRED_FILE}.new"), b"theirs");
    node.apply("second", &csi_proxy);
    fs::write(other, "theirs").unwrap();
    assert_eq!(node.state().request_id.as_deref(), Some("second"));

    node.stop_agent();
    node.run(&format!("sc delete {AGENT_SERVICE}"));
    let other = lay(AGENT_EXE, &agent);
    let journal = fs::read(node.local(DESIRED_FILE)).unwrap();
    fs::write(node.local(JOURNAL_FILE), journal).unwrap();
    fs::write(node.local(AGENT_PREVIOUS), "theirs").unwrap();
    assert_eq!(node.install(&agent), Ok(sha256(&agent)));
    fs::write(other, "theirs").unwrap();
    let state = node.state();
    assert_eq!(state.agent_sha256, Some(sha256(&agent)));
    assert_eq!(state.request_id, None, "what lay there is not carried out");
    assert!(!node.local(JOURNAL_FILE).exists());
    assert!(
        !node.local(AGENT_PREVIOUS).exists(),
        "what is fallen back to"
    );
}

/// Wine does not report a Unix link as a link: the target is checked, and not written to if another account owns it.
#[test]
fn a_log_is_not_written_through_what_others_have_laid() {
    let csi_proxy = standin_for_csi_proxy(Behaviour::Well);
    let node = Node::new();
    let log = format!(r"{CSI_PROXY_LOG_DIR}\csi-proxy.log");
    fs::create_dir_all(node.local(CSI_PROXY_LOG_DIR)).unwrap();
    fs::write(node.local(&log), "theirs").unwrap();
    node.give_away(&log);
    let refused = node.apply("first", &csi_proxy);
    let message = message_of(&refused, Outcome::Failed, FailureCategory::Untrusted);
    assert!(message.starts_with(&log), "{message}");
    node.take_back(&log);
    node.applied("second", &csi_proxy);
}

/// DLLs that Windows always loads from its own folder, whatever is beside a program: those in `KnownDLLs`, and names of API
/// sets, which are not files.
#[test]
fn the_agent_loads_no_library_that_could_lie_beside_it() {
    const KNOWN: [&str; 5] = [
        "advapi32.dll",
        "kernel32.dll",
        "msvcrt.dll",
        "ntdll.dll",
        "rpcrt4.dll",
    ];
    let exe = std::env::temp_dir().join(format!("agent-imports-{}.exe", std::process::id()));
    fs::write(&exe, agent(Build::Payload)).unwrap();
    let names = testbed::commands::imported_libraries(&exe).unwrap();
    fs::remove_file(&exe).unwrap();
    assert!(names.contains("kernel32.dll"), "{names:?}");
    for name in names {
        assert!(
            KNOWN.contains(&&*name) || name.starts_with("api-ms-win-"),
            "{name}"
        );
    }
}
