//! Validates a request before the node is inspected.

use std::collections::BTreeSet;

use crate::command::{program, same_path};
use crate::document::Service;
use crate::order::{same_name, start_order};
use crate::paths::{
    AGENT_EXE, AGENT_PREVIOUS, AGENT_RETIRED, AGENT_SERVICE, INCOMING_DIR, PROGRAM_DIR, STATE_DIR,
};
use crate::{DesiredFile, Failure, FailureCategory, Format, Request, ServicePipes};

/// The longest stop or start timeout that a request may set.
const LONGEST_TIMEOUT_SECONDS: u32 = 3600;
const LONGEST_TEXT: usize = 256;
/// The longest value of an environment variable, in bytes.
const LONGEST_VALUE: usize = 8192;

/// Returns a failure with a readable message if the request is invalid.
pub fn validate(request: &Request) -> Result<(), Failure> {
    require(is_word(&request.id), || {
        "the request's id must be 1 to 256 letters, digits, '-', '_', '.' or ':'".to_owned()
    })?;
    for (what, seconds) in [
        ("stopTimeoutSeconds", request.stop_timeout_seconds),
        ("startTimeoutSeconds", request.start_timeout_seconds),
    ] {
        require((1..=LONGEST_TIMEOUT_SECONDS).contains(&seconds), || {
            format!("{what} must be 1 to {LONGEST_TIMEOUT_SECONDS}, not {seconds}")
        })?;
    }
    let mut seen = BTreeSet::new();
    for file in &request.files {
        check_file(file)?;
        require(seen.insert(file.path.to_lowercase()), || {
            format!("{} is listed twice", file.path)
        })?;
    }
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    for (name, value) in &request.environment {
        let is_name = (1..=LONGEST_TEXT).contains(&name.len()) && name.bytes().all(is_of_name);
        let is_usable = is_name && value.len() <= LONGEST_VALUE && is_plain(value);
        require(is_usable, || {
            format!(
                "'{name}' cannot be an environment variable; names are letters, digits and underscores, values have no \
                 control characters"
            )
        })?;
    }
    for service in &request.services {
        check_service(service)?;
    }
    start_order(&request.services)?;
    for ServicePipes { service, pipes } in &request.pipes {
        let mut names = request.services.iter().map(|service| &service.name);
        let is_listed = names.any(|name| same_name(name, service));
        require(is_listed, || {
            format!("pipes are listed for service {service}, which is not in the request")
        })?;
        if let Some(pipe) = pipes.iter().find(|pipe| !is_word(pipe)) {
            return Err(invalid(format!("'{pipe}' is no pipe name")));
        }
    }
    check_support(request)
}

/// Checks the location of a request file. The agent's command and its service both call this.
pub fn validate_request_path(path: &str) -> Result<(), Failure> {
    let is_request = is_inside(path, INCOMING_DIR) && path.to_lowercase().ends_with(".json");
    require(is_request, || {
        format!(r"the request must be a file {INCOMING_DIR}\NAME.json, not '{path}'")
    })
}

fn check_file(file: &DesiredFile) -> Result<(), Failure> {
    let path = &file.path;
    let of_agent = is_inside(path, STATE_DIR) || same_path(path, STATE_DIR);
    require(is_inside(path, PROGRAM_DIR) && !of_agent, || {
        format!(r"files belong in {PROGRAM_DIR}, and not in {STATE_DIR}: '{path}'")
    })?;
    let agents = [AGENT_EXE, AGENT_PREVIOUS, AGENT_RETIRED];
    require(!agents.iter().any(|agent| same_path(path, agent)), || {
        "the agent itself is replaced by its install command, not by a request".to_owned()
    })?;
    let is_digit = |digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let is_sha256 = file.sha256.len() == 64 && file.sha256.bytes().all(is_digit);
    require(is_sha256, || {
        format!("the sha256 of {path} must be 64 lower-case hexadecimal digits")
    })?;
    let packed = file.packed.as_ref().map(|packed| &packed.path);
    for upload in file.upload.iter().chain(packed) {
        require(is_inside(upload, INCOMING_DIR), || {
            format!("uploads belong in {INCOMING_DIR}: '{upload}'")
        })?;
    }
    let upload = file.upload.as_ref();
    let unpacks =
        packed.is_none_or(|packed| upload.is_some_and(|upload| !same_path(upload, packed)));
    require(unpacks, || {
        format!("the packed file for {path} needs another upload to be unpacked to")
    })
}

