//! Options of `cargo xtask bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

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
    /// Only the systems whose names contain one of these, divided by commas, such as "nginx,Caddy".
    #[arg(long, value_delimiter = ',')]
    pub systems: Vec<String>,
    /// Larder with these layouts instead of its default, divided by commas: each is a system.
    #[arg(long, value_delimiter = ',')]
    pub layout: Vec<String>,
    /// Larder with these presets, likewise.
    #[arg(long, value_delimiter = ',')]
    pub preset: Vec<String>,
    /// Writes the figures to this file, too.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Reads, and as many writes, that each device does a second while requests count, with
    /// --files.
    #[arg(long, requires = "devices", value_parser = clap::value_parser!(u32).range(1..))]
    pub operations: Option<u32>,
    /// Files.
    #[command(flatten)]
    pub files: FileOptions,
    /// Fleets.
    #[command(flatten)]
    pub fleet: FleetOptions,
}

impl Options {
    /// Returns whether a system of this name is to be measured.
    pub fn wants(&self, system: &str) -> bool {
        self.systems.is_empty() || self.systems.iter().any(|name| system.contains(name.as_str()))
    }
}

/// The options of `--files`.
#[derive(Args)]
pub struct FileOptions {
    /// Measures web servers over a tree of files, beside nginx, Apache httpd and Caddy. Wants the
    /// rights of root, for loop devices and control groups.
    #[arg(long, group = "devices")]
    pub files: bool,
    /// The tree, with --files, beside the memory: what the options below are when they are absent.
    #[arg(long, value_enum, default_value_t = Tree::LargerThanMemory, requires = "files")]
    pub tree: Tree,
    /// Pages of the tree, each with about nine files beside it, with --files.
    #[arg(long, requires = "files")]
    pub tree_pages: Option<u32>,
    /// Requests that count, in four parts, with --files.
    #[arg(long, requires = "files")]
    pub tree_requests: Option<u64>,
    /// Seconds after which such a part is over at the latest, with --files.
    #[arg(long, default_value_t = 20, requires = "files")]
    pub tree_part_seconds: u64,
    /// Requests by popularity before them, after every page was visited once, with --files.
    #[arg(long, requires = "files")]
    pub tree_warm_up: Option<u64>,
    /// Memory for a server and what the kernel keeps for it, MiB, with --files.
    #[arg(long, requires = "files")]
    pub limit_mib: Option<u64>,
    /// Of that, the setting `memory` of larder, MiB.
    #[arg(long, requires = "files")]
    pub memory_mib: Option<u64>,
    /// Size of larder's cache, GiB, with --files.
    #[arg(long, requires = "files")]
    pub cache_gib: Option<u32>,
}

/// The options of `--fleet`.
#[derive(Args)]
pub struct FleetOptions {
    /// Measures several nodes that share their caches, beside nginx and Varnish that do. Wants the
    /// rights of root, for loop devices and control groups.
    #[arg(long, conflicts_with = "files")]
    pub fleet: bool,
    /// Nodes, with --fleet.
    #[arg(long, default_value_t = 3, requires = "fleet")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=16))]
    pub nodes: u32,
    /// Size of each node's cache, MiB, with --fleet.
    #[arg(long, default_value_t = 128, requires = "fleet")]
    #[arg(value_parser = clap::value_parser!(u64).range(32..=65_536))]
    pub node_cache_mib: u64,
    /// The setting `memory` of larder, MiB, with --fleet.
    #[arg(long, default_value_t = 32, requires = "fleet")]
    #[arg(value_parser = clap::value_parser!(u64).range(16..))]
    pub node_memory_mib: u64,
    /// Memory for a node and what the kernel keeps for it, MiB, with --fleet.
    #[arg(long, default_value_t = 128, requires = "fleet")]
    pub node_limit_mib: u64,
    /// Documents that are popular at a time, 12 KB in the mean, with --fleet.
    #[arg(long, default_value_t = 20_000, requires = "fleet")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub documents: u32,
    /// The exponent of Zipf's law, with --fleet.
    #[arg(long, default_value_t = 0.8, requires = "fleet")]
    pub exponent: f64,
    /// One document takes the place of another after so many requests, with --fleet.
    #[arg(long, default_value_t = 200, requires = "fleet")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub drift: u64,
    /// Requests before those that count, with --fleet.
    #[arg(long, default_value_t = 150_000, requires = "fleet")]
    pub fleet_warm_up: u64,
    /// Requests that count, with --fleet.
    #[arg(long, default_value_t = 100_000, requires = "fleet")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub fleet_requests: u64,
    /// Seconds of requests after a node was killed, with --fleet.
    #[arg(long, default_value_t = 20.0, requires = "fleet")]
    pub recovery_seconds: f64,
}

/// Trees of files, beside the memory of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tree {
    /// 120,000 files of 1.4 GB, in 256 MiB.
    LargerThanMemory,
    /// 9,500 files of 110 MB, in 1 GiB.
    InMemory,
    /// A million files of 12 GB, in 1 GiB.
    Million,
}
