//! The agent of a simulated host: executes its commands on the simulated disk and answers like the real agent.
//!
//! csi-proxy is only reported as running. Tests with the real agent under Wine verify that its answers are correct.

use std::collections::BTreeMap;

use protocol::paths::{
    AGENT_EXE, AGENT_LOG_DIR, AGENT_SERVICE, CSI_PROXY_EXE, INCOMING_DIR, STATE_DIR,
    agent_service_command,
};
use protocol::validate::{validate, validate_request_path};
use protocol::{
    Answer, ApplyResult, CsiProxyStatus, End, Failure, FailureCategory, LastResult, NodeState,
    Outcome, PipeStatus, Request, ServiceState,
};
use windows_storage_agent::cli::{self, Command};

use super::disk::{Disk, Refusal};
use super::file::File;
use super::handed::{remove_brought, unpack_program};
use super::profile::Shell;

/// Error of both shells for a program that another process has opened without sharing.
const IN_USE: &str =
    "The process cannot access the file because it is being used by another process.\r\n";

/// The state of the agent.
#[derive(Clone, Debug, Default)]
pub struct Agent {
    /// State of its Windows service.
    pub service: ServiceState,
    /// Hash of the running agent program.
    pub running: Option<String>,
    /// The request that the agent keeps applied.
    pub kept: Option<Request>,
    /// The request in progress, or one that a reboot has interrupted.
    pub unfinished: Option<Request>,
    /// Result of the last request.
    pub last_result: Option<LastResult>,
    /// Services of other owners: their names and programs.
    pub others: BTreeMap<String, String>,
    /// The commands that ran a [planted](PLANTED) program.
    pub planted_runs: Vec<String>,
}

/// Content of a program that an ordinary account has put on the host.
pub const PLANTED: &[u8] = b"planted";

/// Output and exit status of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// Standard output, in any code page.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// The exit status.
    pub status: u32,
}

impl Printed {
    /// Builds the output of a command that has failed, with a message for people.
    fn refusal(status: u32, stderr: impl Into<Vec<u8>>) -> Self {
        Self {
            stdout: Vec::new(),
            stderr: stderr.into(),
            status,
        }
    }

    /// Builds the output for one of the agent's answers.
    pub(super) fn answer(answer: &Answer) -> Self {
        let good = match answer {
            Answer::ApplyResult(result) => {
                matches!(result.end.outcome, Outcome::Applied | Outcome::Unchanged)
            }
            Answer::Error(_) => false,
            _ => true,
        };
        let text = serde_json::to_string(answer).unwrap_or_default();
        Self {
            stdout: format!("{text}\r\n").into_bytes(),
            stderr: Vec::new(),
            status: u32::from(!good),
        }
    }
}

impl Agent {
    /// Runs a command in the host's shell.
    pub fn run(&mut self, disk: &mut Disk, shell: Shell, line: &str) -> Printed {
        if let Some(stdout) = self.listed(line) {
            return Printed {
                stdout: stdout.into_bytes(),
                stderr: Vec::new(),
                status: 0,
            };
        }
        let mut words = line.split_whitespace();
        let program = words.next().unwrap_or_default();
        match disk.read_locally(program) {
            Ok(file) if file.content() == PLANTED => {
                self.planted_runs.push(line.to_owned());
                return Printed::refusal(1, "");
            }
            Ok(_) => {}
            Err(Refusal::Shared) => return Printed::refusal(1, IN_USE),
            Err(_) => return Printed::refusal(1, shell.no_such_program(program)),
        }
        let answer = match cli::parse(words.map(str::to_owned)) {
            Ok(Command::Install { sha256 }) => self.install(disk, program, sha256.as_deref()),
            Ok(Command::Status { pipes }) => self.status(disk, &pipes).map(Answer::Status),
            Ok(Command::Apply { request, .. }) => {
                let answer = self.apply(disk, &request);
                remove_brought(disk, &request);
                answer
            }
            Ok(Command::Uninstall { keeps_csi_proxy }) => {
                self.uninstall(disk, keeps_csi_proxy);
                Ok(Answer::Uninstalled {})
            }
            Ok(_) | Err(_) => return Printed::refusal(2, "wrong usage\r\n"),
        };
        Printed::answer(&answer.unwrap_or_else(Answer::Error))
    }

