//! Finds out from services and processes who manages csi-proxy on a node without an agent.

use std::time::Duration;

use protocol::ForeignInstance;
use protocol::command::same_name;
use protocol::paths::{AGENT_EXE, AGENT_SERVICE, agent_service_command};
use protocol::seen::{SeenProcess, SeenService, foreign, is_csi_proxy};

use crate::node::answer::brief;
use crate::node::plan::may_replace;
use crate::node::session::Session;
use crate::node::{NodeError, Reason, printable};

/// Time limit for Windows to list its services, or its processes.
const LIST: Duration = Duration::from_secs(60);
const SERVICES: &str = r"HKLM\SYSTEM\CurrentControlSet\Services";
const PROCESSES: &str = "tasklist /fo csv /nh";
const UNLISTED: &str = "services or processes that cannot be listed";
/// Prefix of [`WindowsNodeStorageStatus::managed_by`](crate::api::WindowsNodeStorageStatus::managed_by) if only a check
/// on the node shows another owner.
pub const UNKNOWN_OWNER: &str = "unknown owner by ";

/// What a check on the node found about other owners of csi-proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// No check was made.
    #[default]
    NotTaken,
    /// There is no other owner.
    Nobody,
    /// Another owner, described in words.
    Owner(String),
}

impl Look {
    /// Names the first owner of these that is not replaced. `replaces`: whether a service `csi-proxy` may be taken over.
    pub fn of(found: &[ForeignInstance], replaces: bool) -> Self {
        let other = found.iter().find(|it| !(replaces && may_replace(it)));
        other.map_or(Self::Nobody, |other| Self::unknown(&other.to_string()))
    }

    fn unknown(by: &str) -> Self {
        Self::Owner(printable(&format!("{UNKNOWN_OWNER}{by}")))
    }
}

/// Checks a node without an agent, and changes nothing. `replaces`: whether a service `csi-proxy` may be taken over. If
/// Windows does not list its services or processes, that counts as another owner; on a node of this operator (`is_ours`) it is
/// an error that says what Windows printed instead: a host in trouble has no other owner.
pub fn look(session: &mut Session, replaces: bool, is_ours: bool) -> Result<Look, NodeError> {
    let mut printed = String::new();
    let mut run = |command: &str| {
        let output = session.query(command, LIST)?;
        printed = brief(&output);
        Ok(output.stdout)
    };
    match look_with(&mut run, replaces)? {
        Some(seen) => Ok(seen),
        None if is_ours => Err(Reason::AgentFailed.error(format!(
            "whether the agent is installed cannot be told, because of {UNLISTED} on the node: {printed}"
        ))),
        None => Ok(Look::unknown(UNLISTED)),
    }
}

/// `None`: Windows does not list its services or processes.
fn look_with(
    run: &mut dyn FnMut(&str) -> Result<String, NodeError>,
    replaces: bool,
) -> Result<Option<Look>, NodeError> {
    let Some(mut services) = listed(run)? else {
        return Ok(None);
    };
    let mut processes = Vec::new();
    if services.iter().any(is_csi_proxy) {
        let descriptions = run(&query("Description"))?;
        if !is_whole(&descriptions) {
            return Ok(None);
        }
        for (name, description) in values(&descriptions) {
            let mut described = services.iter_mut();
            if let Some(service) = described.find(|service| same_name(&service.name, name)) {
                description.clone_into(&mut service.description);
            }
        }
    } else {
        let printed = run(PROCESSES)?;
        if self::processes(&printed).is_empty() {
            return Ok(None);
        }
        let of_services = printed.lines().filter(|line| !is_of_another_session(line));
        processes = of_services.flat_map(self::processes).collect();
    }
    let found = foreign(&services, &processes, false);
    Ok(Some(Look::of(&found, replaces)))
}

/// Returns whether Windows names exactly our program as the agent's service. Without that, the file at its path may be
/// anybody's: ordinary accounts can write below `C:\`, and only administrators can write the registry of services.
pub fn is_agent_installed(session: &mut Session) -> Result<bool, NodeError> {
    let commands = agent_services(session)?;
    Ok(commands == [agent_service_command(AGENT_EXE)])
}

/// Returns whether the agent's service exists on the node, whatever it runs, and even if its files do not exist.
pub fn has_agent_service(session: &mut Session) -> Result<bool, NodeError> {
    Ok(!agent_services(session)?.is_empty())
}