fn check_service(service: &Service) -> Result<(), Failure> {
    let (name, command) = (&service.name, &service.path);
    let is_name = is_word(name) && !same_name(name, AGENT_SERVICE);
    require(is_name, || {
        format!("'{name}' is no name for a service of a request")
    })?;
    let is_program = program(command).is_some_and(|program| is_absolute(program, ".exe"));
    require(is_program && !command.contains('\0'), || {
        format!(
            r"the command of {name} must begin with the full path of a program, C:\...\x.exe, in quotes where it has spaces: '{command}'"
        )
    })?;
    for script in &service.powershell_pre_scripts {
        let plain =
            is_plain(&script.variable_name) && script.arguments.iter().all(|text| is_plain(text));
        require(plain && is_absolute(&script.path, ".ps1"), || {
            format!(
                r"a script of {name} must be the full path of a file, C:\...\x.ps1, with plain arguments: '{}'",
                script.path
            )
        })?;
    }
    Ok(())
}

/// Rejects requests with unresolved Node values, which the agent cannot look up, and with unknown compression formats.
fn check_support(request: &Request) -> Result<(), Failure> {
    let unsupported = |message| Err(FailureCategory::Unsupported.failure(message));
    for file in &request.files {
        let format = file.packed.as_ref().map(|packed| packed.format);
        if format == Some(Format::Unknown) {
            return unsupported(format!(
                "the content of {} is compressed in a way that this agent does not know; bring the operator's own agent first",
                file.path
            ));
        }
    }
    for service in &request.services {
        let mut scripts = service.powershell_pre_scripts.iter();
        let unresolved = if !service.node_variables_in_command.is_empty() {
            "nodeVariablesInCommand"
        } else if scripts.any(|script| script.arguments.is_empty() && !script.node_args.is_empty())
        {
            "NodeArgs"
        } else {
            continue;
        };
        return unsupported(format!(
            "service {} has {unresolved}; they are to be resolved before the request is made",
            service.name
        ));
    }
    Ok(())
}

fn require(holds: bool, message: impl FnOnce() -> String) -> Result<(), Failure> {
    if holds {
        Ok(())
    } else {
        Err(invalid(message()))
    }
}

/// Returns an invalid-request failure.
pub(crate) fn invalid(message: String) -> Failure {
    FailureCategory::InvalidRequest.failure(message)
}

fn is_word(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=LONGEST_TEXT).contains(&text.len()) && text.bytes().all(fits)
}

fn is_plain(text: &str) -> bool {
    !text.contains(char::is_control)
}

/// Whether a path is absolute on drive C, has this ending, and contains nothing that Windows would reinterpret.
fn is_absolute(path: &str, ending: &str) -> bool {
    let path = path.to_lowercase();
    path.ends_with(ending)
        && path.len() < 240
        && path.strip_prefix(r"c:\").is_some_and(|rest| {
            // Windows drops dots and spaces at the end of a part. A colon would name an alternate data stream.
            rest.split('\\').all(|part| {
                !part.is_empty()
                    && !part.ends_with(['.', ' '])
                    && !part.contains(['/', ':', '*', '?', '"', '<', '>', '|'])
                    && is_plain(part)
            })
        })
}

