//! The rights of `manifests/rbac.yaml`, as OLM takes them.

use std::path::Path;

use serde_yaml::{Mapping, Value};

use crate::sources::{BundleError, at, documents, text_at};

const PATH: &str = "manifests/rbac.yaml";

/// The two lists of a `ClusterServiceVersion`, each with one entry for a role.
#[derive(Default)]
pub(crate) struct Permissions {
    /// From each Role: rights in the operator's own namespace.
    pub namespaced: Vec<Value>,
    /// From each `ClusterRole`.
    pub cluster: Vec<Value>,
}

pub(crate) fn read(root: &Path) -> Result<Permissions, BundleError> {
    let documents = documents(root, PATH)?;
    let mut permissions = Permissions::default();
    for document in &documents {
        let kind = text_at(document, "kind", PATH)?;
        let entries = match kind {
            "Role" => &mut permissions.namespaced,
            "ClusterRole" => &mut permissions.cluster,
            // OLM makes all three from the CSV, and a bundle may not carry the account that its CSV names.
            "ServiceAccount" | "RoleBinding" | "ClusterRoleBinding" => continue,
            other => {
                return Err(BundleError::unusable(
                    PATH,
                    format!(
                        "has a {other}, for which a ClusterServiceVersion has no place: let tools/bundle carry it as a manifest of its own"
                    ),
                ));
            }
        };
        let name = text_at(document, "metadata.name", PATH)?;
        entries.push(Value::Mapping(Mapping::from_iter([
            (
                "serviceAccountName".into(),
                service_account(&documents, kind, name)?.into(),
            ),
            ("rules".into(), at(document, "rules", PATH)?.clone()),
        ])));
    }
    Ok(permissions)
}

/// The account to which a role is bound. OLM's lists have room for one.
fn service_account<'a>(
    documents: &'a [Value],
    kind: &str,
    name: &str,
) -> Result<&'a str, BundleError> {
    let mut accounts = Vec::new();
    for document in documents {
        if text_at(document, "kind", PATH)? != format!("{kind}Binding")
            || text_at(document, "roleRef.kind", PATH)? != kind
            || text_at(document, "roleRef.name", PATH)? != name
        {
            continue;
        }
        let subjects = at(document, "subjects", PATH)?;
        for subject in subjects.as_sequence().into_iter().flatten() {
            if text_at(subject, "kind", PATH)? == "ServiceAccount" {
                accounts.push(text_at(subject, "name", PATH)?);
            }
        }
    }
    match accounts[..] {
        [account] => Ok(account),
        _ => Err(BundleError::unusable(
            PATH,
            format!(
                "{kind} {name} is bound to {} ServiceAccounts; bind it to one",
                accounts.len()
            ),
        )),
    }
}
