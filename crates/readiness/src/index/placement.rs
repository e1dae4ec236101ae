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
    /// The operating system that `spec.os`, the node selector or the required node affinity selects.
    pub names: Option<System>,
    /// The RuntimeClass, which may select an operating system if the spec does not.
    pub runtime_class: Option<Name>,
    /// The Node that a template names in `spec.nodeName`.
    pub node: Option<Name>,
    /// The node selector and required node affinity as a [`NodeSelection`](crate::assess::NodeSelection)'s text.
    pub selector: Option<Name>,
}

impl Placement {
    /// Whether no constraint could select Windows.
    #[must_use]
    pub fn never_asks(&self) -> bool {
        match self.names {
            Some(system) => system == System::Other,
            None => self.runtime_class.is_none() && self.node.is_none() && self.selector.is_none(),
        }
    }
}