    /// Returns the output of Windows' own programs that list services, processes and files.
    fn listed(&self, line: &str) -> Option<String> {
        if let Some(r"C:\" | r"C:\.") = line.strip_prefix("cmd.exe /c dir /-c ") {
            return Some("   2 Dir(s)  98765432100 bytes free\r\n".to_owned());
        }
        if line.starts_with("tasklist ") {
            return Some("\"sshd.exe\",\"8\",\"Services\",\"0\",\"9,000 K\"\r\n".to_owned());
        }
        line.strip_prefix("reg query ")?;
        let agent = agent_service_command(AGENT_EXE);
        let mut services = BTreeMap::from([("sshd", "sshd.exe")]);
        if self.service != ServiceState::Missing {
            services.insert(AGENT_SERVICE, &agent);
        }
        let others = self.others.iter();
        services.extend(others.map(|(name, program)| (name.as_str(), program.as_str())));
        let services = services.into_iter().filter(|_| line.ends_with("ImagePath"));
        let services = services.map(|(name, program)| {
            let key = r"HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Services";
            format!("\r\n{key}\\{name}\r\n    ImagePath    REG_EXPAND_SZ    {program}\r\n")
        });
        let services: Vec<String> = services.collect();
        let found = services.len();
        Some(format!(
            "{}\r\nEnd of search: {found} match(es) found.\r\n",
            services.concat()
        ))
    }

    /// Returns the command line of csi-proxy's service.
    pub fn command(&self) -> Option<String> {
        self.kept.as_ref().map(Request::command)
    }

    /// Recovers an interrupted request, as the service does when the host starts after a power cut.
    pub fn recover(&mut self) {
        let Some(request) = self.unfinished.take() else {
            return;
        };
        let (outcome, what) = if self.kept.is_some() {
            (Outcome::RolledBack, "the previous state is restored")
        } else {
            let what = "there was no working version to roll back to, so nothing was rolled back";
            (Outcome::Failed, what)
        };
        let message = format!("the agent ended in the middle of the request; {what}");
        let why = FailureCategory::Interrupted.failure(message);
        self.remember(&request, End::bad(outcome, why));
    }

    fn install(
        &mut self,
        disk: &mut Disk,
        program: &str,
        expected: Option<&str>,
    ) -> Result<Answer, Failure> {
        let file = disk.file(program).cloned().unwrap_or_default();
        let sha256 = file.sha256();
        if let Some(expected) = expected.filter(|expected| *expected != sha256) {
            return Err(FailureCategory::BadUpload.failure(format!(
                "{program} has sha256 {sha256}, not {expected} as announced"
            )));
        }
        disk.make_folders(INCOMING_DIR);
        disk.make_folders(AGENT_LOG_DIR);
        disk.put(AGENT_EXE, file);
        self.service = ServiceState::Running;
        self.running = Some(sha256.clone());
        Ok(Answer::Installed {
            sha256,
            state: self.status(disk, &[]).ok().map(Box::new),
        })
    }

    /// Removes the agent, and csi-proxy too unless `keeps_csi_proxy`.
    pub fn uninstall(&mut self, disk: &mut Disk, keeps_csi_proxy: bool) {
        let csi_proxy = (!keeps_csi_proxy).then_some(CSI_PROXY_EXE);
        for path in [AGENT_EXE, STATE_DIR].into_iter().chain(csi_proxy) {
            disk.remove_all(path);
        }
        *self = Self {
            others: std::mem::take(&mut self.others),
            ..Self::default()
        };
    }

    fn apply(&mut self, disk: &mut Disk, path: &str) -> Result<Answer, Failure> {
        if self.service != ServiceState::Running {
            return Err(FailureCategory::Other.failure("the service does not run"));
        }
        let request = Self::request(disk, path)?;
        unpack_program(disk, &request)?;
        let ending = validate(&request).and_then(|()| self.carry_out(disk, &request));
        if ending.is_ok() {
            self.kept = Some(request.clone());
        }
        let end = match ending {
            Ok(outcome) => End::good(outcome, None),
            Err(why) => End::bad(Outcome::Failed, why),
        };
        // Like the real agent, it does not record a repetition of the same request.
        let last = self.last_result.as_ref();
        if end.outcome != Outcome::Unchanged || last.is_none_or(|last| last.id != request.id) {
            self.remember(&request, end.clone());
        }
        Ok(Answer::ApplyResult(ApplyResult {
            id: request.id,
            end,
            state: self.state(disk, &[]),
        }))
    }

