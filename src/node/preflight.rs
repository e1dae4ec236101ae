//! Checks a host for anything that would prevent an installation. Changes nothing there.

use std::time::Duration;

use serde::Serialize;

use crate::node::connect::place;
use crate::node::session::Session;
use crate::node::{
    Awaited, Judgement, Look, NodeError, NodePlan, Target, Trust, inspect, look::look, printable,
    state,
};

/// Time limit for all checks, from the login on.
const LOOK: Duration = Duration::from_secs(120);
/// Time limit for one of Windows' own programs.
const COMMAND: Duration = Duration::from_secs(30);
/// Free space that an update needs, in bytes: csi-proxy twice, and logs.
const ROOM: u64 = 100 << 20;
/// SID of the group of administrators, whose name depends on the host's language.
const ADMINISTRATORS: &str = "S-1-5-32-544";

/// Result of the checks of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preflight {
    /// The Node's name.
    pub node: String,
    /// Address and port of its SSH server.
    pub address: Option<String>,
    /// The user that logs in.
    pub user: Option<String>,
    /// The host key of the server, and whether it is known.
    pub host_key: Option<String>,
    /// Whether the login worked.
    pub reached: bool,
    /// Whether that user is an administrator of the host.
    pub administrator: Option<bool>,
    /// The shell that runs commands.
    pub shell: Option<&'static str>,
    /// Free space on drive C:, in bytes.
    pub free_bytes: Option<u64>,
    /// The version of the operator's agent, if one answers.
    pub agent: Option<String>,
    /// Another owner of csi-proxy, if one was found.
    pub other_owner: Option<String>,
    /// What the operator would do with the node.
    pub next: String,
    /// What would prevent that.
    pub problems: Vec<String>,
}

impl Preflight {
    /// Checks the host of a node with this plan.
    ///
    /// `replaces`: whether a service `csi-proxy` may be taken over.
    pub async fn of(node: &str, plan: &NodePlan, namespace: &str, replaces: bool) -> Self {
        let seen = Self {
            node: node.to_owned(),
            ..Self::default()
        };
        match plan {
            NodePlan::External(who) => seen.owned_by(who),
            NodePlan::Release(who, target) => {
                let next = "remove the agent and leave csi-proxy as it is";
                let seen = seen.owned_by(who).next(next);
                match target {
                    Ok(_) => seen,
                    Err(error) => seen.failed(error),
                }
            }
            NodePlan::Undecided(Awaited::Time(_)) => {
                seen.next("wait: another owner may be setting the node up")
            }
            NodePlan::Undecided(Awaited::DaemonSet(set)) => seen.next(format!(
                "nothing while DaemonSet {set} runs csi-proxy there"
            )),
            NodePlan::RemovalWaits(hold) => seen.next(hold.to_string()),
            NodePlan::Absent(_) => seen.next("nothing: csi-proxy is not to be installed there"),
            NodePlan::Waiting => seen.next("wait: the operator's own objects are being written"),
            NodePlan::Reconcile(Err(error)) | NodePlan::Remove(_, Err(error)) => seen.failed(error),
            NodePlan::Remove(_, Ok(target)) => seen
                .visit(target, namespace, replaces)
                .await
                .next("remove csi-proxy and the agent"),
            NodePlan::Reconcile(Ok(target)) => seen.visit(target, namespace, replaces).await,
        }
    }

    /// Returns whether no problem was found.
    pub fn is_fine(&self) -> bool {
        self.problems.is_empty()
    }

    fn next(mut self, next: impl Into<String>) -> Self {
        self.next = next.into();
        self
    }

    fn owned_by(mut self, who: &str) -> Self {
        self.other_owner = Some(printable(who));
        self.next("leave csi-proxy to its owner")
    }

    fn failed(mut self, error: &NodeError) -> Self {
        self.problems
            .push(format!("{}: {error}", error.reason.as_str()));
        if self.next.is_empty() {
            return self.next("nothing until this problem is solved");
        }
        self
    }

