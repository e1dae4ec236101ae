//! How Windows compares the names of services.

/// Returns whether two names refer to the same service: the Service Control Manager compares them without case.
pub fn same_name(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}
