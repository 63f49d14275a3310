//! M2 SQUID: one file per object in a tree of 16 × 256 directories, filled round robin: the first
//! file goes to `0/00`, the next to `0/01` … `0/FF`, then `1/00`.
//!
//! C15's Squid has the same tree and chooses the directory by a hash of the URL; its SQUIDML, by a
//! hash of the origin server. Squid 2.4 itself (U8) puts 256 files into a directory before it goes
//! on to the next.

use super::file_per_object::{Place, Placement};
use workload::contents::mix;
use workload::request::Object;

/// Number of directories on the first level, `0` to `F`.
const FIRST_LEVEL: u32 = 16;

/// Number of directories on the second level in each of them, `00` to `FF`.
const SECOND_LEVEL: u32 = 256;

/// Number of files that Squid 2.4 puts into a directory before it goes on.
const FILES: u32 = 256;

/// Squid's tree of directories. A file is named by its number in the order of storing.
#[derive(Default)]
pub struct Squid {
    stored: u32,
    choice: Choice,
    /// The directory above the tree, with a trailing `/`; empty: the root.
    above: String,
}

/// How the directory of a file is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Choice {
    #[default]
    RoundRobin,
    InTurn,
    Url,
    Server,
}

impl Squid {
    /// Returns a tree with directories by a hash of the URL (C15).
    pub fn by_url() -> Squid {
        Squid { choice: Choice::Url, ..Squid::default() }
    }

    /// Returns a tree with all objects of a server in one directory, chosen by a hash of the server
    /// (C15, SQUIDML).
    pub fn by_server() -> Squid {
        Squid { choice: Choice::Server, ..Squid::default() }
    }

    /// Returns the tree of a cache directory of this name, which may be one of several on a file
    /// system; 256 files go to a directory, then as many to the next (U8).
    pub fn in_directory(name: &str) -> Squid {
        Squid { choice: Choice::InTurn, above: format!("{name}/"), ..Squid::default() }
    }
}

impl Placement for Squid {
    fn directories(&self) -> Vec<String> {
        let above = &self.above;
        let mut paths: Vec<String> =
            above.strip_suffix('/').map(str::to_owned).into_iter().collect();
        for first in 0..FIRST_LEVEL {
            paths.push(format!("{above}{first:X}"));
            let second = 0..SECOND_LEVEL;
            paths.extend(second.map(|second| format!("{above}{first:X}/{second:02X}")));
        }
        paths
    }

    fn place(&mut self, object: &Object) -> Place {
        let number = self.stored;
        self.stored = self.stored.wrapping_add(1);
        let directory = match self.choice {
            Choice::RoundRobin => number,
            Choice::InTurn => number / FILES,
            Choice::Url => mix(u64::from(object.id)) as u32,
            Choice::Server => mix(u64::from(object.site)) as u32,
        };
        let first = directory / SECOND_LEVEL % FIRST_LEVEL;
        let second = directory % SECOND_LEVEL;
        let above = &self.above;
        Place { directory: None, path: format!("{above}{first:X}/{second:02X}/{number:08X}") }
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
    fn the_directory_follows_from_the_url_or_the_server() {
        let object = |id, site| Object { id, site, ..Object::default() };
        let directory = |squid: &mut Squid, object: &Object| {
            squid.place(object).path.rsplit_once('/').unwrap().0.to_owned()
        };
        let mut squid = Squid::by_url();
        let first = directory(&mut squid, &object(1, 1));
        assert_ne!(directory(&mut squid, &object(2, 1)), first);
        assert_eq!(directory(&mut squid, &object(1, 1)), first);
        let mut squid = Squid::by_server();
        let first = directory(&mut squid, &object(1, 1));
        assert_eq!(directory(&mut squid, &object(2, 1)), first);
        assert_ne!(directory(&mut squid, &object(1, 2)), first);
        let mut squid = Squid::in_directory("cache2");
        assert_eq!(squid.directories()[..3], ["cache2", "cache2/0", "cache2/0/00"]);
        let places: Vec<_> = (0..=256).map(|_| squid.place(&object(1, 1)).path).collect();
        assert_eq!(places[0], "cache2/0/00/00000000");
        assert_eq!(places[255..], ["cache2/0/00/000000FF", "cache2/0/01/00000100"]);
    }

    #[test]
    fn every_directory_is_made_before_its_children() {
        let directories = Squid::default().directories();
        assert_eq!(directories.len(), 16 + 16 * 256);
        assert_eq!(directories[..3], ["0", "0/00", "0/01"]);
        assert_eq!(directories.last().map(String::as_str), Some("F/FF"));
    }
}
