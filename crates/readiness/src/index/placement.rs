//! The scheduling constraints of a pod or pod template.

use crate::index::Name;

/// An operating system, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Windows.
    Windows,
    /// Linux, or whatever else is not Windows.
    Other,
}

/// What a pod's spec says of the nodes that it may run on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The system that its `spec.os`, node selector or required node affinity names.
    pub names: Option<System>,
    /// Its RuntimeClass, which may name one in its stead.
    pub runtime_class: Option<Name>,
    /// The Node that a template names.
    pub node: Option<Name>,
    /// Its node selector and required node affinity as a [`NodeSelection`](crate::assess::NodeSelection)'s text.
    pub selector: Option<Name>,
}

impl Placement {
    /// Whether nothing in it can ask for Windows.
    #[must_use]
    pub fn never_asks(&self) -> bool {
        match self.names {
            Some(system) => system == System::Other,
            None => self.runtime_class.is_none() && self.node.is_none() && self.selector.is_none(),
        }
    }
}
