//! M2 SQUID: one file per object in a tree of 16 × 256 directories, filled round robin: the first
//! file goes to `0/00`, the next to `0/01` … `0/FF`, then `1/00`.

use super::file_per_object::{Place, Placement};
use crate::request::Object;

/// Directories of the first level, `0` to `F`.
const FIRST_LEVEL: u32 = 16;

/// Directories of the second level in each of them, `00` to `FF`.
const SECOND_LEVEL: u32 = 256;

/// Squid's tree of directories. A file is named by its number in the order of storing.
#[derive(Default)]
pub struct Squid {
    stored: u32,
}

impl Placement for Squid {
    fn directories(&self) -> Vec<String> {
        let mut paths = Vec::new();
        for first in 0..FIRST_LEVEL {
            paths.push(format!("{first:X}"));
            paths.extend((0..SECOND_LEVEL).map(|second| format!("{first:X}/{second:02X}")));
        }
        paths
    }

    fn place(&mut self, _: &Object) -> Place {
        let number = self.stored;
        self.stored = self.stored.wrapping_add(1);
        let first = number / SECOND_LEVEL % FIRST_LEVEL;
        let second = number % SECOND_LEVEL;
        Place { directory: None, path: format!("{first:X}/{second:02X}/{number:08X}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_round_robin() {
        let mut squid = Squid::default();
        let object = Object { id: 9, site: 5, size: 1, ..Object::default() };
        let places: Vec<_> = (0..4_098).map(|_| squid.place(&object).path).collect();
        let at = [0, 1, 255, 256, 511, 4_095, 4_096, 4_097].map(|number| places[number].as_str());
        let expected = [
            "0/00/00000000",
            "0/01/00000001",
            "0/FF/000000FF",
            "1/00/00000100",
            "1/FF/000001FF",
            "F/FF/00000FFF",
            "0/00/00001000",
            "0/01/00001001",
        ];
        assert_eq!(at, expected);
    }

    #[test]
    fn every_directory_is_made_before_its_children() {
        let directories = Squid::default().directories();
        assert_eq!(directories.len(), 16 + 16 * 256);
        assert_eq!(directories[..3], ["0", "0/00", "0/01"]);
        assert_eq!(directories.last().map(String::as_str), Some("F/FF"));
    }
}
