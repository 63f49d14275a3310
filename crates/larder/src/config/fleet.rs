//! The fleet of this node: its configuration, and the settings derived from it.
//!
//! [`FleetConfig`] is the table `[fleet]` as written. [`FleetConfig::settle`] turns it into the
//! [`FleetSettings`] that a node starts with: it reads keys and certificates, and chooses missing
//! values from the [`Surroundings`], in the same way for `check-config` and for the start.

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
use fleet::purges::Consistency;
use fleet::{ClassTable, MemberId};

use listed::Listed;
use membership::gossip::Seed;

pub use settle::{Discovery, FleetSettings, Surroundings};

/// The version of a configured table of classes; a table that is set while the fleet runs is newer.
const CONFIGURED: u64 = 0;

#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct FleetConfig {
    /// `None`: this node is in no fleet.
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
    /// The name of a predefined table of classes; `classes` replace it.
    pub policy: String,
    pub classes: Vec<Class>,
    /// `purge.consistency`.
    pub consistency: String,
    /// `purge.lease`.
    pub lease: Duration,
    pub hot_rate: u32,
    pub hot_owners: u32,
    pub offer_rate: u64,
    pub hints_memory: u64,
}

impl FleetConfig {
    /// Returns the promise of purges. The error is a sentence.
    fn consistency(&self) -> Result<Consistency, String> {
        match self.consistency == "strict" {
            true if self.members.is_empty() => {
                Err("strict needs to know all nodes: list them in fleet.members".to_owned())
            }
            true => Ok(Consistency::Strict),
            false => Ok(Consistency::Bounded),
        }
    }

    /// Returns the classes of documents. The error concerns the `[[fleet.class]]` tables.
    pub fn class_table(&self) -> Result<ClassTable, InvalidTable> {
        match (&self.classes[..], ClassTable::named(CONFIGURED, &self.policy)) {
            // A name that was accepted always denotes a table.
            ([], Ok(named)) => Ok(named),
            (classes, _) => ClassTable::of_classes(CONFIGURED, classes.to_vec()),
        }
    }
}
