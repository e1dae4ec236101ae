//! The services and processes on a node that are not managed by the agent.

use std::collections::BTreeSet;

use crate::command::{program, same_path};
use crate::order::{key, same_name};
use crate::{ForeignInstance, ForeignKind};

/// The prefix of the descriptions of our services; the service's name follows.
pub const DESCRIPTION_MARK: &str = "Managed by windows-storage-operator: ";

const NAMES: [&str; 2] = ["csi-proxy", "csiproxy"];
const PROGRAM: &str = "csi-proxy.exe";

/// A Windows service on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenService {
    /// The service's name.
    pub name: String,
    /// The service's command line.
    pub command: String,
    /// The service's description.
    pub description: String,
    /// The services that this one depends on.
    pub dependencies: Vec<String>,
    /// Whether the service is in any state other than stopped.
    pub active: bool,
    /// The process ID, while the service has a process.
    pub process_id: Option<u32>,
}

/// A process on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenProcess {
    /// The process ID.
    pub id: u32,
    /// The parent's process ID; the parent may have exited.
    pub parent: u32,
    /// The program's path, or only its file name if Windows does not give the path.
    pub program: String,
}

/// Returns the csi-proxy instances that are not ours. Services named in `ours` count as ours whatever their description.
#[must_use]
pub fn foreign(
    services: &[SeenService],
    processes: &[SeenProcess],
    ours: &[String],
) -> Vec<ForeignInstance> {
    let (own, others): (Vec<_>, Vec<_>) = services.iter().partition(|service| {
        service.description.starts_with(DESCRIPTION_MARK) || contains(ours, &service.name)
    });
    let (others, _): (Vec<_>, Vec<_>) = others.into_iter().partition(|it| is_csi_proxy(it));
    let belongs = |process: &&SeenProcess| {
        let mut known = own.iter().chain(&others);
        known.any(|service| belongs_to(process, service.process_id))
    };
    // A process that is still exiting after its service stopped.
    let lingers = |process: &&SeenProcess| {
        let mut stopped = own.iter().filter(|service| service.process_id.is_none());
        stopped.any(|service| runs(&service.command, &process.program))
    };
    let services = others.iter().map(|service| ForeignInstance {
        kind: ForeignKind::Service,
        name: service.name.clone(),
        command: service.command.clone(),
        running: service.active,
    });
    let processes = processes
        .iter()
        .filter(|process| is_program(&process.program) && !belongs(process) && !lingers(process))
        .map(|process| ForeignInstance {
            kind: ForeignKind::Process,
            name: process.id.to_string(),
            command: process.program.clone(),
            running: true,
        });
    services.chain(processes).collect()
}

/// Whether `names` contains a name, compared as the Service Control Manager does.
#[must_use]
pub fn contains(names: &[String], name: &str) -> bool {
    names.iter().any(|known| same_name(known, name))
}

/// Whether a process is a service's own, or was started by it as with wrappers such as nssm.
#[must_use]
pub fn belongs_to(process: &SeenProcess, service: Option<u32>) -> bool {
    service.is_some_and(|id| id == process.id || id == process.parent)
}

/// Whether a command runs the program at `path`.
#[must_use]
pub fn runs(command: &str, path: &str) -> bool {
    program(command).is_some_and(|program| same_path(program, path))
}

/// Whether a service is csi-proxy, judged by its name or program.
#[must_use]
pub fn is_csi_proxy(service: &SeenService) -> bool {
    NAMES.contains(&key(&service.name).as_str()) || service.command.to_lowercase().contains(PROGRAM)
}

fn is_program(path: &str) -> bool {
    let name = path.rsplit(['\\', '/']).next();
    name.is_some_and(|name| name.eq_ignore_ascii_case(PROGRAM))
}

