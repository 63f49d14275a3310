//! The shipped drives, each a documented data file beside this one.

use crate::drives::drive_file;
use crate::drives::drive_file::{DriveFile, Refused};

/// Name and data file of each drive, in listing order.
const SHIPPED: &[(&str, &str)] = &[
    ("atlas10k", include_str!("shipped/atlas10k.json")),
    ("atlas10k_x3", include_str!("shipped/atlas10k_x3.json")),
    ("atlas_III", include_str!("shipped/atlas_III.json")),
    ("barracuda", include_str!("shipped/barracuda.json")),
    ("hp_c3323a", include_str!("shipped/hp_c3323a.json")),
    ("st15150", include_str!("shipped/st15150.json")),
    ("st320414a", include_str!("shipped/st320414a.json")),
    ("st39102lw", include_str!("shipped/st39102lw.json")),
];

/// Returns the names of the shipped drives.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// Returns the data file of a shipped drive.
pub fn text(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Returns the shipped drive `name`.
pub fn named(name: &str) -> Option<Result<DriveFile, Refused>> {
    text(name).map(|text| drive_file::read(text, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives::Drive;
    use crate::drives::mechanical::{Config, MechanicalDrive};

    #[test]
    fn every_shipped_drive_works() {
        for name in names() {
            let file = named(name).unwrap().unwrap();
            assert!(!file.label.is_empty());
            let drive = MechanicalDrive::new(&file, Config::Shipped).unwrap();
            assert!(drive.sectors() > 1_000_000, "{name}");
            assert!(drive.capacity() >= drive.sectors(), "{name}");
        }
        assert!(named("none such").is_none());
    }
}