/// Returns the command line of the agent's service, if there is one.
fn agent_services(session: &mut Session) -> Result<Vec<String>, NodeError> {
    let command = format!(r"reg query {SERVICES}\{AGENT_SERVICE} /v ImagePath");
    let output = session.query(&command, LIST)?;
    let found = values(&output.stdout);
    let found = found.filter(|(name, _)| same_name(name, AGENT_SERVICE));
    Ok(found.map(|(_, command)| command.to_owned()).collect())
}

/// Returns all services; `None` if Windows does not list them.
fn listed(
    run: &mut dyn FnMut(&str) -> Result<String, NodeError>,
) -> Result<Option<Vec<SeenService>>, NodeError> {
    let paths = run(&query("ImagePath"))?;
    // The program that nssm runs for a service.
    let applications = run(&query("Application"))?;
    let services = services(&paths, &applications);
    let is_whole = !services.is_empty() && is_whole(&paths) && is_whole(&applications);
    Ok(is_whole.then_some(services))
}

/// Returns a command that lists a value of all services. Use only its output: it reports a failure if no service has the value.
fn query(value: &str) -> String {
    format!("reg query {SERVICES} /s /v {value}")
}

/// Returns whether the output of `reg query` is complete: a line in the host's language states how many values it found.
fn is_whole(printed: &str) -> bool {
    let found = values(printed).count().to_string();
    let mut others = printed.lines().filter(|line| !line.starts_with(' '));
    others.any(|line| {
        let digits = line.chars().filter(char::is_ascii_digit);
        !line.starts_with("HKEY_") && digits.eq(found.chars())
    })
}

/// Returns the services and their programs, from the output of `reg query` for two values.
fn services(paths: &str, applications: &str) -> Vec<SeenService> {
    let mut services: Vec<SeenService> = Vec::new();
    for (name, command) in values(paths).chain(values(applications)) {
        let mut known = services.iter_mut();
        if let Some(service) = known.find(|service| same_name(&service.name, name)) {
            service.command = format!("{} {command}", service.command);
        } else {
            services.push(SeenService {
                name: name.to_owned(),
                command: command.to_owned(),
                ..SeenService::default()
            });
        }
    }
    services
}

