//! The core of one device's store: decides what lies where, under one lock.
//!
//! Plain `&mut self` code that never waits and never reads a clock. The shell (`volume`) carries
//! out what the core decides, and reports back.
//!
//! [`Core`] owns parts that can be built and tested alone: [`placement`], the index, the objects in
//! memory ([`residents`]), [`object_labels`], the purges ([`purge_state`]), the [`reader_holds`],
//! what recovery has still to do ([`recovery`]), when to write and flush ([`schedule`]), what to
//! evict ([`reclaim`]), the tasks that wait ([`waiters`]), and some smaller ones. Its own methods
//! are those that need several parts: lookups ([`lookup`]), insertion ([`insertion`]), removal
//! ([`removal`]), and the steps of the background ([`maintenance`]).
//!
//! Invariant: a record on the device that no index entry leads to is dead or lies in a cluster that
//! was given up, and the journal says so. Hence an object that is not found now is not found after
//! a restart either.

mod background;
mod cluster_scan;
mod counting;
mod dump;
mod eviction_offers;
mod evictions;
mod fetches;
mod health;
mod insertion;
mod kept_records;
mod label_upkeep;
mod lookup;
mod maintenance;
mod neighbour_records;
mod neighbours;
mod new_object;
mod object_labels;
mod piece_run;
mod placement;
mod prefetch;
mod purge_log;
mod purge_state;
mod purging;
mod read_plan;
mod reader_holds;
mod readers;
mod reclaim;
mod recovery;
mod removal;
mod residency;
mod residents;
mod schedule;
mod sequence;
mod sizing;
mod slot_scan;
mod slots;
mod staging;
mod state;
mod stats;
mod superblock_state;
mod task;
mod virtual_cluster;
mod waiters;
mod waiting;
mod writers;

pub(crate) use cluster_scan::{ClusterScan, NextClusters};
pub(crate) use counting::Counted;
pub(crate) use eviction_offers::EvictedObject;
pub(crate) use evictions::SubscriptionId;
pub(crate) use fetches::Overtaken;
pub(crate) use neighbour_records::{
    Neighbour, NeighbourScan, ahead_verified, neighbours, verified,
};
pub(crate) use new_object::{Fetched, NewObject, TryInsert};
pub(crate) use piece_run::PieceRun;
pub(crate) use purge_state::PurgesFull;
pub(crate) use purging::Purged;
pub(crate) use read_plan::{
    Expected, Finding, LookupRequest, MemoryFinding, MetaPlan, Purpose, ReadFailure, ReadPlan,
    WaitPolicy,
};
pub use reader_holds::HeldStats;
pub(crate) use reader_holds::{HoldsRevoked, ReaderId};
pub(crate) use readers::{HOLD_STEP, HeldPiece, ReaderProgress};
pub(crate) use recovery::Recovering;
pub(crate) use sizing::{cluster_policy, objects_of};
pub(crate) use slot_scan::SlotFinds;
pub(crate) use state::{Constants, Core, Parts, Status};
pub use stats::Stats;
pub(crate) use task::{Completed, EvictPlan, LabelsPlan, SUMMARY_READ, Task};
pub(crate) use waiters::{WaiterId, Wanted};
pub(crate) use waiting::Goal;
