//! Steps of the background, as the core decides them and the shell carries them out.

use std::collections::BTreeSet;

use device::{Extent, Nanos};

use crate::base::limits::ClusterId;
use crate::base::summary::Entry;
use crate::core::reader_holds::HoldsRevoked;
use crate::format::checkpoint::Checkpoint;
use crate::format::journal::FlushMark;
use crate::space::appender::{Requests, WriteJob};
use crate::space::slots::page_write::{PageDone, PageJob};

/// The next step of the background.
pub(crate) enum Task {
    /// Wait for the deadline, or for a change.
    Idle(Option<Nanos>),
    /// Write the journal's facts; flush when `durable`.
    Sync { durable: bool },
    /// Write records.
    Write(WriteJob),
    /// Write pages of slots.
    WritePages(PageJob),
    /// Read the summary of a cluster, and evict the cluster.
    Evict(EvictPlan),
    /// Read the summary of a cluster to learn its runs. It is pinned meanwhile.
    Learn { cluster: ClusterId, incarnation: u64, extent: Extent },
    /// Read a cluster to learn the labels of its records. It is pinned meanwhile.
    ReadLabels(LabelsPlan),
    /// Ask again after yielding to other tasks.
    Again,
    /// Report revoked holds.
    Report(HoldsRevoked),
    /// Write a checkpoint.
    Checkpoint,
    /// Write the superblocks with this run of the store.
    NameRun(u64),
    /// The store is offline: stop.
    Stop,
}

/// The result of a step of the background.
pub(crate) enum Completed {
    /// Records were written by these requests; `None` when the device did not take all of them.
    Write(WriteJob, Option<Requests>),
    /// Pages of slots were written, or failed.
    WritePages(PageJob, Vec<PageDone>),
    /// A flush ended at this time: everything written before the mark is durable.
    Flush(FlushMark, Nanos),
    /// The summary of a cluster to evict was read; `None` when it has no readable one.
    Evict(EvictPlan, Option<Vec<Entry>>),
    /// The summary of a cluster was read to learn its runs; empty when it has none.
    Learn { cluster: ClusterId, incarnation: u64, entries: Vec<Entry> },
    /// A cluster was read for its labels; `None` when it was not read completely.
    ReadLabels(LabelsPlan, Option<Vec<u64>>),
    /// The checkpoint is durable.
    Checkpoint(Checkpoint),
    /// The superblocks name this run of the store.
    NameRun(u64),
    /// The background itself has ended.
    Background,
}

/// A cluster to evict; pinned meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct EvictPlan {
    pub(crate) cluster: ClusterId,
    pub(crate) incarnation: u64,
    pub(crate) extent: Extent,
    /// True if all of its records are dead, so that its summary is not needed.
    pub(crate) all_dead: bool,
}

/// Bytes at the end of a cluster that are read first for its summary.
pub(crate) const SUMMARY_READ: u32 = 4096;

/// A cluster to read for the labels of its live records.
pub(crate) struct LabelsPlan {
    pub(crate) evict: EvictPlan,
    /// Granules of its dead records.
    pub(crate) dead: BTreeSet<u32>,
}
