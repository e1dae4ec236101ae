//! windows-storage-operator: storage on the Windows nodes of a Kubernetes cluster.
fn main() {}
