//! Fills values of the Node object into service commands before a request is sent.

use protocol::Request;
use protocol::document::{NodeVariable, Service};
use serde_json::Value;

use crate::node::desired::name_by_content;
use crate::node::{NodeError, Reason};
use crate::services::NodePath;

/// Returns whether any service of the request uses values of the Node object.
#[must_use]
pub fn needs_node(request: &Request) -> bool {
    request.services.iter().any(|service| {
        let mut scripts = service.powershell_pre_scripts.iter();
        !service.node_variables_in_command.is_empty()
            || scripts.any(|script| !script.node_args.is_empty())
    })
}

/// Returns the request with its variables replaced by values of the Node object.
pub fn fill_in(request: &Request, node: &Value) -> Result<Request, NodeError> {
    let mut filled = request.clone();
    for service in &mut filled.services {
        fill_in_service(service, node)?;
    }
    name_by_content(&mut filled);
    Ok(filled)
}

fn fill_in_service(service: &mut Service, node: &Value) -> Result<(), NodeError> {
    let mut variables = std::mem::take(&mut service.node_variables_in_command);
    // Longest names first: a name that is a prefix of another must not be replaced inside it.
    variables.sort_by_key(|variable| std::cmp::Reverse(variable.name.len()));
    let mut values = Vec::with_capacity(variables.len());
    for variable in &variables {
        let value = value(&service.name, variable, node)?;
        if variable.name.is_empty() || !service.path.contains(&variable.name) {
            return Err(unresolved(format!(
                "the command of service {} does not contain its variable {:?}; correct nodeVariablesInCommand in ConfigMap windows-services",
                service.name, variable.name
            )));
        }
        values.push((variable.name.as_str(), value));
    }
    service.path = replaced(&service.path, &values);
    for script in &mut service.powershell_pre_scripts {
        for variable in std::mem::take(&mut script.node_args) {
            let value = value(&service.name, &variable, node)?;
            if !variable.name.is_empty() {
                script.arguments.push(variable.name);
            }
            script.arguments.push(value);
        }
    }
    Ok(())
}

/// Replaces each variable name in the command with its value. The first match in `values` wins. Inserted values are not
/// searched again: a value that contains a variable name must not be expanded, and grow, repeatedly.
fn replaced(command: &str, values: &[(&str, String)]) -> String {
    let mut replaced = String::with_capacity(command.len());
    let mut rest = command;
    while let Some(first) = rest.chars().next() {
        let found = values.iter().find(|(name, _)| rest.starts_with(name));
        let length = if let Some((name, value)) = found {
            replaced.push_str(value);
            name.len()
        } else {
            replaced.push(first);
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    replaced
}

fn value(service: &str, variable: &NodeVariable, node: &Value) -> Result<String, NodeError> {
    NodePath::parse(&variable.node_object_json_path)
        .and_then(|path| path.value(node))
        .map_err(|problem| {
            unresolved(format!(
                "service {service} takes {} from {} of the Node: {problem}; correct the Node or the entry in ConfigMap windows-services",
                variable.name, variable.node_object_json_path
            ))
        })
}

/// Creates the error for a command whose variables have no usable value.
pub fn unresolved(problem: String) -> NodeError {
    Reason::UnresolvedCommand.error(problem)
}

#[cfg(test)]
mod tests {
    use protocol::document::PreScript;
    use serde_json::json;

    use super::*;
    use crate::node::Desired;
    use crate::services::csi_proxy_service;

    fn variable(name: &str, path: &str) -> NodeVariable {
        NodeVariable {
            name: name.to_owned(),
            node_object_json_path: path.to_owned(),
        }
    }

    fn request(service: Service) -> Request {
        let mut request = Desired::of_test("", "").request;
        request.services = vec![service];
        request
    }

    fn node() -> Value {
        json!({"metadata": {"name": "win-1"}, "status": {"address": "10.0.0.4"}})
    }

    #[test]
    fn names_and_arguments_get_their_values() {
        let mut service = csi_proxy_service(&["-a=IP".to_owned(), "-b=IP_NAME".to_owned()]);
        service.node_variables_in_command = vec![
            variable("IP", "{.status.address}"),
            variable("IP_NAME", "{.metadata.name}"),
        ];
        service.powershell_pre_scripts = vec![PreScript {
            variable_name: "X".to_owned(),
            path: r"C:\k\x.ps1".to_owned(),
            node_args: vec![variable("-Name", "{.metadata.name}")],
            arguments: Vec::new(),
        }];
        let template = request(service);
        assert!(needs_node(&template));
        let filled = fill_in(&template, &node()).unwrap();
        assert!(!needs_node(&filled));
        let Service {
            path,
            powershell_pre_scripts: scripts,
            ..
        } = &filled.services[0];
        assert!(path.ends_with("-a=10.0.0.4 -b=win-1"), "{path}");
        assert_eq!(scripts[0].arguments, ["-Name", "win-1"]);
        let other = json!({"metadata": {"name": "win-2"}, "status": {"address": "10.0.0.4"}});
        assert_ne!(fill_in(&template, &other).unwrap().id, filled.id);
        assert_eq!(fill_in(&template, &node()).unwrap().id, filled.id);
    }

    #[test]
    fn what_a_node_says_is_not_taken_for_a_name() {
        let mut service = csi_proxy_service(&["-a=HOST".to_owned(), "-b=IP".to_owned()]);
        service.node_variables_in_command = vec![
            variable("HOST", "{.metadata.name}"),
            variable("IP", "{.status.address}"),
        ];
        let node = json!({"metadata": {"name": "IP-IP"}, "status": {"address": "10.0.0.4"}});
        let filled = fill_in(&request(service), &node).unwrap();
        let command = &filled.services[0].path;
        assert!(command.ends_with(" -a=IP-IP -b=10.0.0.4"), "{command}");
    }

    #[test]
    fn what_the_node_does_not_say_is_told_with_the_service() {
        for (name, path, said) in [
            ("IP", "{.status.gone}", "{.status.gone}"),
            ("MISSPELT", "{.metadata.name}", "MISSPELT"),
        ] {
            let mut service = csi_proxy_service(&["-a=IP".to_owned()]);
            service.node_variables_in_command = vec![variable(name, path)];
            let error = fill_in(&request(service), &node()).unwrap_err();
            assert_eq!(error.reason, Reason::UnresolvedCommand);
            for words in ["csi-proxy", said] {
                assert!(error.message.contains(words), "{error}");
            }
        }
    }
}
