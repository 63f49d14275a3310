//! The engine: objects of any size on devices that it manages itself.
//!
//! A *pure core* (index, layout, memory tier, eviction, journal) decides under one lock per
//! device; a *thin shell* (the async functions of [`Store`]) does what was decided: lock, decide,
//! unlock, await the device, lock, commit. The store knows nothing of HTTP: a key is bytes,
//! metadata is bytes, a body is bytes.
//!
//! It promises: what it returns for a key is what was last committed under exactly that key, every
//! byte checked; or nothing. What was removed or superseded never comes back, whatever crashes.
//!
//! The folders, from the top to the bottom; each imports those below it alone
//! (`package.metadata.folders` in `Cargo.toml`, kept by `cargo xtask tidy`):
//!
//! - `tools` looks at a cache from outside; `interface` is what callers use;
//! - `shell` is one device with its core: opening, recovery, lookups, the background;
//! - `core` decides: pure, under one lock;
//! - `memory` is what is in memory; `space` is where records lie; `read` is how a device is read;
//! - `format` is the structures on the device; `purge` is purges in force and labels borne;
//! - `config` is the configuration; `index` is which record has which key;
//! - `policy` is eviction and admission; `layout` is the allocators;
//! - `base` is what all share: digests, records, labels, limits, events, counters.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod base;
mod config;
mod core;
mod format;
mod index;
mod interface;
mod layout;
mod memory;
pub mod policy;
mod purge;
mod read;
mod shell;
mod space;
mod tools;

#[cfg(test)]
mod decoder_fuzz;
#[cfg(test)]
mod test_seed;

pub use base::content::Content;
pub use base::counters::Counters;
pub use base::event::Event;
pub use base::home::Home;
pub use base::key::{Key, Locality};
pub use base::labels::{Label, Labels, Mode, Target};
pub use base::limits::{CACHE_SIZE_MIN, CLUSTER_SIZES, PIECE_MAX};
pub use base::logged_purge::{LoggedPurge, PurgePosition, PurgedTarget, PurgesSince};
pub use base::refusal::Refusal;
pub use base::source::Source;
pub use config::layout_name::LayoutName;
pub use config::lookup_options::{LookupOptions, Retention, Tiers};
pub use config::options::{
    FormatOptions, LocalityOptions, MEAN_OBJECT, Options, Prefer, ReadUnit, TierAdmission,
    TierShares, WritePolicy,
};
pub use config::preset::{PRESETS, Preset, preset};
pub use core::{HeldStats, Stats};
pub use format::superblock::{CREATION_MARK, Condition, FORMAT_VERSION, MAGIC};
pub use index::{IndexKind, IndexOptions};
pub use interface::entry::{Body, Entry, ReadError, ReadHold};
pub use interface::evictions::{Evicted, Evictions};
pub use interface::fetch_token::FetchToken;
pub use interface::glance::Glance;
pub use interface::neighbours::Neighbour;
pub use interface::store::{Lookup, ReopenError, Store, StoreShare};
pub use interface::writer::{Hint, Kind, Unfinished, UnfinishedRead, Writer};
pub use memory::eviction_queue::EvictionLimits;
pub use read::device_cost::ReadCost;
pub use read::reads::ReadCounters;
pub use shell::core_lock::LockFigures;
pub use shell::create::{Entropy, FormatError, format};
pub use shell::placements::{PlacedKind, Placement, Placements};
pub use shell::superblocks::{
    METADATA_EXTENT, OpenError, is_metadata_of_ours, judge_superblocks, superblock_extents,
};
pub use space::slot_stats::SlotStats;
pub use space::space_audit::Account;
#[doc(hidden)]
pub use tools::computed;
pub use tools::inspect::{
    ClusterReport, Inspector, ObjectReport, SlotReport, SuperblockReport, VerifyReport,
};

/// The allocators alone, for their benchmark and for drawings; not part of the interface.
#[doc(hidden)]
pub mod layouts {
    pub use crate::layout::*;
}
