//! Reads from the audit log what service accounts requested of the API server.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::Command;
use std::sync::PoisonError;

use anyhow::{Context, Result};
use serde_json::Value;

use super::ControlPlane;

/// Every request of a service account once: watches when they begin, all else when it has ended. Of the gate what was
/// made of it, too, because a watch sees nothing of what comes while it is broken.
const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  userGroups: ['system:serviceaccounts']
  verbs: [update, patch]
  resources: [{group: operators.coreos.com, resources: [operatorconditions]}]
- level: Metadata
  userGroups: ['system:serviceaccounts']
- level: None
";

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// As RBAC calls it.
    pub verb: String,
    /// The API group; empty for the core.
    pub group: String,
    /// The resource, with `/subresource` where there is one; the path where it is none.
    pub resource: String,
    /// The namespace, where there is one.
    pub namespace: Option<String>,
    /// The object's name, where there is one.
    pub name: Option<String>,
    /// When the answer was given: RFC 3339 with microseconds, in UTC.
    pub at: String,
    /// The HTTP status of the answer.
    pub code: u64,
    /// The answer to a write of an `OperatorCondition`, which is the object where it went well; null for all else.
    pub answer: Value,
}

impl ControlPlane {
    /// What a service account has asked for so far, each kind of request as often as it came.
    pub fn requests_of(&self, namespace: &str, service_account: &str) -> Result<Vec<Request>> {
        self.requests_since(&mut 0, namespace, service_account)
    }

    /// The same from a place in the log on, which is moved to its end.
    pub fn requests_since(
        &self,
        place: &mut u64,
        namespace: &str,
        service_account: &str,
    ) -> Result<Vec<Request>> {
        let user = format!("system:serviceaccount:{namespace}:{service_account}");
        let path = self.audit_log();
        let mut log = Vec::new();
        let mut file =
            fs::File::open(&path).with_context(|| format!("reading {}", path.display()))?;
        file.seek(SeekFrom::Start(*place))?;
        file.read_to_end(&mut log)?;
        // The last line may be in the middle of being written.
        let end = log.iter().rposition(|byte| *byte == b'\n');
        log.truncate(end.map_or(0, |end| end + 1));
        *place += log.len() as u64;
        let since = self.noted_since.lock();
        let since = since.unwrap_or_else(PoisonError::into_inner).clone();
        let mut requests = Vec::new();
        let own = std::str::from_utf8(&log)?.lines();
        for line in own.filter(|line| line.contains(&user)) {
            let entry: Value = serde_json::from_str(line).context("a line of the audit log")?;
            let received = entry["requestReceivedTimestamp"].as_str();
            // Both have six digits behind the second, so that their order is that of their letters.
            if entry["user"]["username"] == user.as_str() && received >= Some(since.as_str()) {
                requests.push(request(&entry));
            }
        }
        Ok(requests)
    }

    /// Lets only requests count that come from now on.
    pub fn forget_requests(&self) -> Result<()> {
        let now = Command::new("date")
            .args(["--utc", "+%Y-%m-%dT%H:%M:%S.%6NZ"])
            .output()?;
        let now = String::from_utf8(now.stdout)?.trim().to_owned();
        *self
            .noted_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = now;
        Ok(())
    }

    pub(super) fn audit_log(&self) -> PathBuf {
        self.dir.join("audit.log")
    }

    pub(super) fn write_audit_policy(&self) -> Result<PathBuf> {
        let path = self.dir.join("audit-policy.yaml");
        fs::write(&path, POLICY)?;
        Ok(path)
    }
}

fn request(entry: &Value) -> Request {
    let object = &entry["objectRef"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut resource = text(&object["resource"])
        .or_else(|| text(&entry["requestURI"]))
        .unwrap_or_default();
    if let Some(subresource) = object["subresource"].as_str() {
        resource = format!("{resource}/{subresource}");
    }
    Request {
        verb: text(&entry["verb"]).unwrap_or_default(),
        group: text(&object["apiGroup"]).unwrap_or_default(),
        resource,
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        at: text(&entry["stageTimestamp"]).unwrap_or_default(),
        code: entry["responseStatus"]["code"].as_u64().unwrap_or_default(),
        answer: entry["responseObject"].clone(),
    }
}
