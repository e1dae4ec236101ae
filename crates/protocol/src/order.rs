//! Computes the order in which services start.

use std::collections::{BTreeMap, BTreeSet};

use crate::Failure;
use crate::document::Service;
use crate::validate::invalid;

/// The longest dependency chain that [`add`] follows. It recurses once per link, and a document may list 10,000 services.
const LONGEST_CHAIN: usize = 100;

/// Sorts services by priority, then dependencies, then name.
///
/// Compares names without case, as the Service Control Manager does. Returns an invalid-request failure if no order exists.
pub fn start_order(services: &[Service]) -> Result<Vec<&Service>, Failure> {
    let mut by_name = BTreeMap::new();
    for service in services {
        if by_name.insert(key(&service.name), service).is_some() {
            return Err(invalid(format!("service {} is listed twice", service.name)));
        }
    }
    let mut sorted: Vec<&Service> = services.iter().collect();
    sorted.sort_by_key(|service| (service.priority, key(&service.name)));
    let (mut done, mut order) = (BTreeSet::new(), Vec::with_capacity(services.len()));
    for service in sorted {
        add(service, &by_name, &mut Vec::new(), &mut done, &mut order)?;
    }
    Ok(order)
}

/// Returns the form in which service names are compared.
#[must_use]
pub fn key(name: &str) -> String {
    name.to_lowercase()
}

/// Whether two names refer to the same service.
#[must_use]
pub fn same_name(one: &str, other: &str) -> bool {
    key(one) == key(other)
}

/// Adds a service after its dependencies. `chain` lists the services that led to it.
fn add<'a>(
    service: &'a Service,
    by_name: &BTreeMap<String, &'a Service>,
    chain: &mut Vec<String>,
    done: &mut BTreeSet<String>,
    order: &mut Vec<&'a Service>,
) -> Result<(), Failure> {
    let name = key(&service.name);
    if done.contains(&name) {
        return Ok(());
    }
    let first = chain.iter().position(|earlier| key(earlier) == name);
    chain.push(service.name.clone());
    if let Some(first) = first {
        let cycle = chain[first..].join(" -> ");
        return Err(invalid(format!("services depend on each other: {cycle}")));
    }
    if chain.len() > LONGEST_CHAIN {
        let first = &chain[0];
        return Err(invalid(format!(
            "service {first} depends on a chain of more than {LONGEST_CHAIN} services"
        )));
    }
    for dependency in &service.dependencies {
        let refused = |why| {
            let name = &service.name;
            invalid(format!("service {name} depends on {dependency}, {why}"))
        };
        let needed = by_name.get(&key(dependency));
        let needed = needed.ok_or_else(|| refused("which is not listed"))?;
        if needed.priority > service.priority {
            return Err(refused("whose priority is later"));
        }
        add(needed, by_name, chain, done, order)?;
    }
    chain.pop();
    done.insert(name);
    order.push(service);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, priority: u32, dependencies: &[&str]) -> Service {
        Service {
            name: name.into(),
            path: format!(r"C:\k\{name}.exe"),
            node_variables_in_command: vec![],
            powershell_pre_scripts: vec![],
            dependencies: dependencies.iter().map(|&name| name.into()).collect(),
            bootstrap: false,
            priority,
        }
    }

    fn names(services: &[Service]) -> Result<Vec<String>, String> {
        match start_order(services) {
            Ok(order) => Ok(order.iter().map(|service| service.name.clone()).collect()),
            Err(failure) => Err(failure.message),
        }
    }

    #[test]
    fn by_priority_then_dependencies_then_name() {
        let services = [
            service("d", 2, &["c"]),
            service("c", 2, &[]),
            service("b", 1, &[]),
            service("a", 2, &["d"]),
        ];
        assert_eq!(names(&services).unwrap(), ["b", "c", "d", "a"]);
    }

    #[test]
    fn a_chain_is_followed_so_far_and_no_further() {
        let chain = |length: u32| -> Vec<Service> {
            let next = |number| format!("s{}", number + 1);
            let mut chain: Vec<Service> = (0..length)
                .map(|number| service(&format!("s{number}"), 1, &[&next(number)]))
                .collect();
            chain.push(service(&format!("s{length}"), 1, &[]));
            chain
        };
        assert_eq!(names(&chain(99)).unwrap().len(), 100);
        let too_long = Err("service s0 depends on a chain of more than 100 services".to_owned());
        assert_eq!(names(&chain(100)), too_long);
        // As many as fit in a ConfigMap, on a thread with a small stack as on Windows.
        let services = chain(12_000);
        let small = std::thread::Builder::new().stack_size(256 * 1024);
        let ended = small.spawn(move || names(&services)).unwrap().join();
        assert_eq!(ended.unwrap(), too_long);
    }

    #[test]
    fn refuses_what_has_no_order() {
        for (services, why) in [
            (
                vec![service("a", 1, &["b"]), service("b", 1, &["a"])],
                "services depend on each other: a -> b -> a",
            ),
            (
                vec![service("a", 1, &["A"])],
                "services depend on each other: a -> a",
            ),
            (
                vec![service("a", 1, &["x"])],
                "service a depends on x, which is not listed",
            ),
            (
                vec![service("a", 1, &["b"]), service("b", 2, &[])],
                "service a depends on b, whose priority is later",
            ),
            (
                vec![service("a", 1, &[]), service("A", 1, &[])],
                "service A is listed twice",
            ),
        ] {
            assert_eq!(names(&services).unwrap_err(), why);
        }
    }
}
