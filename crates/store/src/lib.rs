//! The engine: objects of any size on devices that it manages itself.
//!
//! A *pure core* (index, layout, memory tier, eviction, journal) decides under one lock per
//! device; a *thin shell* (the async functions of [`Store`]) does what was decided: lock, decide,
//! unlock, await the device, lock, commit. The store knows nothing of HTTP: a key is bytes,
//! metadata is bytes, a body is bytes.
//!
//! It promises: what it returns for a key is what was last committed under exactly that key, every
//! byte checked; or nothing. What was removed or superseded never comes back, whatever crashes.

#![cfg_attr(test, allow(clippy::unwrap_used))]

// The interface.
mod account;
mod api;
mod content;
mod counters;
mod entry;
mod event;
mod inspect;
mod key;
mod labels;
mod layout_name;
mod neighbours;
mod open;
mod options;
mod placements;
mod preset;
mod space;
mod stats;
mod store;
mod writer;

// The shell.
mod background;
mod bearers;
mod bearers_dump;
mod join;
mod lookup;
mod reader;
mod recovery;
mod slot_recovery;
mod volume;

// The core.
mod appender;
mod cluster_table;
mod core;
mod cost_meter;
mod deaths;
mod digest;
mod doorkeeper;
mod fetches;
mod grouping;
mod index;
mod layout;
mod object;
pub mod policy;
mod purges;
mod read_ahead;
mod read_queue;
mod read_window;
mod run_map;
mod size_class;
mod tier;

// The structures on the device.
mod areas;
mod checkpoint;
#[doc(hidden)]
pub mod computed;
mod index_dump;
mod journal;
mod record;
mod secret;
mod slot_dump;
mod summary;
mod superblock;
mod wire;

#[cfg(test)]
mod decoder_fuzz;
#[cfg(test)]
mod test_seed;

pub use account::Account;
pub use api::{Hint, Kind, PartialRead, ReadError, Refusal, ReopenError, Source};
pub use areas::{CACHE_SIZE_MIN, CLUSTER_SIZES};
pub use content::Content;
pub use core::{HeldStats, ReadCounters};
pub use cost_meter::ReadCost;
pub use counters::Counters;
pub use entry::{Body, Entry, Reading};
pub use event::Event;
pub use index::{IndexKind, IndexOptions};
pub use inspect::{
    ClusterReport, Inspector, ObjectReport, SlotReport, SuperblockReport, VerifyReport,
};
pub use key::{Key, Locality};
pub use labels::{Label, Labels, Mode, Target};
pub use layout_name::LayoutName;
pub use neighbours::Neighbour;
pub use open::{
    Entropy, FormatError, METADATA_EXTENT, OpenError, format, is_metadata_of_ours,
    judge_superblocks, superblock_extents,
};
pub use options::{
    FormatOptions, LocalityOptions, MEAN_OBJECT, Options, Prefer, ReadUnit, TierAdmission,
    TierShares, WritePolicy,
};
pub use placements::{PlacedKind, Placement, Placements};
pub use preset::{PRESETS, Preset, preset};
pub use stats::{SlotStats, Stats};
pub use store::{FetchToken, Lookup, Store, StoreShare};
pub use superblock::{Condition, FORMAT_VERSION, MAGIC};
pub use volume::PIECE_MAX;
pub use writer::{Partial, Writer};

/// The allocators alone, for their benchmark and for drawings; not part of the interface.
#[doc(hidden)]
pub mod layouts {
    pub use crate::layout::*;
}
