//! The fleet that this node is part of: what is configured, and what follows from it.
//!
//! [`FleetConfig`] is the table `[fleet]` as it is written. [`FleetConfig::settle`] makes of it the
//! [`FleetSettings`] that a node starts with: it reads keys and certificates and chooses what was
//! left open, by the [`Surroundings`], alike for `check-config` and for the start.

mod addresses;
pub mod listed;
mod problems;
mod security;
mod settle;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fleet::class::{Class, InvalidTable};
use fleet::member::Address;
use fleet::{ClassTable, MemberId};

use listed::Listed;
use membership::gossip::Seed;

pub use settle::{Discovery, FleetSettings, Surroundings};

/// The version of the classes that a configuration has: any that are set while the fleet runs are
/// newer.
const CONFIGURED: u64 = 0;

/// The table `[fleet]`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct FleetConfig {
    /// Without it this node is in no fleet.
    pub listen: Option<SocketAddr>,
    pub join: Vec<Seed>,
    pub advertise: Option<Address>,
    pub node: Option<MemberId>,
    pub name: String,
    pub zone: Option<String>,
    pub capacity: Option<u64>,
    pub key_file: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub private_key: Option<PathBuf>,
    pub ca: Option<PathBuf>,
    pub insecure: bool,
    pub members: Vec<Listed>,
    /// The name of a table of classes; `classes` take its place.
    pub policy: String,
    pub classes: Vec<Class>,
    pub purge_timeout: Duration,
    /// Requests a second.
    pub hot_rate: u32,
    pub hot_owners: u32,
    /// Bytes a second.
    pub offer_rate: u64,
    pub hints_memory: u64,
}

impl FleetConfig {
    /// Returns the classes of documents. The error is that of the `[[fleet.class]]` tables.
    pub fn class_table(&self) -> Result<ClassTable, InvalidTable> {
        match (&self.classes[..], ClassTable::named(CONFIGURED, &self.policy)) {
            // A declared name is one of a table.
            ([], Ok(named)) => Ok(named),
            (classes, _) => ClassTable::of_classes(CONFIGURED, classes.to_vec()),
        }
    }
}
