//! Options of `cargo xtask bench`.

use std::path::PathBuf;

use clap::Args;

/// The systems and scenarios to measure, and for how long.
#[derive(Args)]
pub struct Options {
    /// Seconds of each round.
    #[arg(long, default_value_t = 4.0)]
    pub seconds: f64,
    /// Rounds of each system in each scenario.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Connections of the load generator.
    #[arg(long, default_value_t = 32)]
    pub connections: usize,
    /// Only the scenarios whose names contain this.
    #[arg(long, default_value = "")]
    pub only: String,
    /// Directory for caches; a file system on a disk, where O_DIRECT means something.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Only the systems whose names contain this, such as "1 worker" or "nginx".
    #[arg(long, default_value = "")]
    pub systems: String,
    /// Larder with these layouts instead of its default, divided by commas: each is a system.
    #[arg(long, value_delimiter = ',')]
    pub layout: Vec<String>,
    /// Larder with these presets, likewise.
    #[arg(long, value_delimiter = ',')]
    pub preset: Vec<String>,
    /// Writes the figures to this file, too.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Pages.
    #[command(flatten)]
    pub pages: PageOptions,
    /// Files.
    #[command(flatten)]
    pub files: FileOptions,
}

/// The options of `--files`.
#[derive(Args)]
pub struct FileOptions {
    /// Measures web servers over a tree of small files that is larger than memory, beside nginx.
    /// Wants the rights of root, for loop devices and control groups.
    #[arg(long, conflicts_with = "pages")]
    pub files: bool,
    /// Pages of the tree, each with about nine files beside it, with --files.
    #[arg(long, default_value_t = 12_600, requires = "files")]
    pub tree_pages: u32,
    /// Requests that count, with --files.
    #[arg(long, default_value_t = 400_000, requires = "files")]
    pub tree_requests: u64,
    /// Requests before them, with --files.
    #[arg(long, default_value_t = 600_000, requires = "files")]
    pub tree_warm_up: u64,
    /// Memory for a server and what the kernel keeps for it, MiB, with --files.
    #[arg(long, default_value_t = 256, requires = "files")]
    pub limit_mib: u64,
    /// Of that, the setting `memory` of larder, MiB.
    #[arg(long, default_value_t = 160, requires = "files")]
    pub memory_mib: u64,
}

/// The options of `--pages`.
#[derive(Args)]
pub struct PageOptions {
    /// Measures pages such as those of the web on caches that evict, beside nginx and Traffic
    /// Server, instead of single objects. Wants the rights of root, for loop devices.
    #[arg(long)]
    pub pages: bool,
    /// Requests that count, with --pages.
    #[arg(long, default_value_t = 500_000, requires = "pages")]
    pub requests: u64,
    /// Requests before them, with --pages: until the cache evicts.
    #[arg(long, default_value_t = 600_000, requires = "pages")]
    pub warm_up: u64,
    /// Reads, and writes, that the device does a second while requests count, with --pages.
    #[arg(long, requires = "pages")]
    pub operations: Option<u32>,
}
