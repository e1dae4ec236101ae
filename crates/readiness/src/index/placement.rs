//! The scheduling constraints of a pod or pod template.

use crate::index::Name;

/// An operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Windows.
    Windows,
    /// Linux, or anything else that is not Windows.
    Other,
}

/// The scheduling constraints in a pod's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The operating system that `spec.os` or the node selector names.
    pub names: Option<System>,
    /// The operating system that the required node affinity names.
    pub required: Option<System>,
    /// The RuntimeClass, which may select an operating system if the spec does not.
    pub runtime_class: Option<Name>,
    /// The Node that a template names in `spec.nodeName`.
    pub node: Option<Name>,
    /// The node selector and required node affinity as a [`NodeSelection`](crate::index::NodeSelection)'s text; absent if
    /// it is not needed to tell the operating system.
    pub selector: Option<Name>,
}

impl Placement {
    /// Whether neither the namespace nor any node could make this ask for Windows.
    pub fn never_asks(&self) -> bool {
        self.names == Some(System::Other)
    }
}
