//! The drives that are shipped, each a documented data file beside this one.

/// Name and data file of each, in the order in which they are listed.
const SHIPPED: &[(&str, &str)] = &[
    ("atlas10k", include_str!("drives/atlas10k.json")),
    ("barracuda", include_str!("drives/barracuda.json")),
    ("hp_c3323a", include_str!("drives/hp_c3323a.json")),
];

/// The names of the shipped drives.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// The data file of a shipped drive.
pub fn text(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
