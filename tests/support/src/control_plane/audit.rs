//! Reads the requests of service accounts from the audit log.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::Command;
use std::sync::PoisonError;

use anyhow::{Context, Result};
use serde_json::Value;

use super::ControlPlane;

/// Logs every request of a service account once: watches when they start, all others when they have ended. Writes of
/// the gate include the response, because a watch misses what happens while it is broken.
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
    /// The verb, as in RBAC.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource, with `/subresource` if there is one, or the path if it is not a resource.
    pub resource: String,
    /// The namespace, if any.
    pub namespace: Option<String>,
    /// The object's name, if any.
    pub name: Option<String>,
    /// When it was answered: RFC 3339 with microseconds, in UTC.
    pub at: String,
    /// The HTTP status of the answer.
    pub code: u64,
    /// The response to a write of an `OperatorCondition`: the object, if it succeeded. Null for all other requests.
    pub answer: Value,
}

impl ControlPlane {
    /// Returns all requests of a service account so far.
    pub fn requests_of(&self, namespace: &str, service_account: &str) -> Result<Vec<Request>> {
        self.requests_since(&mut 0, namespace, service_account)
    }

    /// Returns the requests from this offset in the log on, and moves the offset to the end.
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
        // The last line may still be incomplete.
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
            // Both have six fractional digits, so that comparing strings compares times.
            if entry["user"]["username"] == user.as_str() && received >= Some(since.as_str()) {
                requests.push(request(&entry));
            }
        }
        Ok(requests)
    }

    /// Ignores all requests before now.
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
