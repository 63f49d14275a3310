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
