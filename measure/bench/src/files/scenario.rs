//! A tree of files and the memory for it.

use std::fmt;

use crate::load::site_files;
use crate::report::bytes;

/// Sizes of the tree, of the memory and of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Number of pages in the tree, each with about nine files.
    pub pages: u32,
    /// Requests by popularity before the measured time.
    pub warm_up: u64,
    /// Bytes of memory for a server, including the kernel memory charged to it.
    pub limit: u64,
    /// Larder's setting `memory`, in bytes.
    pub memory: u64,
    /// Size of Larder's cache in bytes.
    pub cache: u64,
    /// Number of files.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Number of files that a server may keep open.
    pub open_files: u64,
}

/// The kinds of trees: name, description, and the sizes that stand for those that are not given.
pub const TREES: [(&str, &str, Scenario); 3] = [
    ("larger-than-memory", "120,000 files of 1.4 GB in 256 MiB", scenario(12_600, 256, 160, 4)),
    ("in-memory", "9,500 files of 110 MB in 1 GiB", scenario(1_000, 1_024, 512, 1)),
    ("million", "a million files of 12 GB in 1 GiB", scenario(105_300, 1_024, 512, 12)),
];

/// Files that a server keeps open if the tree is larger than memory.
const OPEN_FILES: u64 = 1_000;
/// Memory per open file: its inode, its name, and the server's state.
const OPEN_FILE_BYTES: u64 = 4_096;

const fn scenario(pages: u32, limit_mib: u64, memory_mib: u64, cache_gib: u64) -> Scenario {
    Scenario {
        pages,
        warm_up: if pages > 5_000 { 300_000 } else { 100_000 },
        limit: limit_mib << 20,
        memory: memory_mib << 20,
        cache: cache_gib << 30,
        files: 0,
        bytes: 0,
        open_files: 0,
    }
}

impl Scenario {
    /// Counts the files. All may be kept open if they and their data fit in half of the memory.
    ///
    /// # Errors
    /// Fails if the sizes cannot be measured together.
    pub fn checked(self, seed: u64) -> Result<Scenario, String> {
        if self.memory >= self.limit {
            let (memory, limit) = (self.memory, self.limit);
            return Err(format!("--memory {memory} is not less than --limit {limit}"));
        }
        let all = site_files(self.pages, seed);
        let (files, bytes) = (all.len() as u64, all.iter().map(|file| file.size).sum());
        let fit = bytes + files * OPEN_FILE_BYTES <= self.limit / 2;
        Ok(Scenario { files, bytes, open_files: if fit { files } else { OPEN_FILES }, ..self })
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} files of {} in {} directories; {} of memory and one core for each server, of which \
             Larder's `memory` is {}, and a cache of {} for Larder; {} requests of warm-up",
            self.files,
            bytes(self.bytes as f64),
            self.pages,
            bytes(self.limit as f64),
            bytes(self.memory as f64),
            bytes(self.cache as f64),
            self.warm_up,
        )
    }
}

#[test]
fn trees_are_what_they_are_called() {
    let of = |name: &str| {
        let tree = TREES.iter().find(|(tree, ..)| *tree == name).unwrap();
        tree.2.checked(1).unwrap()
    };
    let larger = of("larger-than-memory");
    assert!((115_000..125_000).contains(&larger.files), "{larger}");
    assert!((1_250_000_000..1_500_000_000).contains(&larger.bytes), "{larger}");
    assert_eq!(larger.open_files, 1_000);
    let small = of("in-memory");
    assert_eq!(small.open_files, small.files, "all may be open: {small}");
    let too_much = Scenario { memory: small.limit, ..small };
    assert!(too_much.checked(1).unwrap_err().contains("not less than"));
}
