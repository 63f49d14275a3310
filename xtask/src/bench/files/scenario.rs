//! A tree and the memory for it, as given by the options or by the kind of tree.

use std::fmt;

use super::tree;
use crate::bench::options::{FileOptions, Tree};

/// Size of the tree, of the memory and of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Number of pages in the tree.
    pub pages: u32,
    /// Requests by popularity before the counted ones.
    pub warm_up: u64,
    /// Number of counted requests.
    pub requests: u64,
    /// Memory for a server, including the kernel memory charged to it, MiB.
    pub limit_mib: u64,
    /// The setting `memory` of larder, MiB.
    pub memory_mib: u64,
    /// Size of larder's cache, GiB.
    pub cache_gib: u32,
    /// Number of files that a server may keep open.
    pub open_files: u64,
}

/// Files that a server keeps open if the tree is larger than memory.
const OPEN_FILES: u64 = 1_000;
/// Memory per open file: its inode, its name, and the server's state.
const OPEN_FILE_BYTES: u64 = 4_096;

impl Scenario {
    /// Returns the scenario that the options select.
    ///
    /// # Errors
    ///
    /// When the values cannot be measured together.
    pub fn of(options: &FileOptions) -> Result<Scenario, String> {
        let stands_for = match options.tree {
            Tree::LargerThanMemory => Scenario::with(12_600, 300_000, 200_000, (256, 160), 4),
            Tree::InMemory => Scenario::with(1_000, 100_000, 400_000, (1_024, 512), 1),
            Tree::Million => Scenario::with(105_300, 300_000, 400_000, (1_024, 512), 12),
        };
        let scenario = Scenario {
            pages: options.tree_pages.unwrap_or(stands_for.pages),
            warm_up: options.tree_warm_up.unwrap_or(stands_for.warm_up),
            requests: options.tree_requests.unwrap_or(stands_for.requests),
            limit_mib: options.limit_mib.unwrap_or(stands_for.limit_mib),
            memory_mib: options.memory_mib.unwrap_or(stands_for.memory_mib),
            cache_gib: options.cache_gib.unwrap_or(stands_for.cache_gib),
            open_files: 0,
        };
        if scenario.pages == 0 || scenario.requests == 0 || scenario.cache_gib == 0 {
            return Err("a tree without pages, no requests or no cache: nothing to measure".into());
        }
        if scenario.memory_mib >= scenario.limit_mib {
            let (memory, limit) = (scenario.memory_mib, scenario.limit_mib);
            return Err(format!("--memory-mib {memory} is not less than --limit-mib {limit}"));
        }
        Ok(scenario.with_open_files())
    }

    fn with(
        pages: u32,
        warm_up: u64,
        requests: u64,
        (limit_mib, memory_mib): (u64, u64),
        cache_gib: u32,
    ) -> Scenario {
        Scenario { pages, warm_up, requests, limit_mib, memory_mib, cache_gib, open_files: 0 }
    }

    /// Sets the number of open files: all, if they and their data fit in half of the memory.
    fn with_open_files(self) -> Scenario {
        let (files, bytes) = tree::size(self.pages);
        let all = bytes + files * OPEN_FILE_BYTES <= (self.limit_mib << 20) / 2;
        Scenario { open_files: if all { files } else { OPEN_FILES }, ..self }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, bytes) = tree::size(self.pages);
        write!(
            f,
            "{files} files of {} MB in {} directories; {} MiB for each server, larder `memory` {} \
             MiB and a cache of {} GiB; {} requests after every page once \
             and {}",
            bytes / 1_000_000,
            self.pages,
            self.limit_mib,
            self.memory_mib,
            self.cache_gib,
            self.requests,
            self.warm_up,
        )
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::bench::options::Options;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        options: Options,
    }

    fn of(words: &str) -> Result<Scenario, String> {
        let words = ["bench", "--files"].into_iter().chain(words.split_whitespace());
        let words = Words::try_parse_from(words).map_err(|error| error.to_string())?;
        Scenario::of(&words.options.files)
    }

    #[test]
    fn the_kind_of_tree_stands_for_what_is_not_said() {
        let larger = of("").unwrap();
        assert_eq!((larger.pages, larger.limit_mib, larger.open_files), (12_600, 256, 1_000));
        let small = of("--tree in-memory --memory-mib 300").unwrap();
        assert_eq!((small.memory_mib, small.limit_mib), (300, 1_024));
        assert!(small.open_files > 9_000, "all files may be open: {small:?}");
        let million = of("--tree million").unwrap();
        let (files, _) = tree::size(million.pages);
        assert!((1_000_000..1_010_000).contains(&files), "{files}");
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        assert!(of("--tree-pages 0").is_err());
        assert!(of("--memory-mib 256").unwrap_err().contains("not less than"));
        assert!(of("--operations 0").is_err());
        assert!(Words::try_parse_from(["bench", "--operations", "200"]).is_err(), "no devices");
        assert!(Words::try_parse_from(["bench", "--files", "--operations", "200"]).is_ok());
    }
}
