//! Converts the RBAC rules of `manifests/rbac.yaml` to OLM's format.

use std::path::Path;

use anyhow::{Result, bail};
use serde_yaml::Value;

use crate::sources::{at, documents, list_at, object, text_at};

const PATH: &str = "manifests/rbac.yaml";

/// The two permission lists of a `ClusterServiceVersion`, each with one entry per role.
#[derive(Default)]
pub(crate) struct Permissions {
    /// From each Role: permissions in the operator's own namespace.
    pub namespaced: Vec<Value>,
    /// From each `ClusterRole`.
    pub cluster: Vec<Value>,
}

pub(crate) fn read(root: &Path) -> Result<Permissions> {
    let documents = documents(root, PATH)?;
    let mut permissions = Permissions::default();
    for document in &documents {
        let kind = text_at(document, "kind", PATH)?;
        let entries = match kind {
            "Role" => &mut permissions.namespaced,
            "ClusterRole" => &mut permissions.cluster,
            // OLM creates all three from the CSV, and a bundle may not include the account that its CSV names.
            "ServiceAccount" | "RoleBinding" | "ClusterRoleBinding" => continue,
            other => bail!(
                "{PATH}: has a {other}, for which a ClusterServiceVersion has no place: let tools/bundle carry it as a manifest of its own"
            ),
        };
        let name = text_at(document, "metadata.name", PATH)?;
        entries.push(object([
            (
                "serviceAccountName",
                service_account(&documents, kind, name)?.into(),
            ),
            ("rules", at(document, "rules", PATH)?.clone()),
        ]));
    }
    Ok(permissions)
}

/// Returns the account to which a role is bound. OLM's lists allow only one.
fn service_account<'a>(documents: &'a [Value], kind: &str, name: &str) -> Result<&'a str> {
    let is = |value: &Value, keys, text: &str| {
        text_at(value, keys, PATH).is_ok_and(|found| found == text)
    };
    let binds = |document: &&Value| {
        is(document, "kind", &format!("{kind}Binding"))
            && is(document, "roleRef.kind", kind)
            && is(document, "roleRef.name", name)
    };
    let mut accounts = Vec::new();
    for binding in documents.iter().filter(binds) {
        let subjects = list_at(binding, "subjects", PATH)?.iter();
        for account in subjects.filter(|subject| is(subject, "kind", "ServiceAccount")) {
            accounts.push(text_at(account, "name", PATH)?);
        }
    }
    match accounts[..] {
        [account] => Ok(account),
        _ => bail!(
            "{PATH}: {kind} {name} is bound to {} ServiceAccounts; bind it to one",
            accounts.len()
        ),
    }
}