    /// Logs in, and derives the problems and the next action from what is found.
    async fn visit(mut self, target: &Target, namespace: &str, replaces: bool) -> Self {
        self.address = Some(place(&target.address, target.port));
        self.user = Some(target.user.clone());
        let mut seen = self.clone();
        let looked = inspect(target, namespace, Trust::AsOperator, LOOK, move |session| {
            let key = session.host_key.clone();
            let owner = seen.look_around(session, replaces);
            (seen, key, owner)
        });
        match looked.await {
            Ok((mut seen, key, owner)) => {
                seen.host_key = Some(
                    match target.host_keys.judge(namespace, &target.node, &key) {
                        Judgement::New => format!("{} (not known yet)", key.summary()),
                        _ => key.summary(),
                    },
                );
                seen.reached = true;
                seen.conclude(owner, target.is_given)
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Notes what there is on a host; returns the owner of csi-proxy on one without an agent.
    fn look_around(&mut self, session: &mut Session, replaces: bool) -> Result<Look, NodeError> {
        let mut run = |command: &str| Ok(session.query(command, COMMAND)?.stdout);
        self.shell = shell(&run("echo %COMSPEC% $PSHOME")?);
        self.administrator = administrator(&run("whoami /groups")?);
        // A backslash at the end would take the quote with it that sshd sets behind a command for PowerShell.
        self.free_bytes = free_bytes(&run(r"cmd.exe /c dir /-c C:\.")?);
        // SFTP comes last, so that the facts above are known even if it fails.
        let Some(state) = state(session)? else {
            return look(session, replaces, false);
        };
        self.agent = Some(printable(&state.agent_version));
        Ok(Look::NotTaken)
    }

    /// Derives the problems and the next action from what was noted.
    fn conclude(mut self, owner: Result<Look, NodeError>, is_given: bool) -> Self {
        if self.administrator == Some(false) {
            let user = self.user.as_deref().unwrap_or_default();
            self.problems
                .push(format!("user {user} is no administrator there"));
        }
        if let Some(free) = self.free_bytes.filter(|free| *free < ROOM) {
            let (free, room) = (free >> 20, ROOM >> 20);
            let few = format!("drive C: has {free} MiB of free space, less than {room}");
            self.problems.push(few);
        }
        match owner {
            Ok(Look::Owner(who)) => {
                if is_given {
                    self.problems.push(format!(
                        "a csi-proxy is there that the operator neither replaces nor leaves to its owner: {who}; remove it, or, \
                         if it is a service named csi-proxy, set spec.csiProxy.foreignService to Replace"
                    ));
                }
                self.owned_by(&who)
            }
            Ok(_) if self.agent.is_some() => {
                self.next("update the agent or csi-proxy if the operator ships another version")
            }
            Ok(_) => self.next("install the agent and csi-proxy"),
            Err(error) => self.next("install the agent and csi-proxy").failed(&error),
        }
    }
}

/// Identifies the shell from the output of `echo %COMSPEC% $PSHOME`: cmd and PowerShell each expand one of the two to a
/// Windows path.
fn shell(printed: &str) -> Option<&'static str> {
    match (printed.contains("%COMSPEC%"), printed.contains("$PSHOME")) {
        (false, true) => Some("cmd"),
        (true, false) if printed.contains(":\\") => Some("PowerShell"),
        _ => None,
    }
}

/// Returns whether `whoami /groups` lists administrators, with full rights; `None` if its output is not a list of groups.
fn administrator(groups: &str) -> Option<bool> {
    // Integrity labels of an elevated process, as in an SSH session. `whoami` lists them among the groups.
    const ELEVATED: [&str; 2] = ["S-1-16-12288", "S-1-16-16384"];
    let is_list = groups.contains("S-1-1-0");
    let is_elevated = ELEVATED.iter().any(|label| groups.contains(label));
    is_list.then(|| groups.contains(ADMINISTRATORS) && is_elevated)
}

/// Returns the free space from the output of `dir`: the last number in its last line, in any language.
fn free_bytes(printed: &str) -> Option<u64> {
    let line = printed.lines().rev().find(|line| !line.trim().is_empty())?;
    let mut numbers = line.split(|c: char| !c.is_ascii_digit());
    let last = numbers.rfind(|number| !number.is_empty())?;
    last.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Reason;

    #[test]
    fn a_shell_is_known_by_the_variable_that_it_knows() {
        for (printed, expected) in [
            ("C:\\Windows\\system32\\cmd.exe $PSHOME\r\n", Some("cmd")),
            (
                "%COMSPEC%\r\nC:\\Windows\\System32\\WindowsPowerShell\\v1.0\r\n",
                Some("PowerShell"),
            ),
            // Git Bash.
            ("%COMSPEC% \n", None),
            ("", None),
        ] {
            assert_eq!(shell(printed), expected, "{printed}");
        }
    }

    #[test]
    fn the_group_of_administrators_counts_in_every_language() {
        let everyone = "Jeder   Bekannte Gruppe  S-1-1-0\r\n";
        let denied = format!("{everyone}VORDEFINIERT\\Administratoren  Alias  S-1-5-32-544\r\n");
        let both = format!("{denied}Hohe Verbindlichkeitsstufe  Bezeichnung  S-1-16-12288\r\n");
        assert_eq!(administrator(&both), Some(true));
        assert_eq!(administrator(&denied), Some(false));
        assert_eq!(administrator(everyone), Some(false));
        assert_eq!(administrator("whoami: unknown option"), None);
    }

    #[test]
    fn free_space_is_the_last_number() {
        for (printed, expected) in [
            (
                "  3 File(s)  512 bytes\r\n  9 Dir(s)  98765432100 bytes free\r\n\r\n",
                Some(98_765_432_100),
            ),
            (
                "  9 Verzeichnis(se), 98765432100 Bytes frei\r\n",
                Some(98_765_432_100),
            ),
            ("Access is denied.\r\n", None),
            ("", None),
        ] {
            assert_eq!(free_bytes(printed), expected, "{printed}");
        }
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let seen = |change: fn(&mut Preflight), owner, is_given| {
            let mut seen = Preflight::default();
            change(&mut seen);
            seen.conclude(owner, is_given)
        };
        let well = |seen: &mut Preflight| {
            seen.administrator = Some(true);
            seen.free_bytes = Some(1 << 40);
        };
        let fine = seen(well, Ok(Look::Nobody), false);
        let installs = fine.next.starts_with("install");
        assert!(fine.is_fine() && installs, "{fine:?}");
        let owned = || Ok(Look::Owner("unknown owner by service x".to_owned()));
        for (change, owner, is_given, problem) in [
            (
                (|seen| seen.administrator = Some(false)) as fn(&mut Preflight),
                Ok(Look::Nobody),
                false,
                "no administrator",
            ),
            (
                |seen| seen.free_bytes = Some(1 << 20),
                Ok(Look::Nobody),
                false,
                "1 MiB of free space",
            ),
            (
                |_| {},
                Err(Reason::TransferFailed.error("no SFTP")),
                false,
                "TransferFailed: no SFTP",
            ),
            (
                |_| {},
                owned(),
                true,
                "service x; remove it, or, if it is a service named csi-proxy, set",
            ),
        ] {
            let seen = seen(change, owner, is_given);
            assert!(seen.problems[0].contains(problem), "{seen:?}");
        }
        let other = seen(|_| {}, owned(), false);
        assert!(other.is_fine() && other.other_owner.is_some(), "{other:?}");
    }

    #[tokio::test]
    async fn what_keeps_a_node_from_being_released_is_a_problem() {
        let error = Reason::CredentialsMissing.error("there is no Secret");
        let plan = NodePlan::Release("WMCO".to_owned(), Err(error));
        let seen = Preflight::of("win-1", &plan, "ns", false).await;
        assert_eq!(seen.other_owner.as_deref(), Some("WMCO"));
        assert_eq!(seen.problems, ["CredentialsMissing: there is no Secret"]);
    }
}