/// Returns the active services that depend on one of `stopping`, directly or transitively, in start order. Excludes
/// `stopping` itself.
#[must_use]
pub fn dependents<'a>(
    stopping: &BTreeSet<String>,
    services: &'a [SeenService],
) -> Vec<&'a SeenService> {
    let mut known = stopping.clone();
    let mut found: Vec<&SeenService> = Vec::new();
    while let Some(next) = services.iter().find(|service| {
        service.active && !known.contains(&key(&service.name)) && needs(service, &known)
    }) {
        known.insert(key(&next.name));
        found.push(next);
    }
    let mut order = Vec::new();
    while !found.is_empty() {
        let left = found.iter().map(|service| key(&service.name)).collect();
        let next = found.iter().position(|service| !needs(service, &left));
        // Break a cycle anywhere: Windows could not start it either.
        order.push(found.remove(next.unwrap_or_default()));
    }
    order
}

fn needs(service: &SeenService, names: &BTreeSet<String>) -> bool {
    let mut needed = service.dependencies.iter();
    needed.any(|name| names.contains(&key(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, command: &str, process_id: Option<u32>) -> SeenService {
        SeenService {
            name: name.into(),
            command: command.into(),
            active: process_id.is_some(),
            process_id,
            ..SeenService::default()
        }
    }

    fn process(id: u32, parent: u32, program: &str) -> SeenProcess {
        SeenProcess {
            id,
            parent,
            program: program.into(),
        }
    }

    #[test]
    fn names_what_is_not_ours() {
        let services = [
            service("csi-proxy", r"C:\k\csi-proxy.exe -v=2", Some(10)),
            service("CsiProxy", r"C:\other\proxy.exe", None),
            service("storage", r"C:\other\CSI-Proxy.exe", Some(20)),
            service("wrapped", r"C:\nssm.exe run C:\x\csi-proxy.exe", Some(30)),
            service("kubelet", r"C:\k\kubelet.exe", Some(40)),
        ];
        let processes = [
            process(10, 1, r"C:\k\csi-proxy.exe"),
            process(11, 1, r"C:\k\csi-proxy.exe"),
            process(20, 1, r"C:\other\CSI-Proxy.exe"),
            process(31, 30, r"C:\x\csi-proxy.exe"),
            process(41, 40, r"C:\container\csi-proxy.exe"),
            process(42, 40, r"C:\container\pause.exe"),
        ];
        let ours = ["CSI-proxy".to_owned()];
        let names = |found: Vec<ForeignInstance>| -> Vec<String> {
            found.into_iter().map(|instance| instance.name).collect()
        };
        assert_eq!(
            names(foreign(&services, &processes, &ours)),
            ["CsiProxy", "storage", "wrapped", "11", "41"]
        );
        // A service with the right name that the agent did not create.
        assert_eq!(
            names(foreign(&services[..1], &processes[..1], &[])),
            ["csi-proxy"]
        );
        let mut marked = services[0].clone();
        marked.description = format!("{DESCRIPTION_MARK}csi-proxy");
        assert_eq!(names(foreign(&[marked], &processes[..1], &[])), [""; 0]);
        // A process of ours that outlives its stopped service.
        let stopped = [service("csi-proxy", r"C:\k\csi-proxy.exe", None)];
        assert_eq!(foreign(&stopped, &processes[..1], &ours), []);
    }

    fn needing(name: &str, dependencies: &[&str], active: bool) -> SeenService {
        SeenService {
            name: name.into(),
            dependencies: dependencies.iter().map(|&name| name.into()).collect(),
            active,
            ..SeenService::default()
        }
    }

    #[test]
    fn dependents_of_dependents_in_start_order() {
        let services = [
            needing("top", &["left", "right"], true),
            needing("right", &["BASE"], true),
            needing("left", &["base", "right"], true),
            needing("base", &[], true),
            needing("idle", &["base"], false),
            needing("above-idle", &["idle"], true),
            needing("other", &["rpcss"], true),
        ];
        let circle = [
            needing("a", &["b", "base"], true),
            needing("b", &["a"], true),
        ];
        let stopping = BTreeSet::from(["base".to_owned()]);
        let found = dependents(&stopping, &services);
        let names: Vec<_> = found.iter().map(|service| &*service.name).collect();
        assert_eq!(names, ["right", "left", "top"]);
        assert_eq!(dependents(&stopping, &circle).len(), 2, "it ends");
    }
}
