//! What is said of kinds that may not be read: the same for each, so that it is said once for all of them.

/// Returns what a user can do, from the API server's answer.
pub fn to_user(answer: &str) -> String {
    let user = match user(answer) {
        Some("system:anonymous") => {
            return "reading is forbidden to system:anonymous; log in, or give a kubeconfig with a user's credentials".to_owned();
        }
        user => user.unwrap_or("USER"),
    };
    format!(
        "reading is forbidden to {user}; an administrator gives the right: kubectl create clusterrolebinding \
         windows-storage-operator-viewer --clusterrole=windows-storage-operator-viewer --user={user} (where the operator is not \
         installed, first kubectl apply -f manifests/viewer.yaml)"
    )
}

/// Returns what to do for the operator itself.
pub fn to_operator(answer: &str) -> String {
    let user = user(answer).unwrap_or("the operator");
    format!(
        "reading is forbidden to {user}; install this version's manifests again, which give the right"
    )
}

/// Returns the ServiceAccount that the API server refuses, as `namespace:name`.
pub fn account(answer: &str) -> Option<String> {
    let account = user(answer)?.strip_prefix("system:serviceaccount:")?;
    Some(account.to_owned())
}

/// Returns the user whom the API server refuses, if the name needs no quotes in a shell.
fn user(answer: &str) -> Option<&str> {
    let (_, rest) = answer.split_once("User \"")?;
    let (user, _) = rest.split_once("\" cannot ")?;
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_.:@/+".contains(char);
    (!user.is_empty() && user.chars().all(is_plain)).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"pods is forbidden: User "eve" cannot list resource "pods" in API group "" at the cluster scope"#;

    #[test]
    fn the_command_binds_the_role_to_whom_the_server_names() {
        for (name, bound) in [
            ("eve", "eve"),
            ("kube:admin", "kube:admin"),
            (
                "system:serviceaccount:ci:check",
                "system:serviceaccount:ci:check",
            ),
            // What a shell would take apart is left to be filled in.
            ("$(reboot)", "USER"),
            ("a b", "USER"),
            ("", "USER"),
        ] {
            let said = to_user(&ANSWER.replace("eve", name));
            assert!(said.contains(&format!(" --user={bound} (")), "{said}");
            assert!(said.starts_with(&format!("reading is forbidden to {bound}; ")));
        }
        let of_account = ANSWER.replace("eve", "system:serviceaccount:ci:check");
        assert_eq!(account(&of_account).as_deref(), Some("ci:check"));
        assert_eq!(account(ANSWER), None);
        assert!(to_user("no").contains(" --user=USER ("));
        assert!(to_operator("no").starts_with("reading is forbidden to the operator; "));
        assert!(to_operator(ANSWER).starts_with("reading is forbidden to eve; "));
    }

    #[test]
    fn nobody_is_told_to_give_rights_to_everybody() {
        let said = to_user(&ANSWER.replace("eve", "system:anonymous"));
        assert!(
            said.contains("log in") && !said.contains("clusterrolebinding"),
            "{said}"
        );
    }
}
