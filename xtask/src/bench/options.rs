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
    /// Only the systems whose names contain one of these, divided by commas, such as "nginx,varnish".
    #[arg(long, value_delimiter = ',')]
    pub systems: Vec<String>,
    /// Writes the figures to this file, too.
    #[arg(long)]
    pub json: Option<PathBuf>,
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

/// The options of `--fleet`.
#[derive(Args)]
pub struct FleetOptions {
    /// Measures several nodes that share their caches, beside nginx and Varnish that do. Wants the
    /// rights of root, for loop devices and control groups.
    #[arg(long)]
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
