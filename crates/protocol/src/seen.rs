//! The services and processes on a node that are not managed by the agent.

use crate::command::{program, same_name, same_path};
use crate::paths::CSI_PROXY_SERVICE;
use crate::{ForeignInstance, ForeignKind};

/// The description of our csi-proxy service, by which it is told from others'.
pub const DESCRIPTION: &str = "Managed by windows-storage-operator: csi-proxy";

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

/// Returns the csi-proxy instances that are not ours. With `is_kept`, the service `csi-proxy` is ours whatever its
/// description.
pub fn foreign(
    services: &[SeenService],
    processes: &[SeenProcess],
    is_kept: bool,
) -> Vec<ForeignInstance> {
    let (own, others): (Vec<_>, Vec<_>) = services.iter().partition(|service| {
        same_name(&service.name, CSI_PROXY_SERVICE)
            && (is_kept || service.description == DESCRIPTION)
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

/// Whether a process is a service's own, or was started by it as with wrappers such as nssm.
pub fn belongs_to(process: &SeenProcess, service: Option<u32>) -> bool {
    service.is_some_and(|id| id == process.id || id == process.parent)
}

/// Whether a command runs the program at `path`.
pub fn runs(command: &str, path: &str) -> bool {
    program(command).is_some_and(|program| same_path(program, path))
}

/// Whether a service is csi-proxy, judged by its name or program.
pub fn is_csi_proxy(service: &SeenService) -> bool {
    let is_name = NAMES.iter().any(|name| same_name(name, &service.name));
    is_name || service.command.to_lowercase().contains(PROGRAM)
}

fn is_program(path: &str) -> bool {
    let name = path.rsplit(['\\', '/']).next();
    name.is_some_and(|name| name.eq_ignore_ascii_case(PROGRAM))
}

/// Returns the running services that need csi-proxy: Windows does not stop a service that others depend on.
pub fn dependents(services: &[SeenService]) -> impl Iterator<Item = &str> {
    let needs = |service: &&SeenService| {
        let mut needed = service.dependencies.iter();
        service.active && needed.any(|name| same_name(name, CSI_PROXY_SERVICE))
    };
    services.iter().filter(needs).map(|it| it.name.as_str())
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
        let names = |found: Vec<ForeignInstance>| -> Vec<String> {
            found.into_iter().map(|instance| instance.name).collect()
        };
        assert_eq!(
            names(foreign(&services, &processes, true)),
            ["CsiProxy", "storage", "wrapped", "11", "41"]
        );
        // A service with the right name that the agent did not create.
        assert_eq!(
            names(foreign(&services[..1], &processes[..1], false)),
            ["csi-proxy"]
        );
        let mut marked = services[0].clone();
        DESCRIPTION.clone_into(&mut marked.description);
        assert_eq!(names(foreign(&[marked], &processes[..1], false)), [""; 0]);
        // A process of ours that outlives its stopped service.
        let stopped = [service("csi-proxy", r"C:\k\csi-proxy.exe", None)];
        assert_eq!(foreign(&stopped, &processes[..1], true), []);
    }

    #[test]
    fn running_services_that_need_csi_proxy() {
        let needing = |name: &str, needed: &str, active| SeenService {
            name: name.into(),
            dependencies: vec!["rpcss".into(), needed.into()],
            active,
            ..SeenService::default()
        };
        let services = [
            needing("monitor", "CSI-Proxy", true),
            needing("idle", "csi-proxy", false),
            needing("other", "csi-proxy-2", true),
        ];
        assert_eq!(dependents(&services).collect::<Vec<_>>(), ["monitor"]);
    }
}
