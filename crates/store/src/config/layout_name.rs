//! The names of the layouts, spelled alike in settings, commands, metrics and results.

use std::fmt;

use crate::layout::LayoutKind;

/// How objects are laid out on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LayoutName {
    /// In clusters, which are reclaimed whole.
    #[default]
    Cluster,
    /// In slots, round and round over the free ones.
    Stream,
    /// In slots, each object in the largest free piece.
    Unified,
    /// In slots of size classes, the first free place of the class.
    Buddy,
}

impl LayoutName {
    /// All of them, in the order in which they are documented.
    pub const ALL: [LayoutName; 4] =
        [LayoutName::Cluster, LayoutName::Stream, LayoutName::Unified, LayoutName::Buddy];
    /// Their names, in the same order.
    pub const NAMES: &[&str] = &["cluster", "stream", "unified", "buddy"];

    /// As it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            LayoutName::Cluster => "cluster",
            LayoutName::Stream => "stream",
            LayoutName::Unified => "unified",
            LayoutName::Buddy => "buddy",
        }
    }

    /// The name of a layout of slots, or of clusters.
    pub(crate) fn of(slots: Option<LayoutKind>) -> LayoutName {
        match slots {
            None => LayoutName::Cluster,
            Some(LayoutKind::Stream { .. }) => LayoutName::Stream,
            Some(LayoutKind::Unified) => LayoutName::Unified,
            Some(LayoutKind::Buddy { .. }) => LayoutName::Buddy,
        }
    }

    /// The layout of this name, one of [`LayoutName::NAMES`].
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
