//! The storage engine: stores objects of any size on devices that it manages itself.
//!
//! A *pure core* (index, layout, memory tier, eviction, journal) makes decisions under one lock per
//! device. A *thin shell* (the async functions of [`Store`]) carries them out: lock, decide,
//! unlock, await the device, lock, commit. The store knows nothing of HTTP: keys, metadata and
//! bodies are bytes.
//!
//! Guarantees: a lookup returns what was last committed under exactly that key, with every byte
//! verified, or nothing. A removed or superseded object never reappears, even after a crash.
//!
//! The folders, from top to bottom; each imports only those below it (`package.metadata.folders` in
//! `Cargo.toml`, checked by `cargo xtask tidy`):
//!
//! - `handle` runs a store on threads of its own; `tools` inspects a cache from outside;
//! - `interface` is the public API;
//! - `shell` runs one device with its core: opening, recovery, lookups, the background;
//! - `core` makes the decisions, without I/O, under one lock;
//! - `memory` is the memory tier; `space` manages where records lie; `read` reads devices;
//! - `format` is the structures on the device; `purge` is the purges in force and the label
//!   filters;
//! - `config` is the configuration; `index` maps keys to records;
//! - `policy` is eviction and admission; `layout` is the allocators;
//! - `base` is shared by all: digests, records, labels, limits, events, counters.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod base;
mod config;
mod core;
mod format;
#[cfg(feature = "handle")]
mod handle;
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

/// Devices and clocks, for callers that do not depend on that crate themselves.
pub use device;

pub use base::content::Content;
pub use base::counters::Counters;
pub use base::event::Event;
pub use base::home::Home;
pub use base::key::{Key, Locality};
pub use base::labels::{Label, Labels, Mode, PATTERN_MAX, Pattern, Target};
pub use base::limits::{CACHE_SIZE_MIN, CLUSTER_SIZES, PIECE_MAX};
pub use base::logged_purge::{
    LoggedPurge, MadePurge, PurgeMaker, PurgePosition, PurgeRange, PurgedTarget, PurgesLacking,
    PurgesSince,
};
pub use base::refusal::Refusal;
pub use base::source::Source;
pub use config::layout_name::LayoutName;
pub use config::lookup_options::{LookupOptions, Retention, Tiers};
pub use config::options::{
    FormatOptions, LocalityOptions, MEAN_OBJECT, Options, Prefer, ReadUnit, SharedMemorySource,
    TierAdmission, TierShares, WritePolicy,
};
pub use config::preset::{PRESETS, Preset, preset};
pub use core::{HeldStats, Stats};
pub use format::superblock::{CREATION_MARK, Condition, FORMAT_VERSION, MAGIC};
#[cfg(feature = "handle")]
pub use handle::{
    HandleError, HandleOpenError, HandleOptions, StoreHandle, StoredObject, ThreadStore,
};
pub use index::{IndexKind, IndexOptions};
pub use interface::entry::{Body, Entry, ReadError, ReadHold};
pub use interface::evictions::{Evicted, Evictions};
pub use interface::fetch_token::FetchToken;
pub use interface::format::format;
pub use interface::neighbours::Neighbour;
pub use interface::store::{DeviceError, Lookup, ReopenError, Store, StoreShare};
pub use interface::try_lookup::TryLookup;
pub use interface::writer::{Hint, Kind, Unfinished, UnfinishedRead, Writer};
pub use memory::eviction_queue::EvictionLimits;
pub use read::device_cost::ReadCost;
pub use read::reads::ReadCounters;
pub use shell::core_lock::LockFigures;
pub use shell::create::{Entropy, FormatError, format_with_seed};
pub use shell::operation_times::OperationFigures;
pub use shell::placements::{PlacedKind, Placement, Placements};
pub use shell::superblocks::{
    METADATA_EXTENT, OpenError, is_metadata_of_ours, judge_superblocks, superblock_extents,
};
pub use space::slot_stats::SlotStats;
pub use space::space_audit::{Account, AccountError};
#[doc(hidden)]
pub use tools::computed;
pub use tools::inspect::{
    ClusterReport, InspectError, Inspector, ObjectReport, SlotReport, SuperblockReport,
    VerifyReport,
};

/// The allocators, exported for their benchmark and for drawings; not part of the interface.
#[doc(hidden)]
pub mod layouts {
    pub use crate::layout::*;
}
