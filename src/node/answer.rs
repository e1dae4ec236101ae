//! Parses what a command of the agent has printed.

use protocol::Answer;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::node::session::Output;
use crate::node::{NodeError, Reason};

/// Returns the agent's answer, if it gave one; a failure that it reports is an error.
pub fn answer(output: &Output) -> Result<Option<Answer>, NodeError> {
    match parse(output) {
        Some(Answer::Error(failure)) => Err(NodeError::from_agent(&failure, Reason::AgentFailed)),
        answer => Ok(answer),
    }
}

/// Creates the error for another answer than the one that was wanted, or none: it quotes the output.
pub fn unanswered(output: &Output, problem: &str, hint: &str) -> NodeError {
    Reason::AgentFailed.error(format!("{problem}: {}{hint}", brief(output)))
}

/// Returns the answer: the last JSON object on a single line of standard output, whatever the shell prints around it,
/// such as a banner, a byte-order mark or a prompt.
pub fn parse<T: DeserializeOwned>(output: &Output) -> Option<T> {
    output.stdout.lines().rev().find_map(|line| {
        let object = line.get(line.find('{')?..=line.rfind('}')?)?;
        serde_json::from_str(object).ok()
    })
}

/// Returns whether the output is a status in another form: an agent of another version gave it.
pub fn is_other_status(output: &Output) -> bool {
    #[derive(Deserialize)]
    struct Kind {
        kind: String,
    }
    parse::<Kind>(output).is_some_and(|answer| answer.kind == "Status")
        && parse::<Answer>(output).is_none()
}

/// Summarizes what a command printed instead of an answer, for messages.
pub fn brief(output: &Output) -> String {
    let text = if output.stderr.trim().is_empty() {
        &output.stdout
    } else {
        &output.stderr
    };
    let text = crate::node::error::printable(text);
    let start: String = text.chars().take(300).collect();
    let status = match output.status {
        // A status of Windows, such as 0xc0000135 if a DLL is missing: all 32 bits arrive.
        status @ ..0 => format!("{status:#x}"),
        status => status.to_string(),
    };
    if start.is_empty() {
        format!("it printed nothing and ended with status {status}")
    } else {
        format!("it said \"{start}\" and ended with status {status}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(stdout: &str, stderr: &str) -> Output {
        Output {
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
            status: 1,
        }
    }

    #[test]
    fn a_status_in_another_form_is_of_another_version() {
        let now = Answer::Status(protocol::NodeState::default());
        let now = serde_json::to_string(&now).unwrap();
        for (text, expected) in [
            (now.as_str(), false),
            (
                "{\"kind\":\"Status\",\"agentVersion\":\"0.1.0\",\"services\":[]}",
                true,
            ),
            ("{\"kind\":\"Error\"}", false),
            ("not recognized", false),
            ("", false),
        ] {
            assert_eq!(is_other_status(&output(text, "")), expected, "{text}");
        }
    }
}