/// Parses the output of `reg query`: each value, with the service whose key it belongs to.
fn values(printed: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut service = None;
    printed.lines().filter_map(move |line| {
        if !line.starts_with(' ') {
            let (_, rest) = line.split_once(r"\CurrentControlSet\Services\")?;
            service = rest.trim_end().split('\\').next();
            return None;
        }
        let (_, value) = line.split_once("REG_")?;
        let (_, value) = value.split_once(' ')?;
        Some((service?, value.trim()))
    })
}

/// Returns whether a line of `tasklist` names a session other than 0, in which services run. Each container with process
/// isolation has a session of its own, and anybody may run a program called csi-proxy there
/// (<https://learn.microsoft.com/virtualization/windowscontainers/manage-containers/hyperv-container> shows one from the
/// host).
fn is_of_another_session(line: &str) -> bool {
    let session = line.split("\",\"").nth(3);
    let session = session.and_then(|session| session.parse::<u32>().ok());
    session.is_some_and(|session| session != 0)
}

/// Parses the processes from the comma-separated output of `tasklist`.
fn processes(printed: &str) -> Vec<SeenProcess> {
    let process = |line: &str| {
        // Skip what a shell prints in front.
        let mut fields = line[line.find('"')? + 1..].split("\",\"");
        let program = fields.next()?.to_owned();
        let id = fields.next()?.trim_end_matches('"').parse().ok()?;
        Some(SeenProcess {
            id,
            parent: 0,
            program,
        })
    };
    printed.lines().filter_map(process).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = r"HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Services";
    const TASKS: &str =
        "\"System Idle Process\",\"0\",\"Services\",\"0\",\"8 K\"\r\n\"sshd.exe\",\"2,\"x\r\n";

    /// Simulates the output of a host that has these services and values, and runs these programs.
    fn host(
        values: &[(&str, &str, &str)],
        programs: &[&str],
    ) -> impl FnMut(&str) -> Result<String, NodeError> {
        move |command: &str| {
            if command == PROCESSES {
                let lines = programs.iter().zip(7..);
                let lines = lines.map(|(name, id)| {
                    format!("\"{name}\",\"{id}\",\"Services\",\"0\",\"1,024 K\"\r\n")
                });
                return Ok(lines.collect());
            }
            let values = values.iter().filter(|(key, value, _)| {
                command.ends_with(&format!(" /v {value}"))
                    && (command.contains(" /s ") || command.contains(&format!(r"\{key} ")))
            });
            let lines: Vec<String> = values
                .map(|(key, value, data)| {
                    format!("\r\n{KEY}\\{key}\r\n    {value}    REG_EXPAND_SZ    {data}\r\n")
                })
                .collect();
            let found = lines.len();
            Ok(format!(
                "{}\r\nEnd of search: {found} match(es) found.\r\n",
                lines.concat()
            ))
        }
    }

    fn owner(values: &[(&str, &str, &str)], programs: &[&str], replaces: bool) -> Option<String> {
        let seen = look_with(&mut host(values, programs), replaces).unwrap();
        match seen.unwrap_or_else(|| Look::unknown(UNLISTED)) {
            Look::Owner(who) => Some(who.strip_prefix(UNKNOWN_OWNER).unwrap().to_owned()),
            Look::Nobody => None,
            Look::NotTaken => panic!("a look was taken"),
        }
    }

    #[test]
    fn another_owner_is_found_by_names_programs_and_what_wrappers_run() {
        const SSH: (&str, &str, &str) = ("sshd", "ImagePath", r"C:\OpenSSH\sshd.exe");
        let ours = "Managed by windows-storage-operator: csi-proxy";
        for (others, programs, expected) in [
            (&[][..], &["sshd.exe", "csi-proxy-logs.exe"][..], None),
            (
                &[("csiproxy", "ImagePath", r"C:\etc\x.exe -windows-service")],
                &["sshd.exe"],
                Some(r"service csiproxy (C:\etc\x.exe -windows-service)"),
            ),
            (
                &[("storage", "ImagePath", r#""C:\my k\CSI-Proxy.exe""#)],
                &["CSI-Proxy.exe"],
                Some(r#"service storage ("C:\my k\CSI-Proxy.exe")"#),
            ),
            (
                &[
                    ("storage", "ImagePath", r"C:\nssm.exe"),
                    (r"storage\Parameters", "Application", r"C:\k\csi-proxy.exe"),
                ],
                &["csi-proxy.exe"],
                Some(r"service storage (C:\nssm.exe C:\k\csi-proxy.exe)"),
            ),
            (
                &[],
                &["sshd.exe", "csi-proxy.exe"],
                Some("process 8 (csi-proxy.exe)"),
            ),
            // Left behind by an agent of this operator.
            (
                &[
                    ("csi-proxy", "ImagePath", r"C:\k\csi-proxy.exe"),
                    ("csi-proxy", "Description", ours),
                ],
                &["csi-proxy.exe"],
                None,
            ),
            // A service of the agent's name shows nothing about csi-proxy.
            (
                &[
                    ("Windows-Storage-Agent", "ImagePath", r"C:\k\a.exe service"),
                    ("csiproxy", "ImagePath", r"C:\csi-proxy.exe"),
                ],
                &[],
                Some(r"service csiproxy (C:\csi-proxy.exe)"),
            ),
        ] {
            let all: Vec<_> = [SSH].into_iter().chain(others.iter().copied()).collect();
            assert_eq!(
                owner(&all, programs, false).as_deref(),
                expected,
                "{others:?}"
            );
        }
    }

    #[test]
    fn a_process_of_a_container_is_no_other_owner() {
        let listed = |session: &str| {
            let line = format!("\"csi-proxy.exe\",\"9\",{session},\"8 K\"\r\n");
            let printed = format!("\"sshd.exe\",\"8\",\"Services\",\"0\",\"9 K\"\r\n{line}");
            let sshd = [("sshd", "ImagePath", "x")];
            let mut services = host(&sshd, &[]);
            let mut run = |command: &str| match command {
                PROCESSES => Ok(printed.clone()),
                other => services(other),
            };
            look_with(&mut run, false).unwrap().unwrap()
        };
        assert_eq!(listed("\"\",\"3\""), Look::Nobody);
        // Services, and what cannot be read.
        for session in ["\"Services\",\"0\"", "\"Dienste\",\"0\"", "\"x\",\"?\""] {
            assert!(matches!(listed(session), Look::Owner(_)), "{session}");
        }
    }

    #[test]
    fn what_cannot_be_listed_counts_as_another_owners() {
        assert_eq!(owner(&[], &["sshd.exe"], true).as_deref(), Some(UNLISTED));
        let sshd = [("sshd", "ImagePath", "x")];
        assert_eq!(owner(&sshd, &[], false).as_deref(), Some(UNLISTED));
        assert_eq!(processes(TASKS).len(), 1);
    }
}