fn is_inside(path: &str, folder: &str) -> bool {
    let beginning = format!(r"{}\", folder.to_lowercase());
    is_absolute(path, "") && path.to_lowercase().starts_with(&beginning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packed;
    use crate::document::{NodeVariable, PreScript};

    fn request() -> Request {
        Request {
            id: "request-1".into(),
            files: vec![DesiredFile {
                path: r"C:\k\csi-proxy.exe".into(),
                sha256: "b".repeat(64),
                upload: Some(r"C:\k\windows-storage\incoming\new".into()),
                packed: None,
            }],
            services: vec![Service {
                name: "csi-proxy".into(),
                path: r"C:\k\csi-proxy.exe -windows-service".into(),
                node_variables_in_command: vec![],
                powershell_pre_scripts: vec![],
                dependencies: vec![],
                bootstrap: false,
                priority: 2,
            }],
            pipes: vec![ServicePipes {
                service: "csi-proxy".into(),
                pipes: vec!["csi-proxy-disk-v1".into()],
            }],
            stop_timeout_seconds: 30,
            start_timeout_seconds: 30,
            environment: std::collections::BTreeMap::new(),
            replace_foreign: false,
        }
    }

    fn refusal(change: impl FnOnce(&mut Request)) -> Failure {
        let mut request = request();
        change(&mut request);
        validate(&request).unwrap_err()
    }

    #[test]
    fn takes_what_the_operator_sends() {
        assert_eq!(validate(&request()), Ok(()));
    }

    #[test]
    fn refuses_paths_that_lead_elsewhere() {
        for path in [
            r"C:\k\..\windows\x.exe",
            r"C:\k",
            r"C:\k\",
            r"D:\k\a.exe",
            r"C:/k/a.exe",
            r"\\host\k\a.exe",
            r"C:\k\a.exe:s",
            r"C:\k\a.exe ",
            r"C:\kk\a.exe",
            r"C:\k\windows-storage\journal.json",
            r"C:\k\windows-storage-agent.exe",
            r"C:\k\windows-storage-agent.previous.exe",
            r"c:\K\Windows-Storage-Agent.EXE",
        ] {
            let failure = refusal(|request| request.files[0].path = path.into());
            assert_eq!(failure.category, FailureCategory::InvalidRequest, "{path}");
        }
        assert_eq!(
            refusal(|request| request.files[0].upload = Some(r"C:\temp\x".into())).category,
            FailureCategory::InvalidRequest
        );
    }

    #[test]
    fn refuses_packed_files_that_it_cannot_unpack() {
        type Change = fn(&mut DesiredFile, &mut Packed);
        const HERE: &str = r"C:\k\windows-storage\incoming\a.zst";
        let mut good = request();
        good.files[0].upload = Some(r"C:\k\windows-storage\incoming\a.part".into());
        good.files[0].packed = Some(Packed {
            path: HERE.into(),
            format: Format::Zstd,
            size: 1,
            unpacked_size: 1,
        });
        assert_eq!(validate(&good), Ok(()));
        let cases: [(Change, _); 4] = [
            (
                |_, packed| packed.path = r"C:\temp\a.zst".into(),
                FailureCategory::InvalidRequest,
            ),
            (
                |file, _| file.upload = None,
                FailureCategory::InvalidRequest,
            ),
            (
                |file, _| file.upload = Some(HERE.to_uppercase().replacen("C:", "c:", 1)),
                FailureCategory::InvalidRequest,
            ),
            (
                |_, packed| packed.format = Format::Unknown,
                FailureCategory::Unsupported,
            ),
        ];
        for (change, category) in cases {
            let mut bad = good.clone();
            let mut packed = bad.files[0].packed.take().unwrap();
            change(&mut bad.files[0], &mut packed);
            bad.files[0].packed = Some(packed);
            assert_eq!(validate(&bad).unwrap_err().category, category, "{bad:?}");
        }
    }

    #[test]
    fn refuses_what_is_malformed() {
        let cases: [fn(&mut Request); 9] = [
            |request| request.id = String::new(),
            |request| request.files[0].sha256 = "A".repeat(64),
            |request| request.files.push(request.files[0].clone()),
            |request| request.services[0].path = "csi-proxy.exe".into(),
            |request| request.services[0].name = "a b".into(),
            |request| request.services[0].name = AGENT_SERVICE.into(),
            |request| request.services[0].dependencies.push("gone".into()),
            |request| request.pipes[0].service = "other".into(),
            |request| request.start_timeout_seconds = 0,
        ];
        for case in cases {
            assert_eq!(refusal(case).category, FailureCategory::InvalidRequest);
        }
    }

    fn script(path: &str) -> PreScript {
        PreScript {
            variable_name: "X".into(),
            path: path.into(),
            node_args: vec![],
            arguments: vec![],
        }
    }

    #[test]
    fn refuses_what_is_not_resolved() {
        let variable = NodeVariable {
            name: "IP".into(),
            node_object_json_path: "{.x}".into(),
        };
        let mut unresolved = script(r"C:\x.ps1");
        unresolved.node_args.push(variable.clone());
        let failure =
            refusal(|request| request.services[0].powershell_pre_scripts.push(unresolved));
        assert_eq!(failure.category, FailureCategory::Unsupported);
        let failure =
            refusal(|request| request.services[0].node_variables_in_command.push(variable));
        assert_eq!(failure.category, FailureCategory::Unsupported);
    }

    #[test]
    fn scripts_are_files_of_the_node() {
        let with = |script: PreScript| {
            let mut request = request();
            request.services[0].powershell_pre_scripts.push(script);
            validate(&request)
        };
        assert_eq!(with(script(r"C:\Temp\a b.PS1")), Ok(()));
        for path in ["x.ps1", r"C:\x.exe", r"\\host\x.ps1", r"C:\a\..\x.ps1\"] {
            assert!(with(script(path)).is_err(), "{path}");
        }
        let mut torn = script(r"C:\x.ps1");
        torn.arguments.push("a\nb".into());
        assert!(with(torn).is_err());
    }

    #[test]
    fn environment_variables() {
        for (name, value, fine) in [
            ("A_1", "x=y z", true),
            ("", "x", false),
            ("A=B", "x", false),
            ("a b", "x", false),
            ("A", "x\0y", false),
            ("A\n", "x", false),
        ] {
            let mut request = request();
            request.environment.insert(name.into(), value.into());
            assert_eq!(validate(&request).is_ok(), fine, "{name:?}");
        }
    }

    #[test]
    fn request_paths() {
        assert!(validate_request_path(r"C:\k\windows-storage\incoming\a.json").is_ok());
        for path in [
            r"C:\k\a.json",
            r"C:\k\windows-storage\incoming\..\a.json",
            r"C:\k\windows-storage\incoming\a.exe",
            "a.json",
        ] {
            assert!(validate_request_path(path).is_err(), "{path}");
        }
    }
}
