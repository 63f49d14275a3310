//! Layout names, spelled the same in settings, commands, metrics and results.

use std::fmt;

use crate::layout::LayoutKind;

/// The layout of objects on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LayoutName {
    /// Clusters, which are reclaimed whole.
    #[default]
    Cluster,
    /// Slots, allocated round robin over the free ones.
    Stream,
    /// Slots, each object in the largest free piece.
    Unified,
    /// Slots of size classes, each object in the first free place of its class.
    Buddy,
}

impl LayoutName {
    /// All layouts, in the order in which they are documented.
    pub const ALL: [LayoutName; 4] =
        [LayoutName::Cluster, LayoutName::Stream, LayoutName::Unified, LayoutName::Buddy];
    /// Their names, in the order of [`LayoutName::ALL`].
    pub const NAMES: &[&str] = &["cluster", "stream", "unified", "buddy"];

    /// Returns the name, as one of [`LayoutName::NAMES`].
    pub fn as_str(self) -> &'static str {
        match self {
            LayoutName::Cluster => "cluster",
            LayoutName::Stream => "stream",
            LayoutName::Unified => "unified",
            LayoutName::Buddy => "buddy",
        }
    }

    /// Returns the name of a slot layout; `None` stands for clusters.
    pub(crate) fn of(slots: Option<LayoutKind>) -> LayoutName {
        match slots {
            None => LayoutName::Cluster,
            Some(LayoutKind::Stream { .. }) => LayoutName::Stream,
            Some(LayoutKind::Unified) => LayoutName::Unified,
            Some(LayoutKind::Buddy { .. }) => LayoutName::Buddy,
        }
    }

    /// Returns the layout of this name, one of [`LayoutName::NAMES`].
    pub fn from_name(name: &str) -> Option<LayoutName> {
        Self::ALL.into_iter().find(|layout| layout.as_str() == name)
    }
}

impl fmt::Display for LayoutName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_layouts_are_in_step() {
        let names = LayoutName::ALL.map(LayoutName::as_str);
        assert_eq!(names, LayoutName::NAMES);
        for name in LayoutName::NAMES {
            let layout = LayoutName::from_name(name).expect("listed");
            assert_eq!(layout.to_string(), *name);
        }
        assert_eq!(LayoutName::from_name("Cluster"), None);
    }
}
