//! Prepares the `PowerShell` scripts that compute parts of a service's command, and inserts their results.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::document::PreScript;
use protocol::order::key;
use protocol::{Failure, FailureCategory, Request};

/// How long one script may run; shorter in the build for tests.
pub const TIME_LIMIT: Duration = Duration::from_secs(if cfg!(feature = "fault-injection") {
    3
} else {
    60
});
/// The longest value of a script, in bytes.
pub const LONGEST_VALUE: usize = 1024;

/// How much of a script's error output is reported, in characters.
const LONGEST_COMPLAINT: usize = 600;

const OPTIONS: &str = "-NoProfile -NonInteractive -ExecutionPolicy Bypass -File";

/// Returns PowerShell's arguments to run a script.
#[must_use]
pub fn arguments(script: &PreScript) -> Vec<&str> {
    let fixed = OPTIONS.split(' ').chain([script.path.as_str()]);
    let own = script.arguments.iter().map(String::as_str);
    fixed.chain(own).collect()
}

/// Parses the value of a script from its output, or from the beginning of it; `None` for a script that sets no variable.
fn value(script: &PreScript, printed: &[u8]) -> Result<Option<String>, String> {
    if script.variable_name.is_empty() {
        return Ok(None);
    }
    let text = str::from_utf8(printed).map_err(|_| "it printed what is no text".to_owned())?;
    let value = text.trim_start_matches('\u{feff}').trim();
    if value.is_empty() {
        return Err(format!("it printed nothing for {}", script.variable_name));
    }
    if value.len() > LONGEST_VALUE {
        return Err(format!("it printed more than {LONGEST_VALUE} bytes"));
    }
    if value.contains(char::is_control) {
        return Err("it printed more than one line, or control characters".to_owned());
    }
    if value.contains(['"', '\'']) {
        return Err("it printed quotes, which could end the command's own".to_owned());
    }
    Ok(Some(value.to_owned()))
}

/// The result of running a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Why it failed, as far as Windows reports.
    pub problem: Option<String>,
    /// What it printed, or the beginning of it.
    pub printed: Vec<u8>,
    /// What it wrote to standard error, or the beginning of it.
    pub complaint: String,
}

impl Ran {
    /// Returns the result of a script that failed for this reason.
    #[must_use]
    pub fn failed(why: impl Into<String>) -> Self {
        Self {
            problem: Some(why.into()),
            ..Self::default()
        }
    }

    /// Returns the script's value, or why it has none. That includes the script's error output, often the only reason given.
    fn value(&self, script: &PreScript) -> Result<Option<String>, String> {
        let problem = self.problem.clone().map_or(Ok(()), Err);
        let value = problem.and_then(|()| value(script, &self.printed));
        value.map_err(|why| {
            let words = self
                .complaint
                .split(|c: char| c.is_whitespace() || c.is_control());
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            let said: String = words.join(" ").chars().take(LONGEST_COMPLAINT).collect();
            if said.is_empty() {
                return why;
            }
            format!("{why}; it says: {said}")
        })
    }
}

/// Returns the commands of the services that have scripts, with the values filled in, by service. `run` runs a script.
pub fn commands(
    request: &Request,
    mut run: impl FnMut(&PreScript) -> Ran,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut commands = BTreeMap::new();
    for service in &request.services {
        let (name, mut command) = (&service.name, service.path.clone());
        for script in &service.powershell_pre_scripts {
            let value = run(script).value(script);
            let value = value.map_err(|why| {
                let path = &script.path;
                let message =
                    format!("script {path} of service {name}: {why}; mend the script or the entry");
                FailureCategory::PreScript.failure(message)
            })?;
            if let Some(value) = value {
                command = command.replace(&script.variable_name, &value);
            }
        }
        if !service.powershell_pre_scripts.is_empty() {
            commands.insert(key(name), command);
        }
    }
    Ok(commands)
}

/// Returns the request as it is carried out: with the commands filled in, and without scripts.
#[must_use]
pub fn resolved(request: &Request, commands: &BTreeMap<String, String>) -> Request {
    let mut request = request.clone();
    for service in &mut request.services {
        service.powershell_pre_scripts.clear();
        if let Some(command) = commands.get(&key(&service.name)) {
            service.path.clone_from(command);
        }
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(variable: &str) -> PreScript {
        PreScript {
            variable_name: variable.into(),
            path: r"C:\scripts\ip.ps1".into(),
            node_args: vec![],
            arguments: vec!["-Node".into(), "win 1".into()],
        }
    }

    #[test]
    fn starts_powershell_without_profile_and_questions() {
        assert_eq!(
            arguments(&script("IP")).join(" "),
            r"-NoProfile -NonInteractive -ExecutionPolicy Bypass -File C:\scripts\ip.ps1 -Node win 1"
        );
    }

    #[test]
    fn values() {
        let long = "x".repeat(LONGEST_VALUE);
        for (output, expected) in [
            ("10.0.0.1\r\n", Some("10.0.0.1")),
            ("\u{feff} a b \n", Some("a b")),
            (&long, Some(long.as_str())),
            ("", None),
            (" \r\n", None),
            ("a\nb", None),
            ("a\tb", None),
            ("a\"b", None),
            ("a'b", None),
            (&format!("{long}x"), None),
        ] {
            let value = value(&script("IP"), output.as_bytes());
            assert_eq!(value.ok().flatten().as_deref(), expected, "{output:?}");
        }
        assert!(value(&script("IP"), &[b'a', 0xff]).is_err());
        assert_eq!(value(&script(""), b"a\nb"), Ok(None));
    }

    fn request() -> Request {
        let mut request = crate::plan::tests::request();
        request.services[0].path += " -ip=IP -name=NAME";
        request.services[0].powershell_pre_scripts = vec![script("IP"), script("NAME")];
        request
    }

    #[test]
    fn fills_in_what_scripts_print() {
        let mut outputs = ["1.2.3.4", "win"].into_iter();
        let commands = commands(&request(), |_| Ran {
            printed: outputs.next().unwrap().into(),
            ..Ran::default()
        })
        .unwrap();
        let resolved = resolved(&request(), &commands);
        assert!(
            resolved.services[0]
                .path
                .ends_with(" -ip=1.2.3.4 -name=win")
        );
        assert!(resolved.services[0].powershell_pre_scripts.is_empty());
        assert_eq!(resolved.id, request().id);
    }

    #[test]
    fn a_script_that_fails_is_named() {
        let failed = Ran {
            complaint: format!("Get-X : no\r\n  adapter\u{7}\r\n{}", "x".repeat(5000)),
            ..Ran::failed("it ended with exit status 3")
        };
        let failure = commands(&request(), |_| failed.clone()).unwrap_err();
        assert_eq!(failure.category, FailureCategory::PreScript);
        for part in [
            r"C:\scripts\ip.ps1",
            "csi-proxy",
            "exit status 3; it says: Get-X : no adapter xxx",
        ] {
            assert!(failure.message.contains(part), "{}", failure.message);
        }
        assert!(failure.message.len() < 1000, "{}", failure.message);
        // A script without a value often explains why.
        let silent = Ran {
            complaint: "Get-X : no adapter".into(),
            ..Ran::default()
        };
        let failure = commands(&request(), |_| silent.clone()).unwrap_err();
        let expected = "nothing for IP; it says: Get-X : no adapter";
        assert!(failure.message.contains(expected), "{failure}");
    }
}