    pub(super) fn request(disk: &Disk, path: &str) -> Result<Request, Failure> {
        validate_request_path(path)?;
        let invalid = |message: String| FailureCategory::InvalidRequest.failure(message);
        let file = disk
            .read_locally(path)
            .map_err(|refusal| invalid(format!("{path}: {refusal:?}")))?;
        serde_json::from_slice(file.content())
            .map_err(|error| invalid(format!("{path} does not parse: {error}")))
    }

    fn carry_out(&mut self, disk: &mut Disk, request: &Request) -> Result<Outcome, Failure> {
        let is_right = |found: &File| found.sha256() == request.sha256;
        let upload = request.upload.as_deref();
        let mut changed = self.command().as_ref() != Some(&request.command());
        if !disk.file(CSI_PROXY_EXE).is_some_and(is_right) {
            let missing = |what: &str| {
                let message = format!("{CSI_PROXY_EXE} is not as requested, and {what}");
                FailureCategory::BadUpload.failure(message)
            };
            let upload = upload.ok_or_else(|| missing("no upload is named"))?;
            let found = disk.file(upload).cloned();
            let found = found.ok_or_else(|| missing(&format!("{upload} is not there")))?;
            if !is_right(&found) {
                return Err(FailureCategory::BadUpload
                    .failure(format!("{upload} has sha256 {}", found.sha256())));
            }
            disk.put(CSI_PROXY_EXE, found);
            changed = true;
        }
        if let Some(upload) = upload {
            // An earlier request may have removed it.
            let _ = disk.remove(upload);
        }
        Ok(if changed {
            Outcome::Applied
        } else {
            Outcome::Unchanged
        })
    }

    fn remember(&mut self, request: &Request, end: End) {
        let last = self.last_result.as_ref();
        let failures = LastResult::failures_after(last, &request.id, end.outcome);
        self.last_result = Some(LastResult {
            failures,
            id: request.id.clone(),
            attempt: request.attempt.clone(),
            end,
            finished: "2026-01-01T00:00:00Z".to_owned(),
        });
    }

    /// Returns the state, unless a program holds csi-proxy's file.
    fn status(&self, disk: &Disk, pipes: &[String]) -> Result<NodeState, Failure> {
        match disk.read_locally(CSI_PROXY_EXE) {
            Err(Refusal::Shared) => {
                let message = format!("reading {CSI_PROXY_EXE}: {}", IN_USE.trim());
                Err(FailureCategory::Other.failure(message))
            }
            _ => Ok(self.state(disk, pipes)),
        }
    }

    fn state(&self, disk: &Disk, pipes: &[String]) -> NodeState {
        let kept = self.kept.as_ref();
        let runs = kept.is_some() && self.unfinished.is_none();
        let served = kept.map_or(&[][..], |request| &request.pipes);
        let asked = pipes.iter().filter(|pipe| !served.contains(pipe));
        let hash = |path: &str| disk.file(path).map(File::sha256);
        NodeState {
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            agent_sha256: hash(AGENT_EXE),
            agent_service: self.service,
            running_agent_sha256: self.running.clone(),
            request_id: kept.map(|request| request.id.clone()),
            unfinished_request_id: self.unfinished.as_ref().map(|request| request.id.clone()),
            csi_proxy: CsiProxyStatus {
                state: match (kept, runs) {
                    (None, _) => ServiceState::Missing,
                    (Some(_), true) => ServiceState::Running,
                    (Some(_), false) => ServiceState::Stopped,
                },
                process_id: runs.then_some(4),
                command: self.command(),
                sha256: hash(CSI_PROXY_EXE),
                restarts: 0,
                failing: None,
            },
            pipes: (served.iter().map(|pipe| (pipe, runs)))
                .chain(asked.map(|pipe| (pipe, false)))
                .map(|(name, open)| PipeStatus {
                    name: name.clone(),
                    open,
                    problem: None,
                })
                .collect(),
            last_result: self.last_result.clone(),
            ..NodeState::default()
        }
    }
}
